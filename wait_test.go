package saferetry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// arrivals are the times at which requests came in, from start.
func (s *scripted) arrivals(start time.Time) (at []time.Duration) {
	for _, r := range s.requests() {
		at = append(at, r.at.Sub(start))
	}
	return at
}

// constant waits d each time.
func constant(d time.Duration) saferetry.Option {
	return saferetry.WithBackOff(func() backoff.BackOff { return backoff.NewConstantBackOff(d) })
}

// recordWaits appends each wait to waits.
func recordWaits(waits *[]time.Duration) saferetry.Option {
	return saferetry.WithHooks(saferetry.Hooks{Wait: func(_ saferetry.Attempt, d time.Duration) { *waits = append(*waits, d) }})
}

func TestWaitsAreThePolicysInItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, base := time.Now(), script(answers(503), loses(io.EOF), answers(429), answers(201))
		growing := saferetry.WithBackOff(func() backoff.BackOff {
			return backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMultiplier(3), backoff.WithRandomizationFactor(0))
		})
		_, report, err := perform(t, base, scriptedPost(t.Context()), growing)
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, time.Second, 4 * time.Second, 13 * time.Second}, base.arrivals(start))
		assert.Equal(t, 13*time.Second, report.Waited)
	})
}

func TestNoWaitFollowsTheLastAttempt(t *testing.T) {
	for name, step := range map[string]scriptedStep{"answer": answers(503), "error": loses(io.EOF)} {
		synctest.Test(t, func(t *testing.T) {
			start, base := time.Now(), script(step)
			var waits []time.Duration
			_, report, _ := perform(t, base, scriptedPost(t.Context()), constant(2*time.Second), saferetry.WithMaxAttempts(3), recordWaits(&waits))
			assert.Equal(t, saferetry.Exhausted, report.Reason, name)
			assert.Equal(t, []time.Duration{0, 2 * time.Second, 4 * time.Second}, base.arrivals(start))
			assert.Equal(t, 4*time.Second, time.Since(start))
			assert.Equal(t, []time.Duration{2 * time.Second, 2 * time.Second}, waits)
		})
	}
}

func TestBackOffIsMadeOncePerOperationAtItsFirstFailure(t *testing.T) {
	var made, reset int
	policy := saferetry.WithBackOff(func() backoff.BackOff { made++; return &countingBackOff{reset: &reset} })
	transport := func(steps ...scriptedStep) *saferetry.Transport {
		return saferetry.NewTransport(script(steps...), policy)
	}
	for _, test := range []struct {
		transport *saferetry.Transport
		made      int
	}{
		{transport(answers(201)), 0},
		{transport(answers(422)), 0},
		{transport(answers(503), answers(503), answers(503), answers(201)), 1},
		{transport(loses(io.EOF), answers(201)), 1},
	} {
		made, reset = 0, 0
		resp, err := test.transport.RoundTrip(scriptedPost(t.Context()))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, test.made, made)
		assert.Equal(t, test.made, reset)
	}
}

// countingBackOff stops unless it was reset first.
type countingBackOff struct{ reset *int }

func (b *countingBackOff) Reset() { *b.reset++ }
func (b *countingBackOff) NextBackOff() time.Duration {
	if *b.reset == 0 {
		return backoff.Stop
	}
	return 0
}

// A cenkalti policy made as a literal waits zero until it is reset.
func TestBackOffMadeAsALiteralNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, base := time.Now(), script(answers(503), answers(503), answers(201))
		_, _, err := perform(t, base, scriptedPost(t.Context()), saferetry.WithBackOff(func() backoff.BackOff {
			return &backoff.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 2, MaxInterval: time.Minute, Stop: backoff.Stop, Clock: backoff.SystemClock}
		}))
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second}, base.arrivals(start))
	})
}

func TestBackOffThatStopsExhaustsTheOperation(t *testing.T) {
	for name, policy := range map[string]func() backoff.BackOff{
		"StopBackOff": func() backoff.BackOff { return &backoff.StopBackOff{} },
		"nil":         func() backoff.BackOff { return nil },
		"max retries": func() backoff.BackOff { return backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			resp, report, err := perform(t, script(answers(503)), scriptedPost(t.Context()), saferetry.WithBackOff(policy))
			require.NoError(t, err)
			assert.Equal(t, 503, resp.StatusCode)
			assert.Equal(t, 1, report.Attempts)
			assert.Equal(t, saferetry.Exhausted, report.Reason)
		})
	}
}

func TestBackOffOfElapsedTimeStopsTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(answers(503))
		_, report, err := perform(t, base, scriptedPost(t.Context()), saferetry.WithMaxAttempts(100), saferetry.WithBackOff(func() backoff.BackOff {
			return backoff.NewExponentialBackOff(backoff.WithInitialInterval(time.Second), backoff.WithMultiplier(1),
				backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(5*time.Second))
		}))
		require.NoError(t, err)
		assert.Equal(t, saferetry.Exhausted, report.Reason)
		assert.Equal(t, 6, report.Attempts, "the seventh would start after 6s")
	})
}

