package saferetry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

func TestWrongOptionPanicsInTheConstructor(t *testing.T) {
	for want, option := range map[string]saferetry.Option{
		"WithMaxAttempts: 0: want 1 or more":                                     saferetry.WithMaxAttempts(0),
		"WithMaxAttempts: -1: want 1 or more":                                    saferetry.WithMaxAttempts(-1),
		"WithFullJitter: -1ns: want 0 or more":                                   saferetry.WithFullJitter(-1, time.Second),
		"WithFullJitter: max 1s: want at least base 2s":                          saferetry.WithFullJitter(2*time.Second, time.Second),
		"WithFullJitter: max -1s: want at least base 0s":                         saferetry.WithFullJitter(0, -time.Second),
		"WithBackOff: nil: want a function":                                      saferetry.WithBackOff(nil),
		"WithMaxRetryAfter: -1s: want 0 or more":                                 saferetry.WithMaxRetryAfter(-time.Second),
		"WithAttemptTimeout: -1s: want 0 or more":                                saferetry.WithAttemptTimeout(-time.Second),
		`WithKeyHeader: "": want a header name`:                                  saferetry.WithKeyHeader(""),
		`WithKeyHeader: "X Key": want a header name`:                             saferetry.WithKeyHeader("X Key"),
		`WithKeyHeader: "X-Key:": want a header name`:                            saferetry.WithKeyHeader("X-Key:"),
		`WithKeyHeader: "X-Key\n": want a header name`:                           saferetry.WithKeyHeader("X-Key\n"),
		`WithKeyHeader: "X-Schlüssel": want a header name`:                       saferetry.WithKeyHeader("X-Schlüssel"),
		"WithKeyFunc: nil: want a function":                                      saferetry.WithKeyFunc(nil),
		`WithKeyedMethods: "": want an HTTP method`:                              saferetry.WithKeyedMethods("POST", ""),
		`WithKeyedMethods: "PO ST": want an HTTP method`:                         saferetry.WithKeyedMethods("PO ST"),
		"WithClassifier: nil: want a function":                                   saferetry.WithClassifier(nil),
		"WithBodyBuffer: -1: want 0 or more":                                     saferetry.WithBodyBuffer(-1),
		`WithAttemptHeader: "": want a header name`:                              saferetry.WithAttemptHeader(""),
		"WithAttemptHeader: Idempotency-Key: want a header other than the key's": saferetry.WithAttemptHeader("idempotency-key"),
	} {
		want = "saferetry: " + want
		assert.PanicsWithValue(t, want, func() { saferetry.NewClient(nil, option) }, "NewClient")
		assert.PanicsWithValue(t, want, func() { saferetry.NewTransport(nil, option) }, "NewTransport")
		assert.PanicsWithValue(t, want, func() { _, _ = saferetry.Do(t.Context(), calls(nil).call, option) }, "Do")
	}
}

func TestEdgesOfOptionsAreAccepted(t *testing.T) {
	assert.NotPanics(t, func() {
		saferetry.NewTransport(nil, nil, saferetry.WithMaxAttempts(1), saferetry.WithFullJitter(0, 0), saferetry.WithFullJitter(time.Second, time.Second),
			saferetry.WithMaxRetryAfter(0), saferetry.WithAttemptTimeout(0), saferetry.WithBodyBuffer(0), saferetry.WithKeyedMethods(),
			saferetry.WithKeyHeader("!#$%&'*+-.^_`|~09azAZ"), saferetry.WithLogger(nil), saferetry.WithHooks(saferetry.Hooks{}))
	})
}

func TestOptionsApplyInOrder(t *testing.T) {
	var waits []time.Duration
	for _, test := range []struct {
		name string
		opts []saferetry.Option
		wait time.Duration
	}{
		{"policy last", []saferetry.Option{withoutWaits, constant(time.Second)}, time.Second},
		{"jitter last", []saferetry.Option{constant(time.Second), withoutWaits}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			waits = nil
			_, report, err := perform(t, script(answers(503)), scriptedPost(t.Context()),
				append(test.opts, saferetry.WithMaxAttempts(7), saferetry.WithMaxAttempts(2), recordWaits(&waits))...)
			require.NoError(t, err)
			assert.Equal(t, 2, report.Attempts)
			assert.Equal(t, []time.Duration{test.wait}, waits, test.name)
		})
	}
}

func TestDefaultIsFourAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(answers(503))
		_, report, err := perform(t, base, scriptedPost(t.Context()))
		require.NoError(t, err)
		assert.Equal(t, 4, report.Attempts)
		assert.Len(t, base.requests(), 4)
	})
}

func TestDefaultWaitsAreFullJitterFrom200msTo30s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longest [10]time.Duration
		for range 300 {
			var waits []time.Duration
			_, _, err := perform(t, script(answers(503)), scriptedPost(t.Context()), saferetry.WithMaxAttempts(len(longest)+1), recordWaits(&waits))
			require.NoError(t, err)
			for i, wait := range waits {
				longest[i] = max(longest[i], wait)
			}
		}
		for i, got := range longest {
			limit := min(200*time.Millisecond<<i, 30*time.Second)
			assert.LessOrEqual(t, got, limit, i+1)
			assert.Greater(t, got, limit*3/4, i+1)
		}
	})
}

func TestDefaultMaxRetryAfterIsAMinute(t *testing.T) {
	for value, reason := range map[string]saferetry.StopReason{"60": saferetry.Answered, "60.001": saferetry.RetryAfterTooLong} {
		synctest.Test(t, func(t *testing.T) {
			_, report, err := perform(t, script(answers(503, "Retry-After", value), answers(201)), scriptedPost(t.Context()))
			require.NoError(t, err)
			assert.Equal(t, reason, report.Reason)
		})
	}
}

