package saferetry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

var decisions = map[saferetry.Decision]string{saferetry.Stop: "stop", saferetry.Retry: "retry"}

// judged is DefaultClassifier's decision on an answer to a keyed request.
func judged(status int, header ...string) string {
	req := scriptedPost(context.Background())
	req.Header.Set(saferetry.KeyHeader, "order-1")
	resp := scriptedResponse(req, status, http.NoBody, header...)
	return decisions[saferetry.DefaultClassifier(saferetry.Attempt{Number: 1, Request: req, Response: resp})]
}

func TestDefaultClassifierRetries408And429AndEvery5xx(t *testing.T) {
	for status := 100; status < 700; status++ {
		want := "stop"
		if status == 408 || status == 429 || status >= 500 {
			want = "retry"
		}
		require.Equal(t, want, judged(status), status)
	}
}

func TestDefaultClassifierStopsAtAReplay(t *testing.T) {
	for _, marker := range []string{"Idempotent-Replayed", "Idempotent-Replay", "Idempotency-Replayed",
		"Idempotency-Replay", "X-Idempotent-Replayed"} {
		assert.Equal(t, "stop", judged(500, marker, "true"), marker)
		assert.Equal(t, "stop", judged(503, marker, " True", "Retry-After", "1"), marker)
		assert.Equal(t, "stop", judged(409, marker, "TRUE", "Retry-After", "1"), marker)
		assert.Equal(t, "stop", judged(503, marker, "true", "X-Should-Retry", "true"), marker)
		assert.Equal(t, "retry", judged(500, marker, "false"), marker)
		assert.Equal(t, "retry", judged(500, marker, ""), marker)
	}
	assert.Equal(t, "retry", judged(500, "Replayed", "true"))
}

func TestDefaultClassifierHeedsShouldRetryBeforeTheStatus(t *testing.T) {
	for _, name := range []string{"X-Should-Retry", "Stripe-Should-Retry"} {
		for _, status := range []int{200, 400, 401, 409, 422} {
			assert.Equal(t, "retry", judged(status, name, "true"), status)
			assert.Equal(t, "retry", judged(status, name, " TRUE "), status)
		}
		for _, status := range []int{408, 429, 500, 503} {
			assert.Equal(t, "stop", judged(status, name, "false"), status)
			assert.Equal(t, "stop", judged(status, name, "False"), status)
		}
		assert.Equal(t, "stop", judged(409, name, "false", "Retry-After", "1"))
		for _, neither := range []string{"", "yes", "1"} {
			assert.Equal(t, "stop", judged(400, name, neither))
			assert.Equal(t, "retry", judged(503, name, neither))
		}
	}
	assert.Equal(t, "stop", judged(503, "X-Should-Retry", "true", "Stripe-Should-Retry", "false"))
	assert.Equal(t, "stop", judged(503, "X-Should-Retry", "false", "Stripe-Should-Retry", "true"))
}

// A lost connection is retried, bare or inside the errors that net/http and
// others put around it; and so is what a base transport makes up.
func TestDefaultClassifierRetriesErrorsOfTheConnection(t *testing.T) {
	call := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}
	}
	for name, err := range map[string]error{
		"DNS":                  &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true}},
		"refused":              call("dial", syscall.ECONNREFUSED),
		"host unreachable":     call("dial", syscall.EHOSTUNREACH),
		"network unreachable":  call("dial", syscall.ENETUNREACH),
		"reset":                call("read", syscall.ECONNRESET),
		"broken pipe":          call("write", syscall.EPIPE),
		"EOF":                  io.EOF,
		"unexpected EOF":       io.ErrUnexpectedEOF,
		"closed":               net.ErrClosed,
		"timeout":              os.ErrDeadlineExceeded,
		"a deadline below":     context.DeadlineExceeded,
		"handshake failure":    &net.OpError{Op: "remote error", Err: tls.AlertError(40)},
		"proxy":                &net.OpError{Op: "proxyconnect", Err: errors.New("Forbidden")},
		"of the base's making": errors.New("no responder found"),
	} {
		for wrapped, err := range wrappings(err) {
			a := saferetry.Attempt{Number: 1, Request: scriptedPost(t.Context()), Err: err}
			assert.Equal(t, saferetry.Retry, saferetry.DefaultClassifier(a), "%s, %s", name, wrapped)
		}
	}
}

