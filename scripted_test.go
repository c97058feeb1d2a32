package saferetry_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// scripted is a base transport, and an http.Handler too, that answers from a
// script, its last step over and over. As a transport it keeps the contract of http.RoundTripper: it closes the body of
// what it is given and changes nothing.
type scripted struct {
	steps []scriptedStep

	mu   sync.Mutex
	sent []scriptedRequest
}

type scriptedStep func(*http.Request) (*http.Response, error)

// scriptedRequest is a request as it arrived.
type scriptedRequest struct {
	method, url, body string
	header            http.Header
	at                time.Time
}

func script(steps ...scriptedStep) *scripted { return &scripted{steps: steps} }

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	return s.play(req)
}

// ServeHTTP plays the script as a server. A step that fails is a connection
// that breaks.
func (s *scripted) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	resp, err := s.play(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}

func (s *scripted) play(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.sent = append(s.sent, scriptedRequest{req.Method, req.URL.String(), string(body), req.Header.Clone(), time.Now()})
	step := s.steps[min(len(s.sent), len(s.steps))-1]
	s.mu.Unlock()
	return step(req)
}

func (s *scripted) requests() []scriptedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// keys are the values under name of each request that arrived, joined by "|"
// where there are several.
func (s *scripted) keys(name string) (keys []string) {
	for _, r := range s.requests() {
		keys = append(keys, strings.Join(r.header[name], "|"))
	}
	return keys
}

// answers is a step that answers with the status and header, given as pairs.
func answers(status int, header ...string) scriptedStep { return answersWith(status, "", header...) }

func answersWith(status int, body string, header ...string) scriptedStep {
	return func(req *http.Request) (*http.Response, error) {
		return scriptedResponse(req, status, io.NopCloser(strings.NewReader(body)), header...), nil
	}
}

func scriptedResponse(req *http.Request, status int, body io.ReadCloser, header ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: body, ContentLength: -1, Request: req}
}

// loses is a step that fails with err.
func loses(err error) scriptedStep {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hangs is a step that answers nothing until the attempt is given up.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// withoutWaits repeats at once, so that a test of something else takes no time.
var withoutWaits = saferetry.WithFullJitter(0, 0)

// scriptedPost is a POST whose body can be sent again.
func scriptedPost(ctx context.Context) *http.Request {
	return scriptedPostTo(ctx, "http://api.test/v1/charges")
}

func scriptedPostTo(ctx context.Context, url string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("amount=2500"))
	if err != nil {
		panic(err)
	}
	return req
}

// perform sends req through a Transport over base. It checks that exactly one of
// response and error came back, and that there is a report.
func perform(t testing.TB, base http.RoundTripper, req *http.Request, opts ...saferetry.Option) (*http.Response, saferetry.Report, error) {
	t.Helper()
	resp, err := saferetry.NewTransport(base, opts...).RoundTrip(req)
	require.Equal(t, err == nil, resp != nil, "exactly one of response and error")
	report, ok := saferetry.ReportOf(resp, err)
	require.True(t, ok, "no report")
	if resp != nil {
		t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, report, err
}

// scriptedBody is a request body that counts how often it is closed.
type scriptedBody struct {
	io.Reader
	closed int
}

func (c *scriptedBody) Close() error { c.closed++; return nil }
