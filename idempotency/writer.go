package idempotency

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
)

// An answerWriter is the ResponseWriter of a handler. It holds the answer back, for the middleware to store before the
// first byte leaves, until the handler flushes, writes more than limit, or takes the connection over: then it
// streams.
type answerWriter struct {
	w     http.ResponseWriter
	ctx   context.Context // the handler's, done when the claim is lost
	limit int64

	found  http.Header // w's header before the handler ran
	header http.Header // the handler's
	sent   http.Header // header as it was at WriteHeader

	status   int   // 0 until WriteHeader
	length   int64 // the declared Content-Length, or -1
	written  int64 // bytes of the body so far
	body     []byte
	streamed bool
	hijacked bool
}

func newAnswerWriter(ctx context.Context, w http.ResponseWriter, limit int64) *answerWriter {
	found := w.Header().Clone()
	header := found.Clone()
	if header == nil {
		header = make(http.Header)
	}
	return &answerWriter{w: w, ctx: ctx, limit: limit, found: found, header: header, length: -1}
}

// Unwrap makes http.ResponseController reach the deadlines and the full duplex of the connection.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.w }

func (a *answerWriter) Header() http.Header { return a.header }

func (a *answerWriter) WriteHeader(status int) {
	switch {
	case a.hijacked || a.status != 0:
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does
	case status < 200 && status != http.StatusSwitchingProtocols:
		a.inform(status)
		return
	}
	a.status = status
	a.sent = a.header.Clone()
	if n, err := strconv.ParseUint(a.sent.Get("Content-Length"), 10, 63); err == nil {
		a.length = int64(n)
	}
}

// inform passes an answer of the 1xx kind on at once; it is not the answer.
func (a *answerWriter) inform(status int) {
	h := a.w.Header()
	maps.Copy(h, changes(a.found, a.header))
	a.w.WriteHeader(status)
	clear(h)
	maps.Copy(h, a.found.Clone())
}

func (a *answerWriter) Write(p []byte) (int, error) {
	if err := a.start(int64(len(p))); err != nil {
		return 0, err
	}
	if a.streamed {
		return a.w.Write(p)
	}
	a.body = append(a.body, p...)
	return len(p), nil
}

// start gets ready for n more bytes of the body.
func (a *answerWriter) start(n int64) error {
	if a.hijacked {
		return http.ErrHijacked
	}
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(a.status) {
		return http.ErrBodyNotAllowed
	}
	if a.length >= 0 && a.written+n > a.length {
		return http.ErrContentLength
	}
	a.written += n
	if a.written > a.limit {
		return a.stream()
	}
	return nil
}

// stream sends what there is. From here on nothing is held back.
func (a *answerWriter) stream() error {
	if a.streamed {
		return nil
	}
	if a.ctx.Err() != nil && context.Cause(a.ctx) == ErrLost {
		return ErrLost // the client is going to be told 500
	}
	a.streamed = true
	sendAnswer(a.w, a.status, changes(a.found, a.sent), a.body)
	a.body = nil
	return nil
}

// ReadFrom implements [io.ReaderFrom]: once the answer is streamed, the connection's own way to copy is used.
func (a *answerWriter) ReadFrom(src io.Reader) (int64, error) {
	var n int64
	if err := a.start(0); err != nil {
		return 0, err
	}
	if a.length > a.limit {
		if err := a.stream(); err != nil {
			return 0, err
		}
	}
	if !a.streamed {
		room := a.limit - a.written + 1 // the byte too many makes it stream
		var err error
		n, err = io.Copy(struct{ io.Writer }{a}, io.LimitReader(src, room))
		if err != nil || n < room {
			return n, err
		}
	}
	m, err := io.Copy(a.w, src)
	a.written += m
	return n + m, err
}

// Flush implements [http.Flusher].
func (a *answerWriter) Flush() { a.FlushError() }

// FlushError is what http.ResponseController calls. Where the connection cannot flush, nothing changes.
func (a *answerWriter) FlushError() error {
	if a.hijacked {
		return http.ErrHijacked
	}
	if !canFlush(a.w) {
		return http.ErrNotSupported
	}
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if err := a.stream(); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

// Hijack implements [http.Hijacker].
func (a *answerWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.w).Hijack()
	a.hijacked = a.hijacked || err == nil
	return conn, rw, err
}

// send ends an answer: all of it, or what is still missing of one that was streamed.
func (a *answerWriter) send() {
	if a.hijacked {
		return
	}
	if !a.streamed {
		sendAnswer(a.w, a.status, changes(a.found, a.sent), a.body)
	}
	h := a.w.Header()
	for name, values := range trailers(a.sent, a.header) {
		h[name] = values
	}
}

func sendAnswer(w http.ResponseWriter, status int, header http.Header, body []byte) {
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	if len(body) > 0 {
		w.Write(body)
	}
}

// changes has the fields of header that are not as they were found; those taken away have no values.
func changes(found, header http.Header) http.Header {
	changed := make(http.Header, len(header))
	for name, values := range header {
		if was, ok := found[name]; !ok || !slices.Equal(was, values) {
			changed[name] = values
		}
	}
	for name := range found {
		if _, ok := header[name]; !ok {
			changed[name] = nil
		}
	}
	return changed
}

// bodyAllowed is RFC 9110, section 6.4.1.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// canFlush reports whether w, or a writer it wraps, can flush.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// whole reports whether the body is as long as the handler declared it.
func (a *answerWriter) whole() bool {
	return a.length < 0 || a.length == a.written || !bodyAllowed(a.status)
}
