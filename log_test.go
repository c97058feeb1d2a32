package saferetry_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// recordLog returns a logger of everything and the buffer it writes JSON to.
func recordLog() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})), &b
}

// records are the log's records, without their time.
func records(t *testing.T, log *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		require.NotEmpty(t, record["time"])
		delete(record, "time")
		all = append(all, record)
	}
	return all
}

func TestLogTellsOfEachFailedAttemptAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, log := recordLog()
		ctx := saferetry.WithKey(t.Context(), "order-4711-of-today")
		_, _, err := perform(t, script(answers(503), loses(io.EOF), answers(201)), scriptedPost(ctx), constant(time.Second), saferetry.WithLogger(logger))
		require.NoError(t, err)
		again, url, second := "saferetry: attempt failed, trying again", "http://api.test/v1/charges", float64(time.Second)
		assert.Equal(t, []map[string]any{
			{"level": "WARN", "msg": again, "method": "POST", "url": url, "attempt": 1.0, "status": 503.0, "wait": second, "key": "order-47"},
			{"level": "WARN", "msg": again, "method": "POST", "url": url, "attempt": 2.0, "error": "connection closed by the server", "wait": second, "key": "order-47"},
			{"level": "INFO", "msg": "saferetry: operation ended", "method": "POST", "url": url, "attempt": 3.0, "status": 201.0,
				"reason": "answered", "outcome": "performed", "waited": 2 * second, "key": "order-47"},
		}, records(t, log))
	})
}

func TestLogSaysNothingOfAFirstTrySuccess(t *testing.T) {
	logger, log := recordLog()
	_, _, err := perform(t, script(answers(201)), scriptedPost(t.Context()), saferetry.WithLogger(logger))
	require.NoError(t, err)
	assert.Empty(t, log.String())
}

func TestLogOfAnOperationWithoutAnswerSaysWhy(t *testing.T) {
	logger, log := recordLog()
	req := scriptedPost(t.Context())
	req.URL = nil
	_, _, err := perform(t, script(answers(201)), req, saferetry.WithLogger(logger))
	require.Error(t, err)
	assert.Equal(t, []map[string]any{{"level": "INFO", "msg": "saferetry: operation ended", "method": "POST", "url": "no URL", "attempt": 0.0,
		"error": "request has no URL: want one", "reason": "permanent", "outcome": "not sent", "waited": 0.0}}, records(t, log))
}

func TestLogOfDoHasNoRequest(t *testing.T) {
	logger, log := recordLog()
	_, err := saferetry.Do(t.Context(), calls(sdkError{503}, nil).call, withoutWaits, keyFunc("k"), saferetry.WithLogger(logger))
	require.NoError(t, err)
	assert.Equal(t, []map[string]any{
		{"level": "WARN", "msg": "saferetry: attempt failed, trying again", "attempt": 1.0, "error": "saferetry_test.sdkError", "wait": 0.0, "key": "k"},
		{"level": "INFO", "msg": "saferetry: operation ended", "attempt": 2.0, "error": "no error", "reason": "answered", "outcome": "performed", "waited": 0.0, "key": "k"},
	}, records(t, log))
}

// secretive is a request with a secret, each with this word in it, wherever one
// can be.
const secret = "s3cret"

func secretive(ctx context.Context) *http.Request {
	req := scriptedPostTo(saferetry.WithKey(ctx, "order-47-"+secret+"-key"),
		"http://alice-"+secret+":pass-"+secret+"@api.test/v1/charges?token="+secret+"#"+secret)
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Cookie", "session="+secret)
	req.Header.Set("X-Api-Key", secret)
	body := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("card=" + secret)), nil }
	req.Body, _ = body()
	req.GetBody = body
	return req
}

// everyFailure is every kind of failure, with secrets in it where it can have
// some.
func everyFailure() map[string]scriptedStep {
	proxy, _ := url.Parse("http://proxy-user:" + secret + "@proxy.test")
	own := errors.New("cannot talk to http://x?token=" + secret)
	return map[string]scriptedStep{
		"503":             answersWith(503, "for "+secret, "Set-Cookie", "session="+secret, "Retry-After", "0"),
		"conflict":        answersWith(409, `{"error":"idempotency_key_in_use","note":"`+secret+`"}`),
		"declined":        answersWith(402, secret, "WWW-Authenticate", secret),
		"too long":        answers(503, "Retry-After", "3600", "X-Note", secret),
		"redirect":        redirectOnce("http://bob-" + secret + ":" + secret + "@api.test/b?token=" + secret),
		"own error":       loses(own),
		"joined":          loses(errors.Join(own, own)),
		"wrapped":         loses(fmt.Errorf("%s: %w", secret, io.ErrUnexpectedEOF)),
		"in a URL":        loses(&url.Error{Op: "Post", URL: "http://x?token=" + secret, Err: own}),
		"dial":            loses(&net.OpError{Op: "dial", Err: own}),
		"refused":         loses(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}),
		"proxy":           loses(&net.OpError{Op: "proxyconnect", Err: fmt.Errorf("%s: %w", proxy, own)}),
		"DNS":             loses(&net.DNSError{Err: secret, Name: "api.test", Server: secret}),
		"DNS timeout":     loses(&net.DNSError{Err: secret, Name: "api.test", Server: secret, IsTimeout: true}),
		"certificate":     loses(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{secret}}, Host: "api.test"}),
		"scheme mismatch": loses(fmt.Errorf("%w: %s", http.ErrSchemeMismatch, secret)),
		"canceled below":  loses(fmt.Errorf("%s: %w", secret, context.Canceled)),
		"hangs":           hangs,
	}
}

