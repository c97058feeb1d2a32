package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A served is a server that runs in a process of its own.
type served struct {
	url    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// startServe runs "saferetry serve" with args and waits until it serves.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	s := &served{cmd: exec.CommandContext(t.Context(), os.Args[0], append([]string{"serve", "-addr", "127.0.0.1:0"}, args...)...)}
	s.cmd.Env = append(os.Environ(), "SAFERETRY_TEST_MAIN=1")
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Wait() }) // the test's context has killed it, if nobody else has
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscanf(line, "serving %s\n", &s.url)
	require.NoError(t, err)
	return s
}

// send sends a request as curl would, and returns status and body.
func (s *served) send(t *testing.T, method, path string, header ...string) (string, string, error) {
	t.Helper()
	body := ""
	if method == http.MethodPost && strings.HasPrefix(path, "/v1/") {
		body = `{"amount":2500,"currency":"usd","customer":"cus_9182"}`
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp.Status, string(got), err
}

func TestServeIsSteeredByAnyClient(t *testing.T) {
	s := startServe(t, "-lease", "10s", "-retention", "24h")
	_, _, err := s.send(t, "POST", "/v1/charges", "Idempotency-Key", "order-1", "X-Fault", "crash-after-write")
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	status, charge, err := s.send(t, "POST", "/v1/charges", "Idempotency-Key", "order-1")
	require.NoError(t, err)
	assert.Equal(t, "201 Created", status)
	assert.Contains(t, charge, `"id":"ch_1"`)
	status, _, err = s.send(t, "GET", "/v1/charges", "X-Fault", "answer=503;retry-after=1")
	require.NoError(t, err)
	assert.Equal(t, "503 Service Unavailable", status)

	_, requests, err := s.send(t, "GET", "/_/requests")
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(requests, `"key":"order-1"`))
	_, charges, err := s.send(t, "GET", "/_/charges")
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(charges, `"id"`))

	status, _, err = s.send(t, "POST", "/_/advance?by=25h")
	require.NoError(t, err)
	assert.Equal(t, "200 OK", status)
	_, charge, err = s.send(t, "POST", "/v1/charges", "Idempotency-Key", "order-1")
	require.NoError(t, err)
	assert.Contains(t, charge, `"id":"ch_2"`)
}

func TestASignalEndsServeCleanly(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			s := startServe(t, "-latency", "1h")
			slow := make(chan error)
			go func() { // a request in flight does not hold it up
				_, _, err := s.send(t, "POST", "/v1/charges", "Idempotency-Key", "slow")
				slow <- err
			}()
			require.Eventually(t, func() bool {
				_, requests, err := s.send(t, "GET", "/_/requests")
				return err == nil && strings.Contains(requests, "slow")
			}, 20*time.Second, 10*time.Millisecond)
			require.NoError(t, s.cmd.Process.Signal(sig))
			assert.NoError(t, s.cmd.Wait(), "exit code 0")
			assert.Error(t, <-slow)
			assert.Empty(t, s.stderr.String())
		})
	}
}

func TestServeOnATakenPortIsALineAndExitCode2(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	code, stdout, stderr := saferetry(t, "serve", "-addr", l.Addr().String())
	assert.Equal(t, misused, code)
	assert.Empty(t, stdout)
	assert.Equal(t, "saferetry serve: listen tcp "+l.Addr().String()+": bind: address already in use\n", stderr)
}

func TestServeOverTLSAndHTTP2(t *testing.T) {
	for _, args := range [][]string{{"-tls"}, {"-http2"}} {
		code, stdout, stderr := saferetry(t, append([]string{"serve", "-addr", "127.0.0.1:0"}, args...)...)
		assert.Equal(t, ok, code)
		assert.Contains(t, stdout, "serving https://127.0.0.1:")
		assert.Empty(t, stderr)
	}
}

func TestServeListsItsFlags(t *testing.T) {
	code, stdout, stderr := saferetry(t, "serve", "-h")
	assert.Equal(t, ok, code)
	for _, flag := range []string{"-addr address", "-http2", "-latency duration", "-lease duration", "-retention duration", "-tls"} {
		assert.Contains(t, stdout, "\n  "+flag+"\n")
	}
	assert.Contains(t, stdout, "(default 1m0s)")
	assert.Empty(t, stderr)
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	code := make(chan int)
	go func() { code <- run(ctx, []string{"serve", "-addr", "127.0.0.1:0"}, writer, io.Discard) }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimSpace(strings.TrimPrefix(line, "serving "))
	resp, err := http.Get(url + "/_/charges")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	cancel()
	assert.Equal(t, ok, <-code)
	_, err = http.Get(url + "/_/charges")
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}