func TestDefaultClassifierStopsAtHopelessErrors(t *testing.T) {
	certificate := &x509.Certificate{}
	for name, err := range map[string]error{
		"unknown authority":     x509.UnknownAuthorityError{},
		"other host":            x509.HostnameError{Certificate: certificate, Host: "api.test"},
		"expired":               x509.CertificateInvalidError{Cert: certificate, Reason: x509.Expired},
		"verification":          &tls.CertificateVerificationError{Err: errors.New("pinned to another")},
		"ours refused":          tls.AlertError(42),
		"HTTP answer to HTTPS":  http.ErrSchemeMismatch,
		"canceled by who knows": context.Canceled,
	} {
		for wrapped, err := range wrappings(err) {
			a := saferetry.Attempt{Number: 1, Request: scriptedPost(t.Context()), Err: err}
			assert.Equal(t, saferetry.Stop, saferetry.DefaultClassifier(a), "%s, %s", name, wrapped)
		}
	}
}

func wrappings(err error) map[string]error {
	return map[string]error{
		"bare":    err,
		"wrapped": fmt.Errorf("tracing: %w", err),
		"joined":  errors.Join(errors.New("first"), err),
		"in url":  &url.Error{Op: "Post", URL: "http://api.test", Err: fmt.Errorf("tracing: %w", err)},
	}
}

func TestAttemptByHandWithoutRequestIsJudged(t *testing.T) {
	conflict := scriptedResponse(nil, 409, http.NoBody, "Retry-After", "1")
	assert.Equal(t, saferetry.Stop, saferetry.DefaultClassifier(saferetry.Attempt{Response: conflict}), "not known to be keyed")
	assert.Equal(t, saferetry.Retry, saferetry.DefaultClassifier(saferetry.Attempt{Err: io.EOF}))
	assert.Equal(t, saferetry.Stop, saferetry.DefaultClassifier(saferetry.Attempt{}), "nothing failed")
	noURL := saferetry.Attempt{Request: &http.Request{}, Err: io.EOF}
	assert.Equal(t, saferetry.Retry, saferetry.DefaultClassifier(noURL))
}

// One attempt, no wait, Permanent, NotSent: what net/http refuses to send will
// be refused again.
func TestRequestThatCannotBeSentIsRetried(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"bad scheme":         func(r *http.Request) { r.URL.Scheme = "gopher" },
		"no scheme":          func(r *http.Request) { r.URL.Scheme = "" },
		"no host":            func(r *http.Request) { r.URL.Host = "" },
		"newline in header":  func(r *http.Request) { r.Header.Set("X-Note", "a\nb") },
		"bad header name":    func(r *http.Request) { r.Header["X Note"] = []string{"a"} },
		"empty header name":  func(r *http.Request) { r.Header[""] = []string{"a"} },
		"delete in header":   func(r *http.Request) { r.Header.Set("X-Note", "a\x7fb") },
		"bad method":         func(r *http.Request) { r.Method = "PO ST" },
		"newline in trailer": func(r *http.Request) { r.ContentLength = -1; r.Trailer = http.Header{"X-Sum": {"a\nb"}} },
	} {
		t.Run(name, func(t *testing.T) {
			base := new(http.Transport)
			defer base.CloseIdleConnections()
			var waits int
			req := scriptedPost(saferetry.WithKey(t.Context(), "order-1"))
			spoil(req)
			_, report, err := perform(t, base, req, saferetry.WithHooks(saferetry.Hooks{
				Wait: func(saferetry.Attempt, time.Duration) { waits++ }}))
			require.Error(t, err)
			assert.Zero(t, waits)
			assert.Equal(t, saferetry.Report{Key: "order-1", Attempts: 1, Reason: saferetry.Permanent, Outcome: saferetry.NotSent}, report)
		})
	}
}

func TestNilURLIsRefusedBeforeAnythingIsSent(t *testing.T) {
	for _, ctx := range []context.Context{t.Context(), saferetry.WithKey(t.Context(), "order-1")} {
		base := script(answers(200))
		body := &scriptedBody{Reader: strings.NewReader("amount=2500")}
		req := (&http.Request{Method: http.MethodPost, Body: body}).WithContext(ctx)
		_, report, err := perform(t, base, req)
		require.ErrorContains(t, err, "request has no URL: want one")
		assert.Empty(t, base.requests())
		assert.Equal(t, 1, body.closed)
		assert.Equal(t, saferetry.Report{Reason: saferetry.Permanent, Outcome: saferetry.NotSent}, report)
	}
}

// A transport with schemes of its own is not told that it has none.
func TestSchemeOfTheBaseTransportsOwnIsRetried(t *testing.T) {
	req := scriptedPost(t.Context())
	req.URL.Scheme = "unix"
	_, report, err := perform(t, script(loses(io.ErrUnexpectedEOF), answers(201)), req, withoutWaits)
	require.NoError(t, err)
	assert.Equal(t, 2, report.Attempts)
}