// The server said when: the policy's own wait where that is longer, else the
// floor and up to base on top.
func TestRetryAfterIsAFloorWithUpToBaseAtRandom(t *testing.T) {
	for _, header := range [][]string{{"Retry-After", "3"}, {"Retry-After-Ms", "3000"}, {"Retry-After", "1", "Retry-After", "3.0"}} {
		synctest.Test(t, func(t *testing.T) {
			seen := make(map[time.Duration]bool)
			for range 200 {
				var waits []time.Duration
				_, _, err := perform(t, script(answers(429, header...), answers(201)), scriptedPost(t.Context()), recordWaits(&waits))
				require.NoError(t, err)
				require.Len(t, waits, 1)
				require.GreaterOrEqual(t, waits[0], 3*time.Second)
				require.LessOrEqual(t, waits[0], 3200*time.Millisecond)
				seen[waits[0]] = true
			}
			assert.Greater(t, len(seen), 150, "all come back together")
		})
	}
}

func TestRetryAfterIsExactWithoutBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, base := time.Now(), script(answers(429, "Retry-After", "3"), answers(503, "Retry-After-Ms", "1"), answers(201))
		_, report, err := perform(t, base, scriptedPost(t.Context()), withoutWaits)
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, 3 * time.Second, 3001 * time.Millisecond}, base.arrivals(start))
		assert.Equal(t, 3001*time.Millisecond, report.Waited)
	})
}

func TestRetryAfterDoesNotShortenThePolicysWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, base := time.Now(), script(answers(429, "Retry-After", "3"), answers(201))
		_, _, err := perform(t, base, scriptedPost(t.Context()), constant(10*time.Second))
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, 10 * time.Second}, base.arrivals(start))
	})
}

// Five attempts are five requests, and each wait is the policy's own, as if the
// header were absent.
func TestZeroRetryAfterHammersTheServer(t *testing.T) {
	for _, value := range []string{"0", "-1", "Fri, 31 Dec 1999 23:59:59 GMT", "soon"} {
		synctest.Test(t, func(t *testing.T) {
			start, base := time.Now(), script(answers(429, "Retry-After", value))
			resp, report, err := perform(t, base, scriptedPost(t.Context()), constant(7*time.Second), saferetry.WithMaxAttempts(5))
			require.NoError(t, err)
			assert.Equal(t, 429, resp.StatusCode)
			assert.Equal(t, saferetry.Exhausted, report.Reason)
			assert.Equal(t, []time.Duration{0, 7 * time.Second, 14 * time.Second, 21 * time.Second, 28 * time.Second}, base.arrivals(start), value)
		})
	}
}

func TestRetryAfterSecondsThatOverflowAreAnImmediateRetry(t *testing.T) {
	for _, value := range []string{"9223372037", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		synctest.Test(t, func(t *testing.T) {
			start, base := time.Now(), script(answersWith(503, "later", "Retry-After", value))
			resp, report, err := perform(t, base, scriptedPost(t.Context()), saferetry.WithMaxRetryAfter(1<<63-1))
			require.NoError(t, err)
			assert.Equal(t, saferetry.RetryAfterTooLong, report.Reason, value)
			assert.Len(t, base.requests(), 1)
			assert.Zero(t, time.Since(start))
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "later", string(body))
		})
	}
}

func TestRetryAfterOverTheMaximumEndsTheOperationAtOnce(t *testing.T) {
	for _, test := range []struct {
		max    time.Duration
		value  string
		reason saferetry.StopReason
	}{
		{5 * time.Second, "5", saferetry.Answered},
		{5 * time.Second, "5.001", saferetry.RetryAfterTooLong},
		{5 * time.Second, "Sat, 01 Jan 2000 00:00:05 GMT", saferetry.Answered},
		{5 * time.Second, "Sat, 01 Jan 2000 00:00:06 GMT", saferetry.RetryAfterTooLong},
		{0, "0.001", saferetry.RetryAfterTooLong},
		{0, "0", saferetry.Answered},
	} {
		synctest.Test(t, func(t *testing.T) { // a bubble's clock starts with the year 2000
			base := script(answers(503, "Retry-After", test.value), answers(201))
			start := time.Now()
			_, report, err := perform(t, base, scriptedPost(t.Context()), withoutWaits, saferetry.WithMaxRetryAfter(test.max))
			require.NoError(t, err)
			assert.Equal(t, test.reason, report.Reason, test.value)
			if test.reason == saferetry.RetryAfterTooLong {
				assert.Zero(t, time.Since(start))
			}
		})
	}
}

func TestRetryAfterMaximumDoesNotBoundThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(answers(503, "Retry-After", "1"), answers(201))
		_, report, err := perform(t, base, scriptedPost(t.Context()), constant(time.Hour), saferetry.WithMaxRetryAfter(time.Second))
		require.NoError(t, err)
		assert.Equal(t, time.Hour, report.Waited)
	})
}