func TestDefaultAttemptTimeoutIs30s(t *testing.T) {
	for timeout, option := range map[time.Duration]saferetry.Option{
		30 * time.Second: nil,
		time.Minute:      saferetry.WithAttemptTimeout(time.Minute),
	} {
		synctest.Test(t, func(t *testing.T) {
			base, start := script(hangs), time.Now()
			_, _, err := perform(t, base, scriptedPost(t.Context()), option, withoutWaits, saferetry.WithMaxAttempts(2))
			require.True(t, isTimeout(err))
			assert.Equal(t, []time.Duration{0, timeout}, base.arrivals(start))
			assert.Equal(t, 2*timeout, time.Since(start))
		})
	}
}

func TestAttemptTimeoutOfZeroIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, err := perform(t, script(func(req *http.Request) (*http.Response, error) {
			time.Sleep(24 * time.Hour)
			return answers(201)(req)
		}), scriptedPost(t.Context()), saferetry.WithAttemptTimeout(0))
		require.NoError(t, err)

		_, err = saferetry.Do(t.Context(), func(ctx context.Context, _ string) (int, error) {
			time.Sleep(24 * time.Hour)
			return 0, ctx.Err()
		}, saferetry.WithAttemptTimeout(0))
		require.NoError(t, err)
	})
}

func TestDefaultKeyIsARandomUUIDInIdempotencyKey(t *testing.T) {
	base := script(answers(201))
	_, report, err := perform(t, base, scriptedPost(t.Context()))
	require.NoError(t, err)
	id, err := uuid.Parse(report.Key)
	require.NoError(t, err)
	assert.Equal(t, uuid.Version(4), id.Version())
	assert.Equal(t, http.Header{"Idempotency-Key": {report.Key}}, base.requests()[0].header, "and no other header")
}

// A reader that cannot be rewound is remembered up to a mebibyte.
func TestDefaultBodyBufferIsAMebibyte(t *testing.T) {
	for _, test := range []struct {
		size   int
		option saferetry.Option
		reason saferetry.StopReason
	}{
		{1 << 20, nil, saferetry.Answered},
		{1<<20 + 1, nil, saferetry.NotReplayable},
		{1<<20 + 1, saferetry.WithBodyBuffer(1<<20 + 1), saferetry.Answered},
		{1, saferetry.WithBodyBuffer(0), saferetry.NotReplayable},
	} {
		req := scriptedPost(t.Context())
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, test.size)))), nil, -1
		base := script(answers(503), answers(201))
		_, report, err := perform(t, base, req, withoutWaits, test.option)
		require.NoError(t, err)
		assert.Equal(t, test.reason, report.Reason, test.size)
		for _, r := range base.requests() {
			assert.Len(t, r.body, test.size)
		}
	}
}

func TestAttemptHeaderCountsFromOne(t *testing.T) {
	base := script(answers(503), answers(503), answers(201))
	_, _, err := perform(t, base, scriptedPost(t.Context()), withoutWaits, saferetry.WithAttemptHeader("x-attempt"))
	require.NoError(t, err)
	assert.Equal(t, []string{"1", "2", "3"}, base.keys("X-Attempt"))
}

func TestKeyedMethodsAreCopied(t *testing.T) {
	methods := []string{"POST"}
	transport := saferetry.NewTransport(script(answers(201)), saferetry.WithKeyedMethods(methods...))
	methods[0] = "GET"
	resp, err := transport.RoundTrip(scriptedPost(t.Context()))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	report, _ := saferetry.ReportOf(resp, err)
	assert.NotEmpty(t, report.Key)
}

func TestNewClientCopiesTheBaseAndWrapsItsTransport(t *testing.T) {
	check := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base := &http.Client{Transport: script(answers(503), answers(201)), Timeout: time.Minute, CheckRedirect: check}
	before := *base
	client := saferetry.NewClient(base, withoutWaits)
	assert.Equal(t, before.Transport, base.Transport, "the base is left as it was")
	assert.Equal(t, time.Minute, client.Timeout)
	assert.NotNil(t, client.CheckRedirect)
	resp, err := client.Do(scriptedPost(t.Context()))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 201, resp.StatusCode)
	assert.IsType(t, (*saferetry.Transport)(nil), saferetry.NewClient(nil).Transport)
}

func TestNilBaseIsTheDefaultTransportOfTheMoment(t *testing.T) {
	transport := saferetry.NewTransport(nil)
	defer func(before http.RoundTripper) { http.DefaultTransport = before }(http.DefaultTransport)
	http.DefaultTransport = script(answers(204))
	resp, err := transport.RoundTrip(scriptedPost(t.Context()))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 204, resp.StatusCode)
}

type idleCloser struct {
	*scripted
	closed int
}

func (c *idleCloser) CloseIdleConnections() { c.closed++ }

func TestCloseIdleConnectionsReachesTheBase(t *testing.T) {
	base := &idleCloser{scripted: script(answers(201))}
	saferetry.NewClient(&http.Client{Transport: base}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	assert.NotPanics(t, saferetry.NewTransport(base.scripted).CloseIdleConnections, "a base that has none")
}

// Each of many operations has its own policy.
func TestBackOffPolicyIsNotShared(t *testing.T) {
	var policies []*backoff.ExponentialBackOff
	transport := saferetry.NewTransport(script(answers(503), answers(201), answers(503), answers(201)), saferetry.WithBackOff(func() backoff.BackOff {
		policies = append(policies, backoff.NewExponentialBackOff(backoff.WithInitialInterval(1)))
		return policies[len(policies)-1]
	}))
	for range 2 {
		resp, err := transport.RoundTrip(scriptedPost(t.Context()))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Len(t, policies, 2)
	assert.NotSame(t, policies[0], policies[1])
}
