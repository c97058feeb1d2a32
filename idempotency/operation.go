package idempotency

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"sync/atomic"
)

// An operation is one run of a handler under a claim.
type operation struct {
	m         *middleware
	claim     Claim
	performed atomic.Bool

	ctx    context.Context // what the store's last call gets the values of
	answer *answerWriter
	lease  *renewal

	returned bool     // there was neither a panic nor runtime.Goexit
	instead  *problem // what the client is told in place of the handler's answer
}

type operationKey struct{}

// Key returns the key of the request that is being handled, unquoted. It is "" if ctx is not the context of a request
// that passed [Middleware] with a key.
func Key(ctx context.Context) string {
	if op, ok := ctx.Value(operationKey{}).(*operation); ok {
		return op.claim.ID.Key
	}
	return ""
}

// Performed says that the effect of the request being handled is there for good: the answer is stored whatever its status,
// and if the handler panics, the record says "completed, not stored". Without it an answer other than 2xx or 3xx
// frees the key, and a retry runs the handler again.
//
// Any goroutine may call it, before the handler ends. If ctx is not the context of a request that passed [Middleware] with
// a key, it does nothing.
func Performed(ctx context.Context) {
	if op, ok := ctx.Value(operationKey{}).(*operation); ok {
		op.performed.Store(true)
	}
}

// perform runs the handler under claim c. However the handler ends, so does the claim.
func (m *middleware) perform(w http.ResponseWriter, r *http.Request, next http.Handler, c Claim, body []byte) {
	op := &operation{m: m, claim: c}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), operationKey{}, op))
	defer cancel(nil)
	op.ctx = ctx
	op.answer = newAnswerWriter(ctx, w, r.Method, &m.config)
	op.lease = renew(ctx, m, c, cancel)
	defer op.end()

	m.emit(Event{Kind: EventClaimed, ID: c.ID})
	begun, err := m.store.Begin(ctx, c)
	if err != nil {
		m.logFailure("begin", c.ID, err)
		op.instead, op.returned = &storeUnavailable, true
		return
	}
	op.ctx = begun
	inner := withBody(r.WithContext(begun), body)
	defer inherit(r, inner)
	next.ServeHTTP(op.answer, inner)
	op.answer.finishHeader()
	op.returned = true
}

// withBody gives r, a copy of the server's request, the body that was read.
func withBody(r *http.Request, body []byte) *http.Request {
	if len(body) == 0 {
		r.Body = http.NoBody
	} else {
		r.Body = &requestBody{*bytes.NewReader(body)}
	}
	return r
}

// A requestBody is a body that was read, to be read again.
type requestBody struct{ bytes.Reader }

func (*requestBody) Close() error { return nil }

// inherit hands on what the handler's copy of the request has that the server's own has not: the form whose temporary
// files the server removes, and the pattern that matched.
func inherit(r, inner *http.Request) {
	if r.MultipartForm == nil {
		r.MultipartForm = inner.MultipartForm
	}
	if r.Pattern == "" {
		r.Pattern = inner.Pattern
	}
}

// end ends the claim, and then sends what the client is to be told. It runs deferred: after a panic or runtime.Goexit
// nothing is sent, and what was under way goes on, so that the server breaks the connection.
func (op *operation) end() {
	op.settle()
	a := op.answer
	switch {
	case !op.returned || a.hijacked:
	case op.instead == nil:
		a.send()
	case a.streamed:
		panic(http.ErrAbortHandler) // or the client would take it for the whole answer
	default:
		op.instead.write(a.w)
	}
}

// settle ends the claim in the store.
func (op *operation) settle() {
	defer op.lease.stop()
	ctx, cancel := detached(op.ctx)
	defer cancel()
	done := op.completed()
	var err error
	if done {
		err = op.m.store.Complete(ctx, op.claim, op.kept())
	} else {
		err = op.m.store.Release(ctx, op.claim)
	}
	switch id := op.claim.ID; {
	case errors.Is(err, ErrLost):
		op.instead = &claimLost
		op.m.logLost(id)
		op.m.emit(Event{Kind: EventLeaseLost, ID: id})
	case err != nil && done:
		op.instead = &storeFailed
		op.m.logFailure("complete", id, err)
	case err != nil: // nothing is done, and so the answer is true all the same
		op.m.logFailure("release", id, err)
	case !done:
		op.m.emit(Event{Kind: EventReleased, ID: id, Status: op.answer.status})
	}
}

// completed decides whether the operation is done, or its key is free for another run.
func (op *operation) completed() bool {
	a := op.answer
	switch {
	case op.performed.Load():
		return true
	case a.hijacked && !a.streamed:
		return false
	}
	return a.stored && (op.returned || a.streamed)
}

// kept is what is stored of the answer.
func (op *operation) kept() Answer {
	a := op.answer
	if !op.returned || a.streamed || a.hijacked || !a.whole() {
		return Answer{Status: a.status, NotStored: true}
	}
	header := replayable(a.changed, op.m.marker)
	if trailers := a.trailers(); len(trailers) > 0 {
		header = maps.Clone(header)
		maps.Copy(header, trailers)
	}
	return Answer{Status: a.status, Header: header, Body: a.body}
}
