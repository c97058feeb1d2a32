package idempotency

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync/atomic"
)

// An operation is one run of a handler under a claim.
type operation struct {
	m         *middleware
	claim     Claim
	performed atomic.Bool

	detach   context.Context // where the store ends what Begin opened
	lease    *renewal
	answer   *answerWriter
	returned bool // the handler ended by returning
}

type operationKey struct{}

// Key returns the key of the request being handled, unquoted, or "" if ctx is not that of a request with a key.
func Key(ctx context.Context) string {
	if op, ok := ctx.Value(operationKey{}).(*operation); ok {
		return op.claim.ID.Key
	}
	return ""
}

// Performed says that the effect of the request being handled is there for good: its answer is stored whatever its
// status. Without it an answer other than 2xx or 3xx, or a panic, frees the key, and a retry runs the handler again. If
// the handler panics later, the record says "completed, not stored". Call it while the handler runs, from any
// goroutine; with a ctx that is not that of a request with a key it does nothing.
func Performed(ctx context.Context) {
	if op, ok := ctx.Value(operationKey{}).(*operation); ok {
		op.performed.Store(true)
	}
}

// perform runs the handler under the claim and ends the claim, however the handler ends.
func (m *middleware) perform(w http.ResponseWriter, r *http.Request, next http.Handler, c Claim, body []byte) {
	op := &operation{m: m, claim: c}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), operationKey{}, op))
	defer cancel(nil)
	op.detach = ctx
	begun, err := m.store.Begin(ctx, c)
	if err != nil {
		m.logFailure("begin", c.ID, err)
		op.release(0)
		storeUnavailable.write(w, "the operation could not be begun; nothing was done")
		return
	}
	op.detach = begun
	op.answer = newAnswerWriter(begun, w, m.answerLimit)
	op.lease = renew(ctx, m, c, cancel)
	defer op.end()
	m.emit(Event{Kind: EventClaimed, ID: c.ID})
	inner := r.WithContext(begun)
	inner.Body = io.NopCloser(bytes.NewReader(body))
	defer inherit(r, inner)
	next.ServeHTTP(op.answer, inner)
	op.returned = true
}

// inherit hands what parsing a form left in the handler's copy of the request to the server's own, which removes the
// temporary files.
func inherit(r, inner *http.Request) {
	if r.MultipartForm == nil {
		r.MultipartForm = inner.MultipartForm
	}
}

// end ends the claim and, if the handler returned, sends its answer. Otherwise a panic, or runtime.Goexit, goes on when
// end returns, and the server breaks the connection.
func (op *operation) end() {
	a := op.answer
	if op.returned && a.status == 0 && !a.hijacked {
		a.WriteHeader(http.StatusOK)
	}
	var err error
	if op.completed() {
		err = op.complete()
	} else {
		err = op.release(a.status)
	}
	op.lease.stop()
	switch {
	case !op.returned || a.hijacked:
	case err == nil:
		a.send()
	case a.streamed:
		panic(http.ErrAbortHandler) // the client must not take it for a whole answer
	case errors.Is(err, ErrLost):
		claimLost.write(a.w, "this request took too long; ask again for the other's answer")
	default:
		storeFailed.write(a.w, "whether the operation is done is not known; ask again")
	}
}

// completed decides whether the operation is done, or its key is free for another run.
func (op *operation) completed() bool {
	a := op.answer
	switch {
	case op.performed.Load():
		return true
	case a.hijacked:
		return false
	case !op.returned && !a.streamed:
		return false
	}
	return op.m.stored(a.status)
}

// complete stores the answer. The error says that the client must not get it.
func (op *operation) complete() error {
	a := op.answer
	answer := Answer{Status: a.status, NotStored: true}
	if op.returned && !a.streamed && !a.hijacked && a.whole() {
		answer.NotStored = false
		answer.Header = replayable(changes(a.found, a.sent), op.m.marker)
		maps.Copy(answer.Header, trailers(a.sent, a.header))
		answer.Body = a.body
	}
	ctx, cancel := detached(op.detach)
	defer cancel()
	err := op.m.store.Complete(ctx, op.claim, answer)
	op.note("complete", err)
	return err
}

// release frees the key. A store that fails does not keep the client from the answer: nothing was done.
func (op *operation) release(status int) error {
	ctx, cancel := detached(op.detach)
	defer cancel()
	err := op.m.store.Release(ctx, op.claim)
	op.note("release", err)
	if err == nil {
		op.m.emit(Event{Kind: EventReleased, ID: op.claim.ID, Status: status})
	}
	if !errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

// note logs and counts an error of the store.
func (op *operation) note(step string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrLost):
		op.m.emit(Event{Kind: EventLeaseLost, ID: op.claim.ID})
	default:
		op.m.logFailure(step, op.claim.ID, err)
	}
}
