package saferetry_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// hangingUntil answers nothing before the n-th request; 0 answers none.
func hangingUntil(n int32) http.HandlerFunc {
	var requests atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) != n {
			<-r.Context().Done()
		}
	}
}

func TestAttemptsThatHangAreTimedOutAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := bubbleTransport(t, hangingUntil(3))
		client := saferetry.NewClient(&http.Client{Transport: base}, atOnce(saferetry.WithAttemptTimeout(100*time.Millisecond))...)
		start := time.Now()
		resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
		require.NoError(t, err)
		resp.Body.Close()
		report := reportOf(t, resp, err)

		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
		assert.Equal(t, 3, report.Attempts)
		assert.Equal(t, saferetry.Performed, report.Outcome)
		assert.Equal(t, 100*time.Millisecond, report.Failed[1].Duration)
	})
}

// A caller that tells a cancellation from a failure must not be misled.
func TestAttemptsThatAllHangEndInATimeoutNotInACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := bubbleTransport(t, hangingUntil(0))
		client := saferetry.NewClient(&http.Client{Transport: base}, atOnce(saferetry.WithAttemptTimeout(100*time.Millisecond))...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the caller's deadline is far
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/", strings.NewReader("x"))
		require.NoError(t, err)
		start := time.Now()
		resp, err := client.Do(req)
		require.Nil(t, resp)
		report := reportOf(t, resp, err)

		assert.Equal(t, 400*time.Millisecond, time.Since(start))
		assert.Equal(t, 4, report.Attempts)
		assert.Equal(t, saferetry.Exhausted, report.Reason)
		assert.Equal(t, saferetry.Unknown, report.Outcome)
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, context.Canceled)
	})
}

func TestCallersDeadlineIsNotTakenForAnAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := bubbleTransport(t, hangingUntil(0))
		client := saferetry.NewClient(&http.Client{Transport: base}, atOnce(saferetry.WithAttemptTimeout(time.Second))...)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/", strings.NewReader("x"))
		require.NoError(t, err)
		start := time.Now()
		resp, err := client.Do(req)
		require.Nil(t, resp)
		report := reportOf(t, resp, err)

		assert.Equal(t, 1500*time.Millisecond, time.Since(start))
		assert.Equal(t, 2, report.Attempts)
		assert.Equal(t, saferetry.Deadline, report.Reason)
		assert.Equal(t, saferetry.Unknown, report.Outcome)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAttemptTimeoutDoesNotCutAReturnedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := bubbleTransport(t, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(90 * time.Millisecond)
			for range 10 {
				_, _ = io.WriteString(w, "slow ")
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		})
		client := saferetry.NewClient(&http.Client{Transport: base}, saferetry.WithAttemptTimeout(100*time.Millisecond))
		resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)

		require.NoError(t, err)
		assert.Equal(t, strings.Repeat("slow ", 10), string(body))
		assert.Equal(t, 1, reportOf(t, resp, nil).Attempts)
	})
}

func TestAttemptTimeoutEndsWithTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := bubbleTransport(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "later") })
		client := saferetry.NewClient(&http.Client{Transport: base}, saferetry.WithAttemptTimeout(time.Second))
		resp, err := client.Get("http://a.test/")
		require.NoError(t, err)
		defer resp.Body.Close()

		time.Sleep(time.Hour)
		require.NoError(t, resp.Request.Context().Err(), "the timer outlived the attempt")
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "later", string(body))
		assert.ErrorIs(t, resp.Request.Context().Err(), context.Canceled, "the context outlived the answer")
	})
}

func TestNoAttemptTimeoutWaitsAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := bubbleTransport(t, func(http.ResponseWriter, *http.Request) { time.Sleep(24 * time.Hour) })
		client := saferetry.NewClient(&http.Client{Transport: base}, saferetry.WithAttemptTimeout(0))
		resp, err := client.Get("http://a.test/")
		require.NoError(t, err)
		resp.Body.Close()

		assert.Equal(t, 1, reportOf(t, resp, err).Attempts)
	})
}

// An answer that comes in the very moment of the timeout has a body that can no
// longer be read.
func TestAnswerAfterTheAttemptTimeoutIsNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newAnswer(strings.NewReader("late"))
		base := script(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return says(200, late)(req)
		}, says(200, http.NoBody))
		client := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...)
		resp, err := client.Get("http://a.test/")
		require.NoError(t, err)
		resp.Body.Close()

		assert.Equal(t, 2, reportOf(t, resp, err).Attempts)
		assert.EqualValues(t, 1, late.closed.Load())
	})
}
