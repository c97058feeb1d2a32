package saferetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

func TestReportOfAFirstTrySuccess(t *testing.T) {
	_, report, err := perform(t, script(answers(201)), scriptedPost(saferetry.WithKey(t.Context(), "order-1")))
	require.NoError(t, err)
	assert.Equal(t, saferetry.Report{Key: "order-1", Attempts: 1, Outcome: saferetry.Performed, Reason: saferetry.Answered}, report)
	assert.Nil(t, report.Failed)
}

func TestReportListsTheAttemptsThatWereFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(req *http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return answers(503)(req)
		}
		_, report, err := perform(t, script(slow, loses(io.ErrUnexpectedEOF), answers(503)), scriptedPost(t.Context()),
			constant(2*time.Second), saferetry.WithMaxAttempts(3), saferetry.WithAttemptHeader("X-Attempt"))
		require.NoError(t, err)
		assert.Equal(t, saferetry.Exhausted, report.Reason)
		assert.Equal(t, 4*time.Second, report.Waited)
		require.Len(t, report.Failed, 2)
		first, second := report.Failed[0], report.Failed[1]
		assert.Equal(t, 1, first.Number)
		assert.Equal(t, 503, first.Response.StatusCode)
		assert.NoError(t, first.Err)
		assert.Equal(t, 3*time.Second, first.Duration)
		assert.Equal(t, "1", first.Request.Header.Get("X-Attempt"))
		assert.Equal(t, 2, second.Number)
		assert.Nil(t, second.Response)
		assert.Equal(t, io.ErrUnexpectedEOF, second.Err)
		assert.Zero(t, second.Duration)
		assert.Equal(t, "2", second.Request.Header.Get("X-Attempt"))
	})
}

func TestReportIsTheCallersOwnCopy(t *testing.T) {
	resp, report, err := perform(t, script(answers(503), answers(201)), scriptedPost(t.Context()), withoutWaits)
	require.NoError(t, err)
	report.Failed[0] = saferetry.Attempt{}
	again, ok := saferetry.ReportOf(resp, nil)
	require.True(t, ok)
	assert.Equal(t, 1, again.Failed[0].Number)
}

func TestReportSaysWhenTheAnswerIsAReplay(t *testing.T) {
	marked := answers(201, "Idempotent-Replayed", "true")
	for _, test := range []struct {
		name  string
		steps []scriptedStep
		want  bool
	}{
		{"replay after a lost answer", []scriptedStep{loses(io.EOF), marked}, true},
		{"replay at once", []scriptedStep{marked}, true},
		{"none", []scriptedStep{answers(201)}, false},
		{"marked false", []scriptedStep{answers(201, "Idempotent-Replayed", "false")}, false},
		{"stored error", []scriptedStep{answers(500, "Idempotency-Replayed", "true")}, true},
	} {
		_, report, err := perform(t, script(test.steps...), scriptedPost(t.Context()), withoutWaits)
		require.NoError(t, err)
		assert.Equal(t, test.want, report.Replayed, test.name)
		assert.Equal(t, saferetry.Answered, report.Reason, test.name)
	}
}

func TestReportOfWhatIsNotFromHere(t *testing.T) {
	plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test", nil)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		resp *http.Response
		err  error
	}{
		"nothing":               {nil, nil},
		"another error":         {nil, io.EOF},
		"a response by hand":    {&http.Response{StatusCode: 200}, nil},
		"a plain client's":      {&http.Response{StatusCode: 200, Request: plain}, nil},
		"an error and response": {&http.Response{StatusCode: 200, Request: plain}, io.EOF},
	} {
		report, ok := saferetry.ReportOf(test.resp, test.err)
		assert.False(t, ok, name)
		assert.Zero(t, report, name)
	}
}

// A base transport that fetches a token under the attempt's context, with a
// plain client, gets a response that has nothing to do with the operation.
func TestResponseOfARequestMadeUnderAnAttemptIsTakenForTheOperations(t *testing.T) {
	var token *http.Response
	plain := &http.Client{Transport: script(answers(200))}
	_, _, err := perform(t, script(func(req *http.Request) (*http.Response, error) {
		var err error
		inner, err := http.NewRequestWithContext(req.Context(), http.MethodGet, "http://auth.test/token", nil)
		require.NoError(t, err)
		token, err = plain.Do(inner)
		require.NoError(t, err)
		return answers(201)(req)
	}), scriptedPost(t.Context()))
	require.NoError(t, err)
	require.NoError(t, token.Body.Close())
	_, ok := saferetry.ReportOf(token, nil)
	assert.False(t, ok)
}

func TestReportIsFoundInsideOtherErrors(t *testing.T) {
	_, err := saferetry.NewClient(&http.Client{Transport: script(loses(io.EOF))}, withoutWaits).Do(scriptedPost(t.Context()))
	require.Error(t, err)
	require.ErrorAs(t, err, new(*url.Error))
	for _, err := range []error{err, fmt.Errorf("charge: %w", err), errors.Join(io.ErrClosedPipe, err)} {
		report, ok := saferetry.ReportOf(nil, err)
		require.True(t, ok)
		assert.Equal(t, 4, report.Attempts)
		assert.ErrorIs(t, err, io.EOF)
	}
}

