package saferetry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

func TestHooksAreCalledInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		start, req := time.Now(), scriptedPost(saferetry.WithKey(t.Context(), "order-1"))
		tell := func(format string, args ...any) {
			told = append(told, fmt.Sprint(time.Since(start), " ")+fmt.Sprintf(format, args...))
		}
		hooks := saferetry.Hooks{
			Attempt: func(a saferetry.Attempt) { tell("attempt %d", a.Number) },
			Wait: func(a saferetry.Attempt, d time.Duration) {
				tell("wait %s after %d", d, a.Number)
				if a.Response != nil {
					_, err := a.Response.Body.Read(make([]byte, 1))
					assert.Equal(t, io.EOF, err, "not given up yet")
				}
			},
			Done: func(r *http.Request, report saferetry.Report) {
				assert.Same(t, req, r, "the caller's request")
				tell("done %s %s %s", report.Key, report.Reason, report.Outcome)
			},
		}
		classify := saferetry.WithClassifier(func(a saferetry.Attempt) saferetry.Decision {
			tell("judge %d", a.Number)
			return saferetry.DefaultClassifier(a)
		})
		resp, report, err := perform(t, script(answers(503), loses(io.EOF), answers(201)), req, constant(time.Second), classify, saferetry.WithHooks(hooks))
		require.NoError(t, err)
		assert.Equal(t, []string{
			"0s attempt 1", "0s judge 1", "0s wait 1s after 1",
			"1s attempt 2", "1s judge 2", "1s wait 1s after 2",
			"2s attempt 3", "2s judge 3", "2s done order-1 answered performed",
		}, told)
		assert.Equal(t, 201, resp.StatusCode)
		assert.Equal(t, 3, report.Attempts)
	})
}

// Whatever way an operation ends, Done is called once and with what ReportOf
// says.
func TestHookDoneIsCalledOncePerOperation(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	keyless := saferetry.WithKeyedMethods()
	for reason, test := range map[saferetry.StopReason]struct {
		step scriptedStep
		ctx  context.Context
		opts []saferetry.Option
	}{
		saferetry.Answered:          {answers(201), t.Context(), nil},
		saferetry.Permanent:         {loses(http.ErrSchemeMismatch), t.Context(), nil},
		saferetry.Exhausted:         {answers(503), t.Context(), nil},
		saferetry.RetryAfterTooLong: {answers(503, "Retry-After", "3600"), t.Context(), nil},
		saferetry.NotRepeatable:     {answers(503), t.Context(), []saferetry.Option{keyless}},
		saferetry.Canceled:          {answers(503), cancelled, nil},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			var done []saferetry.Report
			hooks := saferetry.WithHooks(saferetry.Hooks{Done: func(_ *http.Request, r saferetry.Report) { done = append(done, r) }})
			_, report, _ := perform(t, script(test.step), scriptedPost(test.ctx), append(test.opts, withoutWaits, hooks)...)
			assert.Equal(t, []saferetry.Report{report}, done)
			assert.Equal(t, reason, report.Reason)
		})
	}
}

func TestHookDoneIsCalledForARequestThatIsRefused(t *testing.T) {
	var done []saferetry.Report
	hooks := saferetry.WithHooks(saferetry.Hooks{
		Attempt: func(saferetry.Attempt) { assert.Fail(t, "no attempt was made") },
		Done:    func(_ *http.Request, r saferetry.Report) { done = append(done, r) },
	})
	_, report, err := perform(t, script(answers(201)), scriptedPost(saferetry.WithKey(t.Context(), "a b")), hooks)
	require.Error(t, err)
	assert.Equal(t, []saferetry.Report{report}, done)
}
