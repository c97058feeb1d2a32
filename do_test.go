package saferetry_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// scriptedCalls is what a call of Do returns, one error after another, the last
// over and over.
type scriptedCalls struct {
	errs []error
	at   []time.Time
	keys []string
}

func calls(errs ...error) *scriptedCalls { return &scriptedCalls{errs: errs} }

func (c *scriptedCalls) call(ctx context.Context, key string) (string, error) {
	c.at, c.keys = append(c.at, time.Now()), append(c.keys, key)
	return "result", c.errs[min(len(c.keys), len(c.errs))-1]
}

// attemptsOf is how often Do calls what fails with err, and the report.
func attemptsOf(t *testing.T, err error, opts ...saferetry.Option) (int, saferetry.Report) {
	t.Helper()
	c := calls(err)
	result, got := saferetry.Do(t.Context(), c.call, append([]saferetry.Option{withoutWaits}, opts...)...)
	require.ErrorIs(t, got, err)
	require.Empty(t, result, "the zero value beside an error")
	report, ok := saferetry.ReportOf(nil, got)
	require.True(t, ok)
	require.Equal(t, len(c.keys), report.Attempts)
	return report.Attempts, report
}

type sdkError struct{ status int }

func (e sdkError) Error() string       { return fmt.Sprint("sdk: status ", e.status) }
func (e sdkError) HTTPStatusCode() int { return e.status }

type otherSDKError struct{ status int }

func (e *otherSDKError) Error() string   { return fmt.Sprint("sdk: status ", e.status) }
func (e *otherSDKError) StatusCode() int { return e.status }

func TestDoUsesOneKeyForAllAttempts(t *testing.T) {
	for name, test := range map[string]struct {
		ctx  context.Context
		opts []saferetry.Option
		want string
	}{
		"context":  {saferetry.WithKey(t.Context(), "order-1"), []saferetry.Option{keyFunc("made")}, "order-1"},
		"function": {t.Context(), []saferetry.Option{keyFunc("made")}, "made"},
		"random":   {t.Context(), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := calls(io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, nil)
			var inContext []string
			result, err := saferetry.Do(test.ctx, func(ctx context.Context, key string) (string, error) {
				found, ok := saferetry.KeyFromContext(ctx)
				require.True(t, ok)
				inContext = append(inContext, found)
				return c.call(ctx, key)
			}, append(test.opts, withoutWaits)...)
			require.NoError(t, err)
			assert.Equal(t, "result", result)
			if test.want == "" {
				test.want = c.keys[0]
				id, err := uuid.Parse(test.want)
				require.NoError(t, err)
				assert.Equal(t, uuid.Version(4), id.Version())
			}
			assert.Equal(t, []string{test.want, test.want, test.want}, c.keys)
			assert.Equal(t, c.keys, inContext)
		})
	}
}

func TestDoRetriesErrorsOfTheConnectionByTheirType(t *testing.T) {
	for name, err := range map[string]error{
		"dial":           &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED},
		"DNS":            &net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true},
		"refused":        syscall.ECONNREFUSED,
		"reset":          syscall.ECONNRESET,
		"aborted":        syscall.ECONNABORTED,
		"broken pipe":    syscall.EPIPE,
		"unreachable":    syscall.EHOSTUNREACH,
		"no network":     syscall.ENETUNREACH,
		"TCP timeout":    syscall.ETIMEDOUT,
		"read":           &net.OpError{Op: "read", Net: "tcp", Err: errors.New("anything")},
		"half an answer": io.ErrUnexpectedEOF,
		"hung up":        &url.Error{Op: "Post", URL: "http://api.test", Err: io.EOF},
		"closed":         net.ErrClosed,
		"deadline":       os.ErrDeadlineExceeded,
		"inner context":  context.DeadlineExceeded,
	} {
		for wrapped, err := range wrappings(err) {
			attempts, _ := attemptsOf(t, err)
			assert.Equal(t, 4, attempts, "%s, %s", name, wrapped)
		}
	}
}

