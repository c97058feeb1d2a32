package saferetry

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// What is read of an answer that is not handed over, so that its connection can
// be used again, and how long that may take.
const (
	drainBytes = 64 << 10
	drainTime  = 250 * time.Millisecond
)

// answerBody is the body of the answer that the caller gets. The request's
// context lives until it is read to its end or closed.
type answerBody struct {
	body    io.ReadCloser // of the base transport
	of      *exchange
	closed  atomic.Bool // by the caller
	dropped atomic.Bool // body is closed

	resumable bool                       // a body that breaks off is asked for again
	read      delivered                  // of a resumable one
	rest      atomic.Pointer[resumption] // what is read once it broke off
}

func (b *answerBody) Read(p []byte) (int, error) {
	if rest := b.rest.Load(); rest != nil {
		return rest.Read(p)
	}
	n, err := b.body.Read(p)
	if b.resumable {
		b.read.Write(p[:n])
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF || !b.resumable:
		b.of.answered()
		b.of.op.releaseSource()
		return n, err
	}
	b.drop()
	rest := &resumption{answer: b, op: b.of.op, read: b.read, broke: err}
	b.rest.Store(rest)
	if n > 0 {
		return n, nil
	}
	return rest.Read(p)
}

func (b *answerBody) Close() error {
	b.closed.Store(true)
	if rest := b.rest.Load(); rest != nil {
		return rest.Close()
	}
	b.of.op.releaseSource()
	return b.drop()
}

// drop closes the base transport's body and ends the attempt.
func (b *answerBody) drop() (err error) {
	if !b.dropped.Swap(true) {
		err = b.body.Close()
	}
	b.of.giveUp()
	return err
}

// deliver makes resp ready to be read as body, by the caller or a resumption.
func (x *exchange) deliver(resp *http.Response, body *answerBody) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return // its body is a connection, to be used as it is
	}
	if resp.Body == http.NoBody && x.answered() {
		return
	}
	body.body, body.of = resp.Body, x
	resp.Body = body
}

// answered ends the attempt at the end of its answer, unless the server has
// answered in full and is still taking the request's body: then the base
// transport may go on sending until the answer is closed.
func (x *exchange) answered() bool {
	over := x.body.from == nil || x.body.closed.Load()
	if over {
		x.cancel()
	}
	return over
}

// discard reads to the end of an answer that is not handed over, if that is
// near, so that its connection can be used again, and ends the attempt.
func (x *exchange) discard(resp *http.Response) {
	defer x.giveUp()
	body := resp.Body
	if body == http.NoBody {
		return
	}
	// The cancel comes first: with HTTP/2, Close waits for the request's body to
	// be closed and its last Read to return, unless the request is cancelled.
	drop := func() {
		x.cancel()
		body.Close()
	}
	if resp.ContentLength > drainBytes {
		drop()
		return
	}
	timer := time.AfterFunc(drainTime, drop)
	if _, err := io.CopyN(io.Discard, body, drainBytes); err == nil {
		body.Read(nil) // sees the end of a chunked body without taking another byte
	}
	if timer.Stop() {
		drop()
	}
}