// The 503 comes back at once, its body unread, since the wait cannot be had.
func TestDeadlineNearerThanTheWaitIsWaitedFor(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *scripted, saferetry.Option) (*http.Response, error){
		"context": func(t *testing.T, base *scripted, hooks saferetry.Option) (*http.Response, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			t.Cleanup(cancel)
			return saferetry.NewClient(&http.Client{Transport: base}, hooks).Do(scriptedPost(ctx))
		},
		"http.Client.Timeout": func(t *testing.T, base *scripted, hooks saferetry.Option) (*http.Response, error) {
			return saferetry.NewClient(&http.Client{Transport: base, Timeout: 300 * time.Millisecond}, hooks).Do(scriptedPost(t.Context()))
		},
	} {
		for _, step := range []scriptedStep{answersWith(503, "later", "Retry-After", "2"), answersWith(503, "later", "Retry-After", "0.3")} {
			synctest.Test(t, func(t *testing.T) {
				var done saferetry.Report
				hooks := saferetry.WithHooks(saferetry.Hooks{Done: func(_ *http.Request, r saferetry.Report) { done = r }})
				start, base := time.Now(), script(step)
				resp, err := call(t, base, hooks)
				require.NoError(t, err, name)
				assert.Zero(t, time.Since(start))
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, "later", string(body))
				report, ok := saferetry.ReportOf(resp, nil)
				require.True(t, ok)
				assert.Equal(t, saferetry.Deadline, report.Reason)
				assert.Equal(t, report, done)
				assert.Len(t, base.requests(), 1)
			})
		}
	}
}

func TestDeadlineNearerThanTheWaitAfterAnErrorIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, report, err := perform(t, script(loses(io.ErrUnexpectedEOF)), scriptedPost(ctx), constant(time.Second))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, saferetry.Deadline, report.Reason)
		assert.Zero(t, time.Since(start))
		assert.True(t, isTimeout(err))
	})
}

func TestDeadlineAfterTheWaitLetsItHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+1)
		defer cancel()
		_, report, err := perform(t, script(answers(503), answers(201)), scriptedPost(ctx), constant(time.Second))
		require.NoError(t, err)
		assert.Equal(t, 2, report.Attempts)
	})
}

func TestDeadlineThatPassesInAnAttemptIsNotACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, report, err := perform(t, script(hangs), scriptedPost(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.Equal(t, saferetry.Deadline, report.Reason)
		assert.Equal(t, saferetry.Unknown, report.Outcome)
		assert.Equal(t, time.Second, time.Since(start))
		assert.True(t, isTimeout(err))
	})
}

// Cancelled 50 ms into a wait of 10 s: the call returns then, and who cancelled
// it is found in its error.
func TestCancelInTheWaitIsNoticedAtItsEnd(t *testing.T) {
	own := errors.New("the user left")
	for name, first := range map[string]scriptedStep{"answer": answersWith(503, "later"), "timeout": loses(os.ErrDeadlineExceeded)} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(own) })
			start, base := time.Now(), script(first)
			_, report, err := perform(t, base, scriptedPost(ctx), constant(10*time.Second))
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, own)
			assert.Equal(t, 50*time.Millisecond, time.Since(start), name)
			assert.Equal(t, 50*time.Millisecond, report.Waited)
			assert.Equal(t, saferetry.Canceled, report.Reason)
			assert.Equal(t, saferetry.Unknown, report.Outcome)
			assert.Equal(t, 1, report.Attempts)
			assert.Empty(t, report.Failed, "no attempt followed")
			assert.Len(t, base.requests(), 1)
			assert.False(t, isTimeout(err), "cancelled, not timed out")
		})
	}
}

func TestCancelBeforeTheFirstAttemptSendsNothing(t *testing.T) {
	own := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(own)
	body := &scriptedBody{Reader: http.NoBody}
	req := scriptedPost(ctx)
	req.Body = body
	base := script(answers(200))
	_, report, err := perform(t, base, req, keyFunc("order-1"))
	require.ErrorIs(t, err, own)
	assert.Empty(t, base.requests())
	assert.Equal(t, 1, body.closed)
	assert.Equal(t, saferetry.Report{Key: "order-1", Reason: saferetry.Canceled, Outcome: saferetry.NotSent}, report)
}

// An answer that came although the caller has gone is still the last attempt's
// answer.
func TestCancelBehindAnAnswerReturnsTheAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	resp, report, err := perform(t, script(func(req *http.Request) (*http.Response, error) {
		cancel()
		return answersWith(503, "later")(req)
	}), scriptedPost(ctx))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "later", string(body))
	assert.Equal(t, saferetry.Canceled, report.Reason)
	assert.Equal(t, 1, report.Attempts)
}

// isTimeout asks as callers of net and net/http do.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