// redirectOnce redirects to where it answers 503.
func redirectOnce(location string) scriptedStep {
	return func(req *http.Request) (*http.Response, error) {
		if req.Response != nil {
			return answers(503)(req)
		}
		return answers(307, "Location", location)(req)
	}
}

func TestSecretsShowUpInLogsOrErrorTexts(t *testing.T) {
	for name, step := range everyFailure() {
		synctest.Test(t, func(t *testing.T) {
			logger, log := recordLog()
			req := secretive(t.Context())
			resp, err := saferetry.NewClient(&http.Client{Transport: script(step)}, withoutWaits, saferetry.WithMaxAttempts(2),
				saferetry.WithAttemptTimeout(time.Second), saferetry.WithLogger(logger)).Do(req)
			texts := log.String()
			if err != nil {
				var own *saferetry.Error // net/http puts the URL with its query around it
				if errors.As(err, &own) {
					texts += own.Error() + fmt.Sprintf("%v %s", own, own)
				}
			}
			if resp != nil {
				require.NoError(t, resp.Body.Close())
			}
			assert.NotContains(t, texts, secret, name)
			assert.NotContains(t, texts, "alice", name)
			if !strings.Contains("declined too long", name) {
				assert.Contains(t, texts, "http://api.test", name)
				assert.Contains(t, texts, "order-47", name)
			}
		})
	}
}

func TestSecretsShowUpWhenTheRequestItselfIsWrong(t *testing.T) {
	own := errors.New("no more " + secret)
	for name, spoil := range map[string]func(*http.Request){
		"bad key":       func(r *http.Request) { r.Header.Set(saferetry.KeyHeader, secret+" "+secret) },
		"two keys":      func(r *http.Request) { r.Header[saferetry.KeyHeader] = []string{secret, secret} },
		"no host":       func(r *http.Request) { r.URL.Host = "" },
		"bad header":    func(r *http.Request) { r.Header.Set("X-Note", secret+"\n") },
		"bad name":      func(r *http.Request) { r.Header[secret+"\n"] = []string{"x"} },
		"body fails":    func(r *http.Request) { r.Body = io.NopCloser(&failing{own}) },
		"GetBody fails": func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, own } },
	} {
		t.Run(name, func(t *testing.T) {
			logger, log := recordLog()
			base := new(http.Transport)
			defer base.CloseIdleConnections()
			req := secretive(t.Context())
			spoil(req)
			var under http.RoundTripper = base
			if name == "GetBody fails" {
				under = script(answers(503))
			}
			_, _, err := perform(t, under, req, withoutWaits, saferetry.WithLogger(logger))
			require.Error(t, err)
			assert.NotContains(t, log.String()+err.Error(), secret)
			assert.NotEmpty(t, log.String())
		})
	}
}

func TestSecretsShowUpInLogsOrErrorTextsOfDo(t *testing.T) {
	for name, step := range everyFailure() {
		synctest.Test(t, func(t *testing.T) {
			logger, log := recordLog()
			plain := &http.Client{Transport: script(step)}
			_, err := saferetry.Do(saferetry.WithKey(t.Context(), "order-47-"+secret), func(ctx context.Context, _ string) (int, error) {
				resp, err := plain.Do(secretive(ctx))
				if err != nil {
					return 0, saferetry.Retryable(err, 0)
				}
				defer resp.Body.Close()
				return 0, sdkError{resp.StatusCode}
			}, withoutWaits, saferetry.WithAttemptTimeout(time.Second), saferetry.WithLogger(logger))
			require.Error(t, err)
			assert.NotContains(t, log.String()+err.Error(), secret, name)
			assert.Contains(t, err.Error(), "order-47", name)
		})
	}
}

func TestErrorClassIsNamedWithoutTheErrorsText(t *testing.T) {
	for want, err := range map[string]error{
		"connection refused":              &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"connection reset by peer":        &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"no such host":                    &net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true},
		"timeout":                         context.DeadlineExceeded,
		"certificate refused":             x509.UnknownAuthorityError{},
		"connection closed by the server": io.ErrUnexpectedEOF,
		"canceled":                        context.Canceled,
		"*errors.errorString":             errors.New("x"),
		"*errors.joinError":               errors.Join(errors.New("x")),
	} {
		_, _, err := perform(t, script(loses(err)), scriptedPost(t.Context()), saferetry.WithMaxAttempts(1))
		assert.ErrorContains(t, err, ": attempt 1: "+want+" (")
	}
}
