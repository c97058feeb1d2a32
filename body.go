package saferetry

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
)

// bodySource opens the request body anew for each attempt, so that no two
// attempts ever read from one reader: net/http may go on reading an earlier
// attempt's after its answer has come.
type bodySource interface {
	// open returns the body of the n-th attempt, counted from 1.
	open(n int64) (io.ReadCloser, error)
	// replayable reports whether there can be another attempt.
	replayable() bool
	// release says that no further attempt will be opened.
	release()
}

// sourceOf chooses how a body is sent again; nil means that there is none. A
// body that need not be sent again is not remembered.
func sourceOf(req *http.Request, remember int64) bodySource {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	if req.GetBody != nil {
		return (*rewindable)(req)
	}
	if s := newSectioned(req); s != nil {
		return s
	}
	if req.ContentLength > remember {
		remember = 0
	}
	return newRemembered(req, remember)
}

// rewindable is a body that GetBody makes anew. The first attempt has the one
// that came with the request.
type rewindable http.Request

func (r *rewindable) open(n int64) (io.ReadCloser, error) {
	if n == 1 {
		return r.Body, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, &callerError{"GetBody", err}
	}
	if body == nil {
		return nil, &callerError{"GetBody", errNoBody}
	}
	return body, nil
}

func (r *rewindable) replayable() bool { return true }
func (r *rewindable) release()         {}

// sharedCloser closes the caller's body when neither the operation nor any
// attempt needs it any longer.
type sharedCloser struct {
	io.Closer
	users atomic.Int64
}

func (s *sharedCloser) release() {
	if s.users.Add(-1) == 0 {
		s.Closer.Close()
	}
}

// sectioned is a body that can be read at any offset, such as an *os.File. Each
// attempt reads a section of its own, from where the body stood; the body's own
// position is never moved.
type sectioned struct {
	sharedCloser
	at    io.ReaderAt
	start int64
	size  int64
}

func newSectioned(req *http.Request) *sectioned {
	at, ok := req.Body.(io.ReaderAt)
	seeker, seeks := req.Body.(io.Seeker)
	if !ok || !seeks {
		return nil
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe or a terminal: no positions to read at
		return nil
	}
	s := &sectioned{at: at, start: start, size: math.MaxInt64 - start}
	if req.ContentLength > 0 {
		s.size = min(s.size, req.ContentLength+1) // with one byte more net/http sees that the length is wrong
	}
	s.Closer = req.Body
	s.users.Store(1)
	return s
}

func (s *sectioned) open(int64) (io.ReadCloser, error) {
	s.users.Add(1)
	return &section{*io.NewSectionReader(s.at, s.start, s.size), s}, nil
}

func (s *sectioned) replayable() bool { return true }

type section struct {
	io.SectionReader
	of *sectioned
}

func (s *section) Close() error {
	s.of.release()
	return nil
}

// remembered is a body that can be read once. What is read of it is kept, up
// to a limit, for the attempts to come: the first byte leaves before the last
// is read.
type remembered struct {
	sharedCloser
	limit int64
	size  int64 // 0: unknown

	// turn is the number of the attempt whose body this is now, negated once
	// that attempt has read past the limit and nothing is kept any longer. A next
	// attempt can only take the turn from one that has not.
	turn atomic.Int64

	reading sync.Mutex // held while reading from the caller's body, however long that takes
	from    io.Reader

	mu   sync.Mutex
	kept []byte
	err  error // what the caller's body ended with, io.EOF included
}

func newRemembered(req *http.Request, limit int64) *remembered {
	r := &remembered{limit: limit, size: max(req.ContentLength, 0), from: req.Body}
	r.Closer = req.Body
	r.users.Store(1)
	return r
}

func (r *remembered) open(n int64) (io.ReadCloser, error) {
	if !r.turn.CompareAndSwap(n-1, n) {
		return nil, errForgotten
	}
	r.users.Add(1)
	return &recollection{of: r, turn: n}, nil
}

func (r *remembered) replayable() bool { return r.turn.Load() >= 0 }

// keep remembers what the attempt with that turn read. Bytes that an attempt
// already given up was still reading are kept past the limit: they are missing
// from the next one's otherwise.
func (r *remembered) keep(turn int64, p []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	if len(p) == 0 || r.turn.Load() < 0 {
		return
	}
	if int64(len(r.kept)+len(p)) > r.limit && r.turn.CompareAndSwap(turn, -turn) {
		r.kept = nil
		return
	}
	if r.kept == nil {
		r.kept = make([]byte, 0, max(r.size, int64(len(p))))
	}
	r.kept = append(r.kept, p...)
}

// recollection is one attempt's reading of a remembered body.
type recollection struct {
	of     *remembered
	turn   int64
	offset int
}

func (c *recollection) Read(p []byte) (int, error) {
	if n, err := c.recall(p); n > 0 || err != nil {
		return n, err
	}
	r := c.of
	r.reading.Lock()
	defer r.reading.Unlock()
	// An attempt that was given up may just have read on.
	if n, err := c.recall(p); n > 0 || err != nil {
		return n, err
	}
	n, err := r.from.Read(p)
	c.offset += n
	r.keep(c.turn, p[:n], err)
	return n, err
}

// recall reads what was remembered; nothing and no error means that the
// caller's body has to be asked for more.
func (c *recollection) recall(p []byte) (int, error) {
	r := c.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.turn.Load(); now != c.turn && now != -c.turn {
		return 0, errGivenUp
	}
	if c.offset < len(r.kept) {
		n := copy(p, r.kept[c.offset:])
		c.offset += n
		return n, nil
	}
	return 0, r.err
}

func (c *recollection) Close() error {
	c.of.release()
	return nil
}

// nopCloser is the type of what http.NewRequest makes of a reader that lies in memory.
var nopCloser = reflect.TypeOf(io.NopCloser(new(bytes.Reader)))

// isInMemory is true for the bodies that http.NewRequest makes of bytes and
// strings. They need no attemptBody: reading them cannot fail, and closing them
// does nothing. net/http knows them when it sees them, and sends them in one
// packet with the header.
func isInMemory(body io.ReadCloser) bool {
	if reflect.TypeOf(body) != nopCloser {
		return false
	}
	switch reflect.ValueOf(body).Field(0).Interface().(type) {
	case *bytes.Reader, *bytes.Buffer, *strings.Reader:
		return true
	}
	return false
}

// attemptBody is the body as one attempt sends it. It can be closed any number
// of times, at any moment, and what is read after that fails, even where the
// reader takes being closed for its end: an attempt that was given up must not
// send a short body that looks whole.
type attemptBody struct {
	from   io.ReadCloser
	closed atomic.Bool
	failed atomic.Pointer[callerError] // the first error of the caller's own reader
}

func (b *attemptBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, errGivenUp
	}
	n, err := b.from.Read(p)
	switch {
	case b.closed.Load():
		return n, errGivenUp
	case err != nil && err != io.EOF:
		b.failed.CompareAndSwap(nil, &callerError{"request body", err})
	}
	return n, err
}

func (b *attemptBody) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.from.Close()
}
