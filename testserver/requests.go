package testserver

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"
)

// A Request is one that the server has read.
type Request struct {
	Method string
	Path   string
	Key    string      // bare, without quotes; "" for none
	Header http.Header // as it came, Content-Length included
	Body   []byte      // at most its first 16 MiB; what there is of one that broke off
	At     time.Time   // when it arrived, on the real clock: Advance does not move it
}

// keptBody is how much of a request's body is kept.
const keptBody = 16 << 20

// An arrival is a request in the log. It is shown once it has been read.
type arrival struct {
	Request
	read bool
}

// Requests returns a copy of all requests read so far, in the order they arrived:
// those answered with an error, those lost to a fault, and those a proxy is said
// to have answered, but not what NeverSaw struck. All are kept, so a server that
// runs for long grows.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Request{}
	for _, a := range s.arrivals {
		if a.read {
			r := a.Request
			r.Header, r.Body = r.Header.Clone(), bytes.Clone(r.Body)
			list = append(list, r)
		}
	}
	return list
}

// arrive gives the request its place in the log and its fault, in one step: what
// arrives first takes the first fault.
func (s *Server) arrive(r *http.Request, own []Fault) (*arrival, Fault) {
	a := &arrival{Request: Request{
		Method: r.Method,
		Path:   r.URL.Path,
		Key:    bareKey(r.Header),
		Header: r.Header.Clone(),
	}}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.At = time.Now()
	f := s.script.next(a.Key, own)
	if f.kind != neverSaw {
		s.arrivals = append(s.arrivals, a)
	}
	return a, f
}

// readBody reads the request into the log, and lets r.Body be read again.
func (s *Server) readBody(a *arrival, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, keptBody)) // the handler will meet the error
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Body, a.read = body, true
}

// bareKey returns the request's key without quotes, whether it is valid or not.
func bareKey(h http.Header) string {
	key := strings.TrimSpace(h.Get("Idempotency-Key"))
	if len(key) < 2 || key[0] != '"' || key[len(key)-1] != '"' {
		return key
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(key[1 : len(key)-1])
}