func TestPlainHTTPOnAnHTTPSURLIsPermanent(t *testing.T) {
	server := httptest.NewServer(script(answers(200)))
	defer server.Close()
	_, report, err := perform(t, server.Client().Transport, scriptedPostTo(t.Context(), strings.Replace(server.URL, "http:", "https:", 1)))
	require.ErrorIs(t, err, http.ErrSchemeMismatch)
	assert.Equal(t, 1, report.Attempts)
	assert.Equal(t, saferetry.Permanent, report.Reason)
	assert.Equal(t, saferetry.NotSent, report.Outcome)
}

// crypto/tls exports no type for the alert by which a server refuses the
// client's certificate, or the lack of one.
func TestRefusalOfTheClientsCertificateIsRetried(t *testing.T) {
	server := httptest.NewUnstartedServer(script(answers(200)))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	// Where the server's reset overtakes its alert, the first attempts say no more than that.
	_, report, err := perform(t, server.Client().Transport, scriptedPostTo(t.Context(), server.URL), withoutWaits, saferetry.WithMaxAttempts(100))
	require.Error(t, err)
	assert.Equal(t, saferetry.Permanent, report.Reason)
	assert.ErrorContains(t, err, "certificate refused")
}

func TestRequestBodyThatFailsIsPermanentWhateverTheClassifierSays(t *testing.T) {
	own := errors.New("disk on fire")
	req := scriptedPost(t.Context())
	req.Body, req.GetBody = io.NopCloser(io.MultiReader(strings.NewReader("amount"), &failing{own})), nil
	_, report, err := perform(t, script(answers(200)), req, saferetry.WithClassifier(func(saferetry.Attempt) saferetry.Decision {
		return saferetry.Retry
	}))
	require.ErrorIs(t, err, own)
	assert.Equal(t, 1, report.Attempts)
	assert.Equal(t, saferetry.Permanent, report.Reason)
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestClassifierDecidesInsteadOfTheDefault(t *testing.T) {
	var seen []int
	picky := saferetry.WithClassifier(func(a saferetry.Attempt) saferetry.Decision {
		seen = append(seen, a.Number)
		if a.Response != nil && a.Response.StatusCode == http.StatusTeapot {
			return saferetry.Retry
		}
		if a.Response != nil && a.Response.StatusCode == http.StatusServiceUnavailable {
			return saferetry.Stop
		}
		return saferetry.DefaultClassifier(a)
	})
	resp, report, err := perform(t, script(answers(418), answers(500), answers(503)), scriptedPost(t.Context()), withoutWaits, picky)
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, saferetry.Answered, report.Reason)
	assert.Equal(t, []int{1, 2, 3}, seen)
}

// Repeatable by RFC 9110, or by its key. Anything else only while no attempt
// can have reached the server.
func TestRepeatableMethods(t *testing.T) {
	for method, repeatable := range map[string]bool{
		"": true, "GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true, "PUT": true, "DELETE": true,
		"POST": false, "PATCH": false, "LOCK": false, "get": false,
	} {
		for _, step := range []scriptedStep{answers(503), answers(429), loses(io.ErrUnexpectedEOF)} {
			req := scriptedPost(t.Context())
			req.Method = method
			_, report, _ := perform(t, script(step), req, withoutWaits, saferetry.WithKeyedMethods())
			if repeatable {
				assert.Equal(t, saferetry.Exhausted, report.Reason, method)
				assert.Equal(t, 4, report.Attempts, method)
			} else {
				assert.Equal(t, saferetry.NotRepeatable, report.Reason, method)
				assert.Equal(t, 1, report.Attempts, method)
			}
			req = scriptedPost(saferetry.WithKey(t.Context(), "order-1"))
			req.Method = method
			_, report, _ = perform(t, script(step), req, withoutWaits)
			assert.Equal(t, 4, report.Attempts, method)
		}
	}
}

func TestKeylessPostIsRepeatedOnlyWhileNotSent(t *testing.T) {
	refused := loses(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	base := script(refused, refused, loses(io.ErrUnexpectedEOF), answers(201))
	_, report, err := perform(t, base, scriptedPost(t.Context()), withoutWaits, saferetry.WithKeyedMethods())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, 3, report.Attempts)
	assert.Equal(t, saferetry.NotRepeatable, report.Reason)
	assert.Equal(t, saferetry.Unknown, report.Outcome)
}

func TestConnectAndUpgradePassStraightThrough(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"CONNECT": func(r *http.Request) { r.Method = http.MethodConnect },
		"upgrade": func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
	} {
		t.Run(name, func(t *testing.T) {
			base := script(answers(503))
			req := scriptedPost(t.Context())
			change(req)
			resp, err := saferetry.NewTransport(base, keyFunc("made")).RoundTrip(req)
			require.NoError(t, err)
			assert.Equal(t, []string{""}, base.keys(saferetry.KeyHeader))
			_, ok := saferetry.ReportOf(resp, err)
			assert.False(t, ok)
		})
	}
}
