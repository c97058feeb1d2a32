package saferetry

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// connTrace learns through net/http/httptrace whether an attempt had a
// connection: a request that never had one was not sent. It learns too whether
// net/http sent the request more than once, as it does when a connection that it
// reuses dies before a byte of the answer.
type connTrace struct {
	trace      atomic.Pointer[httptrace.ClientTrace] // made when a base transport asks for it
	asked, had atomic.Bool
	sent       atomic.Int32
}

// hadNone is true when the base transport asked for a connection and got none;
// known is false when it does not report to httptrace.
func (t *connTrace) hadNone() (none, known bool) { return !t.had.Load(), t.asked.Load() }

// resent is true when an answer was lost of which the base transport said
// nothing.
func (t *connTrace) resent() bool { return t.sent.Load() > 1 }

// in returns the trace for a request under ctx, together with the one that ctx
// has already.
func (t *connTrace) in(ctx context.Context) *httptrace.ClientTrace {
	if made := t.trace.Load(); made != nil {
		return made
	}
	trace := &httptrace.ClientTrace{
		GetConn: func(string) { t.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { t.had.Store(true) },
		// Not GotConn: a connection may be dead by then, and the request not yet on it.
		WroteHeaders: func() { t.sent.Add(1) },
	}
	if httptrace.ContextClientTrace(ctx) != nil {
		httptrace.WithClientTrace(ctx, trace) // has trace call the other's hooks too
	}
	t.trace.CompareAndSwap(nil, trace)
	return t.trace.Load()
}

// traceKey is the key under which httptrace looks for its trace in a context,
// learned by having it look once. An attempt's context answers to it: a
// [httptrace.WithClientTrace] per attempt would cost its allocations even where
// the base transport never asks.
var traceKey = func() any {
	var asked keyRecorder
	httptrace.ContextClientTrace(&asked)
	return asked.key
}()

type keyRecorder struct {
	context.Context
	key any
}

func (r *keyRecorder) Value(key any) any {
	r.key = key
	return nil
}
