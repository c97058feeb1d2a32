package saferetry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// What once went wrong, where no other file is the place for it.

func TestConflictThatCannotBeReadWholeIsTakenForARefusal(t *testing.T) {
	long := `{"detail":"` + strings.Repeat("x", 70<<10) + `","error":"idempotency_key_in_progress"}`
	for name, test := range map[string]struct {
		body    io.Reader
		attempt int
		outcome saferetry.Outcome
	}{
		"long":                 {strings.NewReader(long), 2, saferetry.Performed},
		"byte order mark":      {strings.NewReader("\ufeff" + `{"code":"in_use"}`), 2, saferetry.Performed},
		"cut off":              {io.MultiReader(strings.NewReader(`{"code":"in_`), brokenReader{syscall.ECONNRESET}), 1, saferetry.Unknown},
		"longer than is read":  {strings.NewReader(`{"detail":"` + strings.Repeat("x", 1<<20) + `"}`), 1, saferetry.Unknown},
		"whole, another error": {strings.NewReader(`{"code":"email_taken"}`), 1, saferetry.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			base := script(says(409, io.NopCloser(test.body)), says(201, http.NoBody))
			resp, err := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...).Post("http://a.test/", "", nil)
			require.NoError(t, err)
			resp.Body.Close()
			report := reportOf(t, resp, err)
			assert.Equal(t, test.attempt, report.Attempts)
			assert.Equal(t, test.outcome, report.Outcome)
		})
	}
}

func TestCancelBetweenAttemptAndJudgingHidesItsCause(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	base := roundTripFunc(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
	client := saferetry.NewClient(&http.Client{Transport: base},
		saferetry.WithHooks(saferetry.Hooks{Attempt: func(saferetry.Attempt) { cancel(why) }}))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/", nil)
	require.NoError(t, err)
	_, err = client.Do(req)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, saferetry.Canceled, reportOf(t, nil, err).Reason)
}

func TestRequestThatNetHTTPRefusesIsSentAgain(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"trailer that must not be one": func(r *http.Request) { r.ContentLength, r.Trailer = -1, http.Header{"Content-Length": nil} },
		"newline in the URL":           func(r *http.Request) { r.URL.Opaque = "//a\nb" },
		"port out of range":            func(r *http.Request) { r.URL.Host = "127.0.0.1:99999" },
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, newWireServer(t, answering(200, "")).url, struct{ io.Reader }{strings.NewReader("x")})
			require.NoError(t, err)
			spoil(req)
			_, err = saferetry.NewTransport(ownTransport(t), atOnce()...).RoundTrip(req)
			report := reportOf(t, nil, err)
			assert.Equal(t, 1, report.Attempts)
			assert.Equal(t, saferetry.Permanent, report.Reason)
			assert.Equal(t, saferetry.NotSent, report.Outcome)
		})
	}
}

// A datagram can be refused after others were taken: a connection was had.
func TestRefusalOfAReadIsTakenForOneOfTheConnection(t *testing.T) {
	refused := &net.OpError{Op: "read", Net: "udp", Err: os.NewSyscallError("recvmsg", syscall.ECONNREFUSED)}
	sent := 0
	base := roundTripFunc(func(*http.Request) (*http.Response, error) { sent++; return nil, refused })
	_, err := saferetry.NewClient(&http.Client{Transport: base}, atOnce(saferetry.WithKeyedMethods())...).Post("http://a.test/", "", nil)
	report := reportOf(t, nil, err)
	require.Equal(t, 1, sent)
	require.Equal(t, saferetry.NotRepeatable, report.Reason)
	require.Equal(t, saferetry.Unknown, report.Outcome)
}

func TestFileLongerThanItsContentLengthIsCutOff(t *testing.T) {
	name := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(name, []byte("hello world"), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	req, err := http.NewRequest(http.MethodPut, newWireServer(t, answering(200, "")).url, file)
	require.NoError(t, err)
	req.ContentLength = 5
	resp, err := saferetry.NewTransport(ownTransport(t), saferetry.WithMaxAttempts(1)).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	require.Error(t, err, "as of a bare http.Transport")
}

func TestGetBodyThatReturnsNothingSendsAnEmptyBody(t *testing.T) {
	s := newWireServer(t, answering(503, ""), answering(200, ""))
	req, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader("hello"))
	require.NoError(t, err)
	req.GetBody = func() (io.ReadCloser, error) { return nil, nil }
	_, err = saferetry.NewTransport(ownTransport(t), atOnce()...).RoundTrip(req)
	require.Equal(t, saferetry.NotReplayable, reportOf(t, nil, err).Reason)
	require.Len(t, s.seen(), 1)
}

func TestAttemptHeaderBesideTheCallersOwnSpelling(t *testing.T) {
	s := newWireServer(t, answering(200, ""))
	req, err := http.NewRequest(http.MethodGet, s.url, nil)
	require.NoError(t, err)
	req.Header["x-attempt"] = []string{"of the caller"}
	resp, err := saferetry.NewTransport(ownTransport(t), saferetry.WithAttemptHeader("X-Attempt")).RoundTrip(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, []string{"1"}, s.seen()[0].Header["X-Attempt"])
}

func TestRetryThatIsNeverMadeCostsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts int
		client := saferetry.NewClient(&http.Client{Transport: unavailable(&attempts)},
			saferetry.WithBackOff(constantly(time.Hour)), saferetry.WithBudget(saferetry.NewBudget(0, 1)), saferetry.WithMaxAttempts(2))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", nil)
		require.NoError(t, err)
		_, err = client.Do(req)
		require.ErrorIs(t, err, context.Canceled)

		resp, err := client.Get("http://a.test/")
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, saferetry.Exhausted, reportOf(t, resp, err).Reason)
		require.Equal(t, 3, attempts)
	})
}

func TestPanicOfAClassifierLeavesBodiesOpen(t *testing.T) {
	body := &countedBody{Reader: strings.NewReader("x")}
	var sent *http.Request
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		sent = req
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})
	client := saferetry.NewClient(&http.Client{Transport: base},
		saferetry.WithClassifier(func(saferetry.Attempt) saferetry.Decision { panic("boom") }))
	require.PanicsWithValue(t, "boom", func() { _, _ = client.Post("http://a.test/", "", body) })
	require.EqualValues(t, 1, body.closed.Load())
	require.Error(t, sent.Context().Err(), "its connection ends with it")
}

func TestDoWithinDoMultipliesWhatTheInnerOneMarked(t *testing.T) {
	calls := 0
	inner := func(context.Context, string) (int, error) {
		calls++
		return 0, saferetry.Retryable(errors.New("busy"), 0)
	}
	_, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (int, error) {
		return saferetry.Do(ctx, inner, atOnce()...)
	}, atOnce()...)
	require.Error(t, err)
	require.Equal(t, 4, calls)

	calls = 0
	_, err = saferetry.Do(t.Context(), func(ctx context.Context, _ string) (int, error) {
		_, err := saferetry.Do(ctx, inner, atOnce(saferetry.WithMaxAttempts(2))...)
		return 0, saferetry.Retryable(err, 0) // the call's own wish
	}, atOnce(saferetry.WithMaxAttempts(3))...)
	require.Error(t, err)
	require.Equal(t, 6, calls)
}