func TestDoStopsAtEveryErrorNobodyKnows(t *testing.T) {
	for name, err := range map[string]error{
		"own":                 errors.New("card declined"),
		"bare EOF":            io.EOF,
		"own cancel":          context.Canceled,
		"permanent":           backoff.Permanent(io.ErrUnexpectedEOF),
		"permanent, wrapped":  fmt.Errorf("charge: %w", backoff.Permanent(sdkError{503})),
		"marked permanent":    saferetry.Retryable(backoff.Permanent(errors.New("no")), 0),
		"certificate":         &url.Error{Op: "Post", URL: "https://api.test", Err: x509.UnknownAuthorityError{}},
		"certificate in dial": &net.OpError{Op: "dial", Err: x509.UnknownAuthorityError{}},
	} {
		attempts, report := attemptsOf(t, err)
		assert.Equal(t, 1, attempts, name)
		assert.Equal(t, saferetry.Permanent, report.Reason, name)
	}
}

func TestDoJudgesTheStatusOfAnError(t *testing.T) {
	for status, test := range map[int]struct {
		attempts int
		outcome  saferetry.Outcome
	}{
		200: {1, saferetry.Performed}, 400: {1, saferetry.Refused}, 401: {1, saferetry.Refused}, 404: {1, saferetry.Refused},
		408: {4, saferetry.Unknown}, 409: {1, saferetry.Unknown}, 422: {1, saferetry.Refused}, 429: {4, saferetry.Refused},
		500: {4, saferetry.Unknown}, 502: {4, saferetry.Unknown}, 503: {4, saferetry.Unknown}, 599: {4, saferetry.Unknown},
		0: {1, saferetry.Unknown}, -1: {1, saferetry.Unknown},
	} {
		for _, err := range []error{sdkError{status}, &otherSDKError{status}, fmt.Errorf("charge: %w", sdkError{status})} {
			attempts, report := attemptsOf(t, err)
			assert.Equal(t, test.attempts, attempts, "%T %d", err, status)
			assert.Equal(t, test.outcome, report.Outcome, "%T %d", err, status)
		}
	}
}

func TestDoOutcomeFollowsFromAllCalls(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, test := range []struct {
		errs []error
		want saferetry.Outcome
	}{
		{[]error{refused}, saferetry.NotSent},
		{[]error{refused, sdkError{429}, sdkError{400}}, saferetry.Refused},
		{[]error{io.ErrUnexpectedEOF, sdkError{401}}, saferetry.Unknown},
		{[]error{refused, errors.New("who knows")}, saferetry.Unknown},
	} {
		_, err := saferetry.Do(t.Context(), calls(test.errs...).call, withoutWaits)
		report, ok := saferetry.ReportOf(nil, err)
		require.True(t, ok)
		assert.Equal(t, test.want, report.Outcome, "%v", test.errs)
	}
}

func TestRetryableMarksAnErrorForDo(t *testing.T) {
	own := errors.New("still settling")
	attempts, report := attemptsOf(t, fmt.Errorf("charge: %w", saferetry.Retryable(own, 0)))
	assert.Equal(t, 4, attempts)
	assert.Equal(t, saferetry.Exhausted, report.Reason)
	require.ErrorIs(t, saferetry.Retryable(own, time.Second), own)
	assert.EqualError(t, saferetry.Retryable(own, time.Second), "still settling")
	assert.NoError(t, saferetry.Retryable(nil, time.Second))
}

func TestRetryableAfterIsAFloor(t *testing.T) {
	own := errors.New("still settling")
	for _, test := range []struct {
		after, policy, want time.Duration
	}{
		{3 * time.Second, 0, 3 * time.Second},
		{3 * time.Second, 10 * time.Second, 10 * time.Second},
		{0, 2 * time.Second, 2 * time.Second},
		{-time.Hour, 2 * time.Second, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, start := calls(saferetry.Retryable(own, test.after), nil), time.Now()
			_, err := saferetry.Do(t.Context(), c.call, withoutWaits, constant(test.policy))
			require.NoError(t, err)
			assert.Equal(t, test.want, c.at[1].Sub(start), "%+v", test)
		})
	}
}

func TestRetryableAfterOverTheMaximumEndsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		attempts, report := attemptsOf(t, saferetry.Retryable(errors.New("closed for today"), time.Minute+1))
		assert.Equal(t, 1, attempts)
		assert.Equal(t, saferetry.RetryAfterTooLong, report.Reason)
		assert.Zero(t, time.Since(start))
	})
}

func TestDoHasTheSameCapWaitsAndHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		c, start := calls(io.ErrUnexpectedEOF), time.Now()
		_, err := saferetry.Do(t.Context(), c.call, saferetry.WithMaxAttempts(3), constant(2*time.Second), keyFunc("order-1"),
			saferetry.WithHooks(saferetry.Hooks{
				Attempt: func(a saferetry.Attempt) {
					assert.Nil(t, a.Request)
					assert.Nil(t, a.Response)
					assert.Equal(t, io.ErrUnexpectedEOF, a.Err)
					told = append(told, fmt.Sprint("attempt ", a.Number))
				},
				Wait: func(a saferetry.Attempt, d time.Duration) {
					told = append(told, fmt.Sprint("wait ", d, " after ", a.Number))
				},
				Done: func(r *http.Request, report saferetry.Report) {
					assert.Nil(t, r)
					told = append(told, fmt.Sprint("done ", report.Reason))
				},
			}))
		assert.Equal(t, []string{"attempt 1", "wait 2s after 1", "attempt 2", "wait 2s after 2", "attempt 3", "done exhausted"}, told)
		assert.Equal(t, 4*time.Second, time.Since(start))
		report, ok := saferetry.ReportOf(nil, err)
		require.True(t, ok)
		assert.Len(t, report.Failed, 2)
		report.Failed = nil
		assert.Equal(t, saferetry.Report{Key: "order-1", Attempts: 3, Reason: saferetry.Exhausted, Waited: 4 * time.Second}, report)
		assert.EqualError(t, err, "saferetry: attempt 3: connection closed by the server (exhausted, outcome unknown, key order-1)")
	})
}

func TestDoSuccessIsReportedToHooks(t *testing.T) {
	var done saferetry.Report
	_, err := saferetry.Do(t.Context(), calls(sdkError{503}, nil).call, withoutWaits, keyFunc("order-1"),
		saferetry.WithHooks(saferetry.Hooks{Done: func(_ *http.Request, r saferetry.Report) { done = r }}))
	require.NoError(t, err)
	require.Len(t, done.Failed, 1)
	done.Failed = nil
	assert.Equal(t, saferetry.Report{Key: "order-1", Attempts: 2, Outcome: saferetry.Performed, Reason: saferetry.Answered}, done)
}

func TestDoAttemptTimeoutCancelsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, attempts := time.Now(), 0
		got, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (int, error) {
			attempts++
			if attempts < 3 {
				<-ctx.Done()
				return 0, fmt.Errorf("sdk: %w", ctx.Err())
			}
			return attempts, nil
		}, withoutWaits, saferetry.WithAttemptTimeout(100*time.Millisecond))
		require.NoError(t, err)
		assert.Equal(t, 3, got)
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
	})
}

// Every call hangs: the error is a timeout, not a cancellation.
func TestDoAttemptTimeoutLooksLikeACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, withoutWaits, saferetry.WithAttemptTimeout(time.Second))
		assert.True(t, isTimeout(err))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.NotErrorIs(t, err, context.Canceled)
		report, _ := saferetry.ReportOf(nil, err)
		assert.Equal(t, 4, report.Attempts)
		assert.Equal(t, saferetry.Unknown, report.Outcome)
	})
}

// Many SDKs have an error of their own for a context that ended. It is not
// hidden, and one that says what the server answered still stops.
func TestDoAttemptTimeoutHidesTheCallsOwnError(t *testing.T) {
	for own, want := range map[error]saferetry.StopReason{
		errors.New("rpc error: code = Canceled"): saferetry.Exhausted,
		sdkError{status: 402}:                    saferetry.Permanent,
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (int, error) {
				<-ctx.Done()
				return 0, own
			}, saferetry.WithAttemptTimeout(time.Second))
			require.ErrorIs(t, err, own)
			assert.True(t, isTimeout(err))
			report, _ := saferetry.ReportOf(nil, err)
			assert.Equal(t, want, report.Reason)
		})
	}
}

