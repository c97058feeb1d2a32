package testserver

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/saferetry/saferetry/internal/memconn"
)

// serve is the course of a request through the server.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		serverClosed.write(w, "start another one")
		return
	}
	defer s.inFlight.Done()
	if strings.HasPrefix(r.URL.Path, "/_/") {
		s.control.ServeHTTP(w, r)
		return
	}
	own, err := ParseScript(strings.Join(r.Header.Values("X-Fault"), ","))
	if err != nil {
		own = []Fault{None()}
	}
	if r.Body == nil { // called directly, not by a server
		r.Body = http.NoBody
	}
	arrival, fault := s.arrive(r, own)
	if fault.kind == neverSaw {
		reset(w)
	}
	s.readBody(arrival, r)
	if err != nil {
		faultInvalid.write(w, err.Error())
		return
	}
	s.fail(fault, w, r)
}

// fail has the request handled, or not, as the fault says. It runs detached from
// the client: what the client does meanwhile changes nothing for the operation.
func (s *Server) fail(f Fault, w http.ResponseWriter, r *http.Request) {
	client := r.Context()
	ctx, cancel := context.WithCancel(context.WithoutCancel(client))
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	r = r.WithContext(ctx)

	switch f.kind {
	case none:
		s.operations.ServeHTTP(w, r)
	case answer:
		writeGatewayAnswer(w, f.status, f.headerPairs())
	case stall:
		if !sleep(ctx, f.wait) {
			panic(http.ErrAbortHandler) // Close
		}
		s.operations.ServeHTTP(w, r)
	case crashBeforeWrite:
		s.perform(r.WithContext(withCrash(ctx)))
		reset(w)
	case crashAfterWrite:
		s.perform(r)
		reset(w)
	case dropResponse:
		s.perform(r).sendPart(w, r, f.n)
	case failAfterWrite:
		s.perform(r)
		writeGatewayAnswer(w, f.status, nil)
	case stallAfterWrite:
		a := s.perform(r)
		defer context.AfterFunc(client, cancel)()
		if !sleep(ctx, f.wait) {
			panic(http.ErrAbortHandler) // Close, or nobody is there to be answered
		}
		a.send(w)
	}
}

// perform handles the request and keeps the answer back.
func (s *Server) perform(r *http.Request) *heldAnswer {
	a := &heldAnswer{header: make(http.Header)}
	s.operations.ServeHTTP(a, r)
	return a
}

// A heldAnswer is the http.ResponseWriter of a request whose answer is in danger.
type heldAnswer struct {
	header http.Header
	status int
	body   []byte
}

func (a *heldAnswer) Header() http.Header { return a.header }

func (a *heldAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *heldAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, p...)
	return len(p), nil
}

func (a *heldAnswer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	w.Write(a.body)
}

// sendPart sends the answer up to n bytes into its body, then ends the
// connection. The missing rest shows: in the Content-Length, or, where there is
// none, in the missing last chunk.
func (a *heldAnswer) sendPart(w http.ResponseWriter, r *http.Request, n int) {
	if r.Method == http.MethodHead || len(a.body) == 0 {
		reset(w)
	}
	whole := strconv.Itoa(len(a.body))
	if n < len(a.body) {
		a.header.Set("Content-Length", whole)
		a.body = a.body[:n]
	} else {
		a.header.Del("Content-Length")
	}
	a.send(w)
	http.NewResponseController(w).Flush()
	cut(w, func(c net.Conn) { c.Close() })
}

// reset ends the connection as a crash does, and the handler with it.
func reset(w http.ResponseWriter) { cut(w, resetConn) }

// cut ends the connection under w by end, and the handler by a panic that
// net/http takes for what it is. Where there is no such connection, in HTTP/2, it
// resets the request's stream.
func cut(w http.ResponseWriter, end func(net.Conn)) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		end(rawConn(c))
	}
	panic(http.ErrAbortHandler)
}

// rawConn returns the connection under TLS, which cannot say goodbye.
func rawConn(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

// resetConn closes c so that its peer sees a reset.
func resetConn(c net.Conn) {
	switch c := c.(type) {
	case *memconn.Conn:
		c.Reset()
	case *net.TCPConn:
		c.SetLinger(0)
		c.Close()
	default:
		c.Close()
	}
}
