package saferetry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// busyFor answers 503 and asks for that many seconds.
func busyFor(seconds string, body io.ReadCloser) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := says(503, body)(req)
		resp.Header.Set("Retry-After", seconds)
		return resp, err
	}
}

func TestCancelInTheWaitEndsTheCallThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := newAnswer(strings.NewReader("busy"))
		client := saferetry.NewClient(&http.Client{Transport: script(busyFor("10", answer))})
		lostInterest := errors.New("lost interest")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(lostInterest) })
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/", strings.NewReader("x"))
		require.NoError(t, err)
		start := time.Now()
		resp, err := client.Do(req)
		require.Nil(t, resp)
		report := reportOf(t, resp, err)

		assert.Equal(t, 50*time.Millisecond, time.Since(start))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, lostInterest)
		assert.Equal(t, 1, report.Attempts)
		assert.Equal(t, 50*time.Millisecond, report.Waited)
		assert.Equal(t, saferetry.Canceled, report.Reason)
		assert.Equal(t, saferetry.Unknown, report.Outcome)
		assert.EqualValues(t, 1, answer.closed.Load())
	})
}

func TestDeadlineNearerThanTheWaitReturnsTheAnswerAtOnce(t *testing.T) {
	for name, limit := range map[string]func(*testing.T, *http.Client, *http.Request) *http.Request{
		"context": func(t *testing.T, _ *http.Client, req *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(req.Context(), 300*time.Millisecond)
			t.Cleanup(cancel)
			return req.WithContext(ctx)
		},
		"http.Client.Timeout": func(_ *testing.T, client *http.Client, req *http.Request) *http.Request {
			client.Timeout = 300 * time.Millisecond
			return req
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := newAnswer(strings.NewReader("busy"))
				client := saferetry.NewClient(&http.Client{Transport: script(busyFor("2", answer))})
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", strings.NewReader("x"))
				require.NoError(t, err)
				start := time.Now()
				resp, err := client.Do(limit(t, client, req))
				require.NoError(t, err)
				report := reportOf(t, resp, err)

				assert.Zero(t, time.Since(start))
				assert.Equal(t, 503, resp.StatusCode)
				assert.Zero(t, answer.read.Load())
				assert.Equal(t, 1, report.Attempts)
				assert.Equal(t, saferetry.Deadline, report.Reason)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, "busy", string(body))
				resp.Body.Close()
			})
		})
	}
}

// unseenDeadline is a context that ends at a deadline and does not show it.
type unseenDeadline struct{ context.Context }

func (unseenDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

func TestDeadlineThatPassesInTheWaitIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		client := saferetry.NewClient(&http.Client{Transport: script(busyFor("10", http.NoBody))})
		req, err := http.NewRequestWithContext(unseenDeadline{ctx}, http.MethodPost, "http://a.test/", strings.NewReader("x"))
		require.NoError(t, err)
		start := time.Now()
		resp, err := client.Do(req)
		require.Nil(t, resp)

		assert.Equal(t, time.Second, time.Since(start))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, saferetry.Deadline, reportOf(t, resp, err).Reason)
	})
}

// net/http puts an error of its own in place of ours.
func TestClientTimeoutHidesTheReportFromReportOfButNotFromHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []saferetry.Report
		base := script(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			time.Sleep(time.Millisecond) // the context may end before net/http's own timer does
			return nil, req.Context().Err()
		})
		client := saferetry.NewClient(&http.Client{Transport: base, Timeout: time.Second}, saferetry.WithHooks(saferetry.Hooks{
			Done: func(_ *http.Request, r saferetry.Report) { reports = append(reports, r) },
		}))
		start := time.Now()
		resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
		require.Nil(t, resp)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		assert.Equal(t, time.Second+time.Millisecond, time.Since(start))
		_, ok := saferetry.ReportOf(resp, err)
		assert.False(t, ok)
		require.Len(t, reports, 1)
		assert.Equal(t, saferetry.Deadline, reports[0].Reason)
		assert.Equal(t, saferetry.Unknown, reports[0].Outcome)
		assert.Equal(t, 1, reports[0].Attempts)
		assert.NotEmpty(t, reports[0].Key)
	})
}

// The last answer goes to the caller whatever its status, as it came.
func TestLastAnswerIsReturnedWithItsErrorStatus(t *testing.T) {
	var answers []*countedAnswer
	base := script(func(req *http.Request) (*http.Response, error) {
		answers = append(answers, newAnswer(strings.NewReader("busy")))
		return says(503, answers[len(answers)-1])(req)
	})
	client := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...)
	resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
	require.NoError(t, err)
	defer resp.Body.Close()

	assert.Equal(t, 503, resp.StatusCode)
	require.Len(t, answers, 4)
	for _, answer := range answers[:3] {
		assert.EqualValues(t, 1, answer.closed.Load())
	}
	assert.Zero(t, answers[3].read.Load())
	assert.Zero(t, answers[3].closed.Load())
}

// A context that is done when the answer comes does not take it away.
func TestCancelAfterTheAnswerReturnsTheAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	base := script(func(req *http.Request) (*http.Response, error) {
		resp, err := says(503, newAnswer(strings.NewReader("busy")))(req)
		cancel()
		return resp, err
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/", strings.NewReader("x"))
	require.NoError(t, err)
	resp, err := saferetry.NewTransport(base).RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()

	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, saferetry.Canceled, reportOf(t, resp, err).Reason)
}

func TestContextThatIsDoneBeforeTheStartMakesNoAttempt(t *testing.T) {
	base := script(says(200, http.NoBody))
	ctx, cancel := context.WithCancelCause(t.Context())
	lostInterest := errors.New("lost interest")
	cancel(lostInterest)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/", strings.NewReader("x"))
	require.NoError(t, err)
	resp, err := saferetry.NewTransport(base).RoundTrip(req)
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, lostInterest)
	assert.Zero(t, report.Attempts)
	assert.Equal(t, saferetry.Canceled, report.Reason)
	assert.Equal(t, saferetry.NotSent, report.Outcome)
}
