package saferetry_test

import (
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

// afterConflict posts once, keyed, and is answered 409 with body, then 201.
func afterConflict(t *testing.T, body string, header ...string) (*http.Response, saferetry.Report) {
	t.Helper()
	base := script(answersWith(409, body, header...), answers(201))
	resp, report, err := perform(t, base, scriptedPost(t.Context()), withoutWaits)
	require.NoError(t, err)
	return resp, report
}

func TestConflictInProgressIsRetriedByItsCode(t *testing.T) {
	for _, code := range []string{
		"in_use", "in_progress", "in_flight", "concurrent", "outstanding", "in-progress", "In-Flight", "IN_USE",
		"idempotency_key_in_use", "idempotency_key_in_progress", "idempotency-key-in-use", "idempotent_in_flight",
		"idempotency_concurrent", "concurrent_request", "concurrent-requests", "request_in_progress",
		"request-already-in-progress", "key_in_use", "outstanding_request", "request_outstanding", "keys_in_flight",
		"https://api.test/errors/idempotency-key-in-use", "urn:problem:request-in-flight", "/errors/in_flight/request",
		"idempotency.request_in_progress",
	} {
		for _, body := range []string{
			`{"code":"` + code + `"}`,
			`{"error":"` + code + `"}`,
			`{"type":"` + code + `","title":"Conflict","status":409}`,
			`{"error":{"code":"` + code + `","message":"wait"}}`,
			`{"error":{"message":"wait","type":"` + code + `"}}`,
			` {"type": "about:blank", "status": 409, "error": "` + code + `"} ` + "\n",
			`{"code":409,"error":{"code":null,"type":"` + code + `"}}`,
		} {
			_, report := afterConflict(t, body)
			assert.Equal(t, 2, report.Attempts, body)
		}
	}
}

// A 409 about something else would be the same another time.
func TestConflictOfAnotherKindIsRetried(t *testing.T) {
	for _, body := range []string{
		`{"code":"email_in_use"}`, `{"code":"address-in-use"}`, `{"error":{"code":"username_in_use"}}`,
		`{"code":"subscription_in_progress"}`, `{"code":"concurrent_modification"}`, `{"code":"outstanding_balance"}`,
		`{"code":"idempotency_key_reuse"}`, `{"code":"idempotency_error"}`, `{"code":"request_conflict"}`, `{"code":"key_exists"}`,
		`{"code":"monkey_in_use"}`, `{"code":"keyboard_in_use"}`, `{"code":"prequest_in_use"}`, `{"code":"key_in_user_table"}`,
		`{"code":"key_main_use"}`, `{"code":"requestin_flight"}`, `{"code":"inuse"}`, `{"code":"nonconcurrent_request"}`,
		`{"message":"in_progress"}`, `{"detail":"idempotency_key_in_use"}`, `{"error":{"message":"in_use"}}`,
		`{"errors":[{"code":"in_use"}]}`, `{"error":["in_use"]}`, `{"code":["in_use"]}`, `{"code":{"code":"in_use"}}`,
		`["in_use"]`, `"in_use"`, `in_use`, `{"code":"in_use"`, `{"code":"in_use"} trailing`, `<error code="in_use"/>`,
		`null`, `{}`, ``,
	} {
		resp, report := afterConflict(t, body)
		assert.Equal(t, 1, report.Attempts, body)
		assert.Equal(t, saferetry.Refused, report.Outcome, body)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, body, string(got))
	}
}

func TestConflictWithRetryAfterIsRetried(t *testing.T) {
	for _, value := range []string{"1", "0", "Fri, 31 Dec 1999 23:59:59 GMT", "soon"} {
		synctest.Test(t, func(t *testing.T) {
			_, report := afterConflict(t, "taken", "Retry-After", value)
			assert.Equal(t, 2, report.Attempts, value)
		})
	}
}

func TestConflictOnAKeylessRequestIsNotRetried(t *testing.T) {
	base := script(answersWith(409, `{"code":"in_progress"}`, "Retry-After", "1"))
	req := scriptedPost(t.Context())
	req.Method = http.MethodPut
	resp, report, err := perform(t, base, req)
	require.NoError(t, err)
	assert.Equal(t, 1, report.Attempts)
	assert.Equal(t, saferetry.Refused, report.Outcome)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"code":"in_progress"}`, string(body))
}

func TestConflictInProgressIsKnownUnderAnyKeyHeader(t *testing.T) {
	base := script(answersWith(409, `{"code":"in_progress"}`), answers(201))
	_, report, err := perform(t, base, scriptedPost(t.Context()), withoutWaits, saferetry.WithKeyHeader("X-Request-Key"))
	require.NoError(t, err)
	assert.Equal(t, 2, report.Attempts)
}

// The caller reads the whole body although its beginning was looked at.
func TestConflictHandedOverIsMissingItsBeginning(t *testing.T) {
	for name, body := range map[string]string{
		"small":                `{"code":"in_progress"}`,
		"at the limit":         strings.Repeat("x", 64<<10),
		"far past the limit":   `{"code":"in_progress","padding":"` + strings.Repeat("x", 1<<20) + `"}`,
		"one past the limit":   strings.Repeat("y", 64<<10+1),
		"binary and not short": strings.Repeat("\x00\xff", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			resp, _, err := perform(t, script(answersWith(409, body)), scriptedPost(t.Context()), withoutWaits)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.True(t, body == string(got), "%d bytes of %d", len(got), len(body))
		})
	}
}

// stalling is a body that sends its beginning and then nothing until closed, or
// until the rest is due.
func stalling(start string, rest string, after time.Duration) scriptedStep {
	return func(req *http.Request) (*http.Response, error) {
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, start)
			time.Sleep(after)
			io.WriteString(w, rest)
			w.Close()
		}()
		return scriptedResponse(req, 409, r), nil
	}
}

func TestConflictThatStallsHoldsTheCallerUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		resp, report, err := perform(t, script(stalling(`{"code":"in_p`, `rogress"}`, time.Hour)), scriptedPost(t.Context()), withoutWaits)
		require.NoError(t, err)
		assert.Equal(t, 250*time.Millisecond, time.Since(start))
		assert.Equal(t, 1, report.Attempts)
		assert.Equal(t, saferetry.Answered, report.Reason)

		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.JSONEq(t, `{"code":"in_progress"}`, string(body), "the rest comes an hour later")
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

func TestConflictThatDripsForAWhileIsJudgedByItsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(stalling(`{"code":"in_p`, `rogress"}`, 249*time.Millisecond), answers(201))
		_, report, err := perform(t, base, scriptedPost(t.Context()), withoutWaits)
		require.NoError(t, err)
		assert.Equal(t, 2, report.Attempts)
	})
}

func TestConflictThatStallsIsEndedByClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		base := script(func(req *http.Request) (*http.Response, error) { return scriptedResponse(req, 409, r), nil })
		resp, _, err := perform(t, base, scriptedPost(t.Context()))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		synctest.Wait() // fails where the reading goroutine stays behind
		_, err = w.Write([]byte("late"))
		assert.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

func TestConflictWhoseBodyBreaksOffShowsItsOwnError(t *testing.T) {
	own := errors.New("connection reset")
	base := script(func(req *http.Request) (*http.Response, error) {
		body := io.MultiReader(strings.NewReader(`{"code":"in_progress"}`), &failing{own})
		return scriptedResponse(req, 409, io.NopCloser(body)), nil
	})
	resp, _, err := perform(t, base, scriptedPost(t.Context()), saferetry.WithMaxAttempts(1))
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, own)
	assert.JSONEq(t, `{"code":"in_progress"}`, string(got))
}
