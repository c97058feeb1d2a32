package idempotency

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
)

// An answerWriter is the ResponseWriter of a handler. It holds the answer back, to be stored before its first byte leaves,
// until the handler flushes, writes more than the limit or takes the connection over: from then on it streams.
type answerWriter struct {
	w      http.ResponseWriter
	ctx    context.Context // done when the claim is lost
	method string
	config *config

	found   http.Header // w's header before the handler ran
	header  http.Header // the handler's, not w's: of an answer that is never sent nothing is left behind
	changed http.Header // what the handler had done to the header at WriteHeader, a copy

	status   int   // 0 until WriteHeader
	stored   bool  // the status completes the operation
	length   int64 // the declared Content-Length, or -1
	written  int64 // bytes of the body so far
	body     []byte
	streamed bool
	hijacked bool
}

func newAnswerWriter(ctx context.Context, w http.ResponseWriter, method string, c *config) *answerWriter {
	a := &answerWriter{w: w, ctx: ctx, method: method, config: c, length: -1}
	if found := w.Header(); len(found) > 0 {
		a.found, a.header = found.Clone(), found.Clone()
	} else {
		a.header = make(http.Header)
	}
	return a
}

// Unwrap lets [http.ResponseController] reach the deadlines and the full duplex of the connection.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.w }

func (a *answerWriter) Header() http.Header { return a.header }

func (a *answerWriter) WriteHeader(status int) {
	switch {
	case a.hijacked || a.status != 0:
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http has it
	case status < 200 && status != http.StatusSwitchingProtocols:
		a.inform(status)
		return
	}
	a.stored = a.config.stored(status)
	a.status = status
	a.changed = changes(a.found, a.header)
	if declared := a.header.Get("Content-Length"); declared != "" {
		if n, err := strconv.ParseInt(declared, 10, 64); err == nil {
			a.length = n
		}
	}
}

// finishHeader is what a handler that returns without a status means.
func (a *answerWriter) finishHeader() {
	if a.status == 0 && !a.hijacked {
		a.WriteHeader(http.StatusOK)
	}
}

// inform passes an answer of the 1xx kind on at once. It is not the answer, and so leaves the header as it was.
func (a *answerWriter) inform(status int) {
	h, changed := a.w.Header(), changes(a.found, a.header)
	maps.Copy(h, changed)
	a.w.WriteHeader(status)
	for name := range changed {
		if values, ok := a.found[name]; ok {
			h[name] = values
		} else {
			delete(h, name)
		}
	}
}

func (a *answerWriter) Write(p []byte) (int, error) {
	if err := a.expect(int64(len(p))); err != nil {
		return 0, err
	}
	if a.streamed {
		return a.w.Write(p)
	}
	a.body = append(a.body, p...)
	return len(p), nil
}

// expect gets ready for n more bytes of the body.
func (a *answerWriter) expect(n int64) error {
	if a.hijacked {
		return http.ErrHijacked
	}
	a.finishHeader()
	if !bodyAllowed(a.status) {
		return http.ErrBodyNotAllowed
	}
	if a.length >= 0 && a.written+n > a.length {
		return http.ErrContentLength
	}
	a.written += n
	if a.written > a.config.answerLimit {
		return a.stream()
	}
	return nil
}

// stream sends what is there; from here on nothing is held back. If the claim is lost, the client is going to be told 500
// instead.
func (a *answerWriter) stream() error {
	switch {
	case a.streamed:
		return nil
	case context.Cause(a.ctx) == ErrLost:
		return ErrLost
	}
	a.streamed = true
	sendAnswer(a.w, a.status, a.changed, a.body)
	a.body = nil
	return nil
}

// ReadFrom implements [io.ReaderFrom]: a streamed answer is copied in the connection's own way.
func (a *answerWriter) ReadFrom(src io.Reader) (int64, error) {
	if err := a.expect(0); err != nil {
		return 0, err
	}
	if a.length > a.config.answerLimit {
		if err := a.stream(); err != nil {
			return 0, err
		}
	}
	var held int64
	if !a.streamed {
		n, err := io.Copy(untilStreamed{a}, struct{ io.Reader }{src})
		if err != errStreamed {
			return n, err
		}
		held = n
	}
	n, err := io.Copy(a.w, src)
	a.written += n
	return held + n, err
}

// untilStreamed writes to an answer until that is streamed, and then fails with errStreamed.
type untilStreamed struct{ a *answerWriter }

var errStreamed = errors.New("the answer is streamed")

func (u untilStreamed) Write(p []byte) (int, error) {
	n, err := u.a.Write(p)
	if err == nil && u.a.streamed {
		err = errStreamed
	}
	return n, err
}

// Flush implements [http.Flusher].
func (a *answerWriter) Flush() { a.FlushError() }

// FlushError is what [http.ResponseController.Flush] calls.
func (a *answerWriter) FlushError() error {
	if a.hijacked {
		return http.ErrHijacked
	}
	if !supports[http.Flusher](a.w) && !supports[interface{ FlushError() error }](a.w) {
		return http.ErrNotSupported // and so the answer can still be stored
	}
	a.finishHeader()
	if err := a.stream(); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

// Hijack implements [http.Hijacker]. Where the connection cannot be taken over, nothing changes.
func (a *answerWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !supports[http.Hijacker](a.w) {
		return nil, nil, http.ErrNotSupported
	}
	if a.status != 0 {
		if err := a.stream(); err != nil {
			return nil, nil, err
		}
	}
	conn, rw, err := http.NewResponseController(a.w).Hijack()
	a.hijacked = a.hijacked || err == nil
	return conn, rw, err
}

// send sends the answer, or what is still missing of one that was streamed.
func (a *answerWriter) send() {
	maps.Copy(a.w.Header(), a.trailers())
	if !a.streamed {
		sendAnswer(a.w, a.status, a.changed, a.body)
	}
}

// trailers has what the handler set of trailers.
func (a *answerWriter) trailers() http.Header { return trailers(a.changed["Trailer"], a.header) }

// whole reports whether the body is as long as its handler declared it.
func (a *answerWriter) whole() bool {
	return a.length < 0 || a.length == a.written || !bodyAllowed(a.status) || a.method == http.MethodHead
}

// sendAnswer answers with what the handler answered, now or the first time.
func sendAnswer(w http.ResponseWriter, status int, header http.Header, body []byte) {
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	if len(body) > 0 {
		w.Write(body)
	}
}

// bodyAllowed says which answers may have a body, by RFC 9110, section 6.4.1.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// supports reports whether w, or a writer it wraps, is a T.
func supports[T any](w http.ResponseWriter) bool {
	for {
		if _, ok := w.(T); ok {
			return true
		}
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = outer.Unwrap()
	}
}
