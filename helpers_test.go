package saferetry_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// atOnce leaves out the waits, for tests that are not about them.
func atOnce(opts ...saferetry.Option) []saferetry.Option {
	return append([]saferetry.Option{saferetry.WithFullJitter(0, 0)}, opts...)
}

// reportOf returns the report of what a client returned, which must have one.
func reportOf(t testing.TB, resp *http.Response, err error) saferetry.Report {
	t.Helper()
	report, ok := saferetry.ReportOf(resp, err)
	require.True(t, ok, "no report of response %v, error %v", resp, err)
	return report
}

// roundTripFunc is a base transport made of a function.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// countedBody counts how often it is closed, and can tell where it was read to.
type countedBody struct {
	io.Reader
	closed atomic.Int32
}

func (b *countedBody) Close() error {
	b.closed.Add(1)
	return nil
}

// wireServer is an HTTP/1.1 server made by hand: each request that reaches it
// takes the next step, which says what happens on the connection.
type wireServer struct {
	url      string
	listener net.Listener
	t        *testing.T
	handlers sync.WaitGroup

	mu       sync.Mutex
	steps    []wireStep
	dials    int
	open     map[net.Conn]bool
	requests []wireRequest
}

// A wireStep handles one request. The connection goes on if it says so.
type wireStep func(*wireConn) (goOn bool)

type wireConn struct {
	net.Conn
	in     *bufio.Reader
	number int // of the connection
	server *wireServer
}

// wireRequest is a request as it was read off the wire.
type wireRequest struct {
	*http.Request
	body []byte
	err  error // of reading the body
	conn int
}

func (r wireRequest) key() string { return r.Header.Get(saferetry.KeyHeader) }

func newWireServer(t *testing.T, steps ...wireStep) *wireServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &wireServer{t: t, url: "http://" + listener.Addr().String(), steps: steps, open: map[net.Conn]bool{}}
	s.serve(listener)
	return s
}

// serve starts the server on listener, until the test ends.
func (s *wireServer) serve(listener net.Listener) {
	s.listener = listener
	s.handlers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.dials++
			s.open[conn] = true
			c := &wireConn{conn, bufio.NewReader(conn), s.dials, s}
			s.mu.Unlock()
			s.handlers.Go(c.serve)
		}
	})
	s.t.Cleanup(s.close)
}

func (s *wireServer) close() {
	s.listener.Close()
	s.mu.Lock()
	for conn := range s.open {
		conn.Close()
	}
	s.mu.Unlock()
	s.handlers.Wait()
}

func (c *wireConn) serve() {
	defer c.Close()
	for {
		if _, err := c.in.Peek(1); err != nil {
			return
		}
		step := c.server.next()
		if step == nil || !step(c) {
			return
		}
	}
}

// next takes a step off the script; the last one stays.
func (s *wireServer) next() wireStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := s.steps[0]
	if len(s.steps) > 1 {
		s.steps = s.steps[1:]
	}
	return step
}

// seen returns the requests read so far.
func (s *wireServer) seen() []wireRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]wireRequest(nil), s.requests...)
}

func (s *wireServer) dialed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// read reads a request whole and records it.
func (c *wireConn) read() wireRequest {
	r := c.readHead()
	if r.Request == nil {
		return r
	}
	r.body, r.err = io.ReadAll(r.Body)
	c.record(r)
	return r
}

// readHead reads a request up to its body.
func (c *wireConn) readHead() wireRequest {
	req, err := http.ReadRequest(c.in)
	return wireRequest{Request: req, err: err, conn: c.number}
}

func (c *wireConn) record(r wireRequest) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.requests = append(c.server.requests, r)
}

// reset breaks the connection so that the client's kernel sees an RST.
func (c *wireConn) reset() {
	conn := c.Conn
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = inner.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// buffered is the connection for what needs a net.Conn to read from.
func (c *wireConn) buffered() bufferedConn { return bufferedConn{c.Conn, c.in} }

type bufferedConn struct {
	net.Conn
	in io.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.in.Read(p) }

// The steps that tests have in common.

// answering reads the request and answers it with status, header lines and a
// body. A line "Connection: close" ends the connection.
func answering(status int, body string, header ...string) wireStep {
	return func(c *wireConn) bool {
		if r := c.read(); r.err != nil {
			return false
		}
		return c.answer(status, body, header...)
	}
}

func (c *wireConn) answer(status int, body string, header ...string) (goOn bool) {
	goOn = true
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), len(body))
	for _, line := range header {
		head += line + "\r\n"
		goOn = goOn && line != "Connection: close"
	}
	_, err := io.WriteString(c, head+"\r\n"+body)
	return goOn && err == nil
}

// resetUnread breaks the connection before the request is read.
func resetUnread(c *wireConn) bool {
	c.reset()
	return false
}

// resetRead breaks the connection when the request has been read.
func resetRead(c *wireConn) bool {
	c.read()
	c.reset()
	return false
}

// hangUp reads the request and closes the connection.
func hangUp(c *wireConn) bool {
	c.read()
	return false
}

// halfStatusLine breaks off in the middle of the answer's first line.
func halfStatusLine(c *wireConn) bool {
	c.read()
	_, _ = io.WriteString(c, "HTTP/1.1 20")
	return false
}

// ownTransport returns a base transport of the test's own, whose connections
// end with the test.
func ownTransport(t testing.TB) *http.Transport {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// bubbleTransport serves handler over in-memory connections, with net/http on
// both ends, so that a synctest bubble's clock moves. What is left open when
// the bubble ends makes it fail.
func bubbleTransport(t *testing.T, handler http.HandlerFunc) *http.Transport {
	listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	var running sync.WaitGroup
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		handler(w, r)
	})}
	running.Go(func() { _ = server.Serve(listener) })
	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		running.Wait()
	})
	return transport
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	dials  atomic.Int32
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		l.dials.Add(1)
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// eventually waits, at most some seconds, until what goes on in other
// goroutines has come to pass.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.Fail(t, "not within five seconds: "+what)
		}
	}
}

// constantly is a wait policy for WithBackOff.
func constantly(wait time.Duration) func() backoff.BackOff {
	return func() backoff.BackOff { return backoff.NewConstantBackOff(wait) }
}
