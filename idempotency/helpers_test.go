package idempotency_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/internal/memconn"
)

// oneTenant is a scope function.
func oneTenant(*http.Request) (string, error) { return "tenant", nil }

func newStore(t testing.TB, opts ...idempotency.MemoryOption) *idempotency.MemoryStore {
	s := idempotency.NewMemoryStore(opts...)
	t.Cleanup(s.Close)
	return s
}

// protect puts the middleware, with a store of its own, around h.
func protect(t testing.TB, h http.HandlerFunc, opts ...idempotency.Option) http.Handler {
	return idempotency.Middleware(newStore(t), oneTenant, opts...)(h)
}

// A handler counts its runs. Unless it is told to do something else it creates a charge.
type handler struct {
	runs atomic.Int64
	then http.HandlerFunc
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.runs.Add(1)
	if h.then != nil {
		h.then(w, r)
		return
	}
	create(w, r)
}

// create answers 201 and the request's body.
func create(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Location", "/v1/charges/ch_1")
	w.WriteHeader(http.StatusCreated)
	io.Copy(w, r.Body)
	r.Body.Close()
}

// A server is a real one of net/http, and a client for it.
type server struct {
	t      testing.TB
	url    string
	client *http.Client
	close  func() // and wait for the requests under way; may be called more than once
}

func serve(t testing.TB, h http.Handler) *server {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return &server{t: t, url: srv.URL, client: srv.Client(), close: srv.Close}
}

// serveHTTP2 is serve with TLS and HTTP/2.
func serveHTTP2(t testing.TB, h http.Handler) *server {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return &server{t: t, url: srv.URL, client: srv.Client(), close: srv.Close}
}

// serveInBubble is serve over connections in memory, which let a bubble's clock go on.
func serveInBubble(t testing.TB, h http.Handler) *server {
	l := memconn.Listen()
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	go srv.Serve(l)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		srv.Close()
	})
	return &server{t: t, url: "http://server", client: &http.Client{Transport: transport}}
}

// A reply is an answer as the client got it.
type reply struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	err     error // of the request, or of reading the body
}

func (r reply) replayed() bool { return r.header.Get("Idempotent-Replayed") == "true" }

// do sends one request. The header is in pairs.
func (s *server) do(ctx context.Context, method, path, body string, header ...string) reply {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.GetBody = nil // or net/http would repeat a request with a key by itself; it does if there is no body
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return s.send(req)
}

func (s *server) send(req *http.Request) reply {
	resp, err := s.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, resp.Trailer, string(body), err}
}

func (s *server) post(key, body string, header ...string) reply {
	s.t.Helper()
	return s.do(context.Background(), http.MethodPost, "/v1/charges", body, append(header, "Idempotency-Key", key)...)
}

// wantProblem wants r to be that problem, in full.
func wantProblem(t testing.TB, r reply, status int, code string) {
	t.Helper()
	require.NoError(t, r.err)
	assert.Equal(t, status, r.status)
	assert.Equal(t, "application/problem+json", r.header.Get("Content-Type"))
	var p struct {
		Type, Title, Detail, Error string
		Status                     int
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &p), r.body)
	assert.Equal(t, code, p.Error)
	assert.Equal(t, status, p.Status)
	assert.Contains(t, p.Type, code)
	assert.NotEmpty(t, p.Title)
	assert.NotEmpty(t, p.Detail)
}

// wantCreated wants r to be what create answers to body.
func wantCreated(t testing.TB, r reply, body string, replayed bool) {
	t.Helper()
	require.NoError(t, r.err)
	assert.Equal(t, http.StatusCreated, r.status, r.body)
	assert.Equal(t, body, r.body)
	assert.Equal(t, "/v1/charges/ch_1", r.header.Get("Location"))
	assert.Equal(t, replayed, r.replayed())
}
