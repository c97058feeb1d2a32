package testserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const chargeBody = `{"amount":2500,"currency":"usd","customer":"cus_9182"}`

// An outcome is what a client saw of one request.
type outcome struct {
	status int // 0: no answer
	proto  string
	header http.Header
	body   string // as far as it came
	err    error  // of the request, or of reading the body
}

func (o outcome) replayed() bool { return o.header.Get("Idempotent-Replayed") == "true" }

func (o outcome) location() string { return o.header.Get("Location") }

// requireError expects a problem body with the given code.
func (o outcome) requireError(t testing.TB, status int, code string) {
	t.Helper()
	require.NoError(t, o.err)
	require.Equal(t, status, o.status, o.body)
	assert.Equal(t, "application/problem+json", o.header.Get("Content-Type"))
	assert.Contains(t, o.body, `"error":"`+code+`"`)
}

// do sends one request. header are pairs of name and value.
func do(t testing.TB, s *Server, c *http.Client, method, path, body string, header ...string) outcome {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return outcome{err: err}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return outcome{resp.StatusCode, resp.Proto, resp.Header, string(got), err}
}

// charge charges the customer of the documentation under key.
func charge(t testing.TB, s *Server, key string) outcome {
	t.Helper()
	return do(t, s, s.Client(), http.MethodPost, "/v1/charges", chargeBody, "Idempotency-Key", key)
}

// ways are the ways to reach a server.
var ways = []struct {
	name  string
	opts  []Option
	proto string
}{
	{"http over sockets", nil, "HTTP/1.1"},
	{"https over sockets", []Option{WithTLS()}, "HTTP/1.1"},
	{"http2 over sockets", []Option{WithHTTP2()}, "HTTP/2.0"},
	{"http in memory", []Option{WithoutListener()}, "HTTP/1.1"},
	{"https in memory", []Option{WithoutListener(), WithTLS()}, "HTTP/1.1"},
	{"http2 in memory", []Option{WithoutListener(), WithHTTP2()}, "HTTP/2.0"},
}
