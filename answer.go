package saferetry

import (
	"io"
	"net/http"
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
	io.ReadCloser
	of *exchange
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.of.answered()
	}
	return n, err
}

func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.of.giveUp()
	return err
}

// deliver makes resp ready for the caller.
func (x *exchange) deliver(resp *http.Response) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return // its body is a connection, to be used as it is
	}
	if resp.Body == http.NoBody && x.answered() {
		return
	}
	x.answer = answerBody{resp.Body, x}
	resp.Body = &x.answer
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