func TestDoCancelledInACallOrAWaitShowsTheCause(t *testing.T) {
	own := errors.New("the user left")
	for name, test := range map[string]struct {
		call     func(context.Context, string) (int, error)
		attempts int
	}{
		"call": {func(ctx context.Context, _ string) (int, error) { <-ctx.Done(); return 0, io.ErrUnexpectedEOF }, 1},
		"wait": {func(context.Context, string) (int, error) { return 0, io.ErrUnexpectedEOF }, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(own) })
			start := time.Now()
			_, err := saferetry.Do(ctx, test.call, constant(10*time.Second))
			require.ErrorIs(t, err, context.Canceled, name)
			require.ErrorIs(t, err, own, name)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, name)
			assert.Equal(t, 50*time.Millisecond, time.Since(start))
			report, _ := saferetry.ReportOf(nil, err)
			assert.Equal(t, saferetry.Canceled, report.Reason)
			assert.Equal(t, 1, report.Attempts)
		})
	}
}

func TestDoDeadlineNearerThanTheWaitEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := saferetry.Do(ctx, calls(io.ErrUnexpectedEOF).call, constant(2*time.Second))
		report, _ := saferetry.ReportOf(nil, err)
		assert.Equal(t, saferetry.Deadline, report.Reason)
		assert.Zero(t, time.Since(start))
		assert.True(t, isTimeout(err))
	})
}

// Bad input is a clear error, and nothing is called.
func TestDoBadInputIsRefusedBeforeAnyCall(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	c := calls(nil)
	var none context.Context
	for _, test := range []struct {
		name   string
		ctx    context.Context
		call   func(context.Context, string) (string, error)
		opts   []saferetry.Option
		reason saferetry.StopReason
		want   string
	}{
		{"nil context", none, c.call, nil, saferetry.Permanent, "Do has a nil context: want one"},
		{"nil call", t.Context(), nil, nil, saferetry.Permanent, "Do has a nil call: want a function"},
		{"empty key", saferetry.WithKey(t.Context(), ""), c.call, nil, saferetry.Permanent, "key is empty"},
		{"bad key", saferetry.WithKey(t.Context(), "sekret key"), c.call, nil, saferetry.Permanent, "byte 0x20 at index 6"},
		{"bad key made", t.Context(), c.call, []saferetry.Option{keyFunc("sekret\n")}, saferetry.Permanent, "byte 0x0a at index 6"},
		{"key function fails", t.Context(), c.call, []saferetry.Option{saferetry.WithKeyFunc(func(r *http.Request) (string, error) {
			assert.Nil(t, r)
			return "", errors.New("no entropy for sekret")
		})}, saferetry.Permanent, "key function failed"},
		{"cancelled before", cancelled, c.call, nil, saferetry.Canceled, "canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			logger, _ := recordLog()
			_, err := saferetry.Do(test.ctx, test.call, append(test.opts, saferetry.WithLogger(logger))...)
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "sekret")
			report, ok := saferetry.ReportOf(nil, err)
			require.True(t, ok)
			assert.Equal(t, test.reason, report.Reason)
			assert.Equal(t, saferetry.NotSent, report.Outcome)
			assert.Zero(t, report.Attempts)
			assert.Empty(t, c.keys)
		})
	}
}

// Succeeding is not for a classifier to judge: the default one, made for
// requests, took a call without an error for an attempt without an answer.
func TestDoRepeatsASuccessUnderAClassifier(t *testing.T) {
	for name, classify := range map[string]saferetry.Classifier{
		"default": saferetry.DefaultClassifier,
		"always":  func(saferetry.Attempt) saferetry.Decision { return saferetry.Retry },
	} {
		c := calls(nil)
		result, err := saferetry.Do(t.Context(), c.call, withoutWaits, saferetry.WithClassifier(classify))
		require.NoError(t, err)
		assert.Equal(t, "result", result)
		assert.Len(t, c.keys, 1, name)
	}
}

func TestDoClassifierDecidesOnErrors(t *testing.T) {
	own := errors.New("busy")
	attempts, _ := attemptsOf(t, own, saferetry.WithClassifier(func(a saferetry.Attempt) saferetry.Decision {
		if errors.Is(a.Err, own) {
			return saferetry.Retry
		}
		return saferetry.Stop
	}))
	assert.Equal(t, 4, attempts)
	attempts, _ = attemptsOf(t, io.ErrUnexpectedEOF, saferetry.WithClassifier(func(saferetry.Attempt) saferetry.Decision { return saferetry.Stop }))
	assert.Equal(t, 1, attempts)
}