// http.Client puts an error of its own in place of ours; Hooks.Done has the
// report.
func TestReportIsLostWhenTheClientTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done []saferetry.Report
		late := func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			time.Sleep(time.Millisecond) // the bubble's: until the client's timer, set for the same instant, has run too
			return nil, req.Context().Err()
		}
		client := saferetry.NewClient(&http.Client{Transport: script(late), Timeout: time.Second},
			saferetry.WithHooks(saferetry.Hooks{Done: func(_ *http.Request, r saferetry.Report) { done = append(done, r) }}))
		resp, err := client.Do(scriptedPost(t.Context()))
		require.True(t, isTimeout(err))
		_, ok := saferetry.ReportOf(resp, err)
		assert.False(t, ok)
		require.Len(t, done, 1)
		assert.Equal(t, saferetry.Deadline, done[0].Reason)
		assert.Equal(t, saferetry.Unknown, done[0].Outcome)
	})
}

func TestErrorTextNamesTheRequestTheErrorAndTheEnd(t *testing.T) {
	ctx := saferetry.WithKey(t.Context(), "order-4711-of-today")
	for want, test := range map[string]struct {
		err  error
		opts []saferetry.Option
	}{
		"attempt 4: connection closed by the server (exhausted, outcome unknown, key order-47)":                             {io.EOF, nil},
		"attempt 1: HTTP answer to an HTTPS request (permanent, outcome not sent, key order-47)":                            {http.ErrSchemeMismatch, nil},
		"attempt 4: *errors.errorString (exhausted, outcome unknown, key order-47)":                                         {fmt.Errorf("a: %w", errors.New("b")), nil},
		"attempt 1: connection closed by the server (exhausted, outcome unknown, key order-47)":                             {io.ErrUnexpectedEOF, []saferetry.Option{saferetry.WithMaxAttempts(1)}},
		"attempt 4: the base transport returned neither a response nor an error (exhausted, outcome unknown, key order-47)": {nil, nil},
	} {
		_, _, err := perform(t, script(loses(test.err)), scriptedPost(ctx), append(test.opts, withoutWaits)...)
		assert.EqualError(t, err, "saferetry: POST http://api.test/v1/charges: "+want)
	}
}

func TestErrorTextWithoutAKeyOrAMethod(t *testing.T) {
	req := scriptedPost(t.Context())
	req.Method = ""
	_, _, err := perform(t, script(loses(io.EOF)), req, saferetry.WithMaxAttempts(1))
	assert.EqualError(t, err, "saferetry: GET http://api.test/v1/charges: attempt 1: connection closed by the server (exhausted, outcome unknown)")

	_, _, err = perform(t, script(loses(io.EOF)), &http.Request{})
	assert.EqualError(t, err, "saferetry: GET no URL: request has no URL: want one (permanent, outcome not sent)")
}

func TestErrorIsATimeoutWhenTimeRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, _, err := perform(t, script(hangs), scriptedPost(ctx), withoutWaits, saferetry.WithAttemptTimeout(time.Second))
		var own *saferetry.Error
		require.ErrorAs(t, err, &own)
		assert.True(t, own.Timeout(), "attempts")
		assert.Equal(t, saferetry.Exhausted, own.Report.Reason)

		_, _, err = perform(t, script(hangs), scriptedPost(ctx), withoutWaits)
		require.ErrorAs(t, err, &own)
		assert.True(t, own.Timeout(), "the caller's deadline")

		_, _, err = perform(t, script(loses(io.EOF)), scriptedPost(t.Context()), withoutWaits)
		require.ErrorAs(t, err, &own)
		assert.False(t, own.Timeout())
	})
}

// What ended the operation is below *Error, with a text of its own.
func TestErrorWithinTheErrorSaysWhatHappened(t *testing.T) {
	own := errors.New("vault is sealed")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(own)
	fails := saferetry.WithKeyFunc(func(*http.Request) (string, error) { return "", own })
	for want, test := range map[string]struct {
		step scriptedStep
		ctx  context.Context
		opts []saferetry.Option
	}{
		"saferetry: no response headers within the attempt timeout": {hangs, t.Context(), []saferetry.Option{saferetry.WithAttemptTimeout(1)}},
		"context canceled":                         {answers(201), cancelled, nil},
		"saferetry: key function: vault is sealed": {answers(201), t.Context(), []saferetry.Option{fails}},
		"EOF": {loses(io.EOF), t.Context(), nil},
	} {
		_, _, err := perform(t, script(test.step), scriptedPost(test.ctx), append(test.opts, withoutWaits)...)
		var ended *saferetry.Error
		require.ErrorAs(t, err, &ended)
		assert.EqualError(t, ended.Err, want)
		assert.Equal(t, ended.Err, errors.Unwrap(err))
	}
}

func TestAttemptTimeoutIsATimeoutAsOfPackageNet(t *testing.T) {
	_, _, err := perform(t, script(hangs), scriptedPost(t.Context()), saferetry.WithAttemptTimeout(1), saferetry.WithMaxAttempts(1))
	var ended *saferetry.Error
	require.ErrorAs(t, err, &ended)
	var timeout net.Error
	require.ErrorAs(t, ended.Err, &timeout)
	assert.True(t, timeout.Timeout())
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.NotErrorIs(t, err, context.DeadlineExceeded, "not the caller's")
	assert.NotErrorIs(t, err, context.Canceled)
}
