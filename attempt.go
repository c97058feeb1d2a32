package saferetry

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// exchange is one attempt of an httpOperation: a request and the answer to it.
// It is also the context of that request, but for its cancellation.
type exchange struct {
	context.Context // the caller's

	op       *httpOperation
	number   int
	req      *http.Request // as sent
	trace    connTrace
	cancel   context.CancelFunc // of req's context, a child of this one
	body     attemptBody        // req's, where it has one
	timedOut bool
}

// Value answers for the operation, so that what is below can tell that it is
// being repeated, and for the connection trace.
func (x *exchange) Value(key any) any {
	switch key {
	case operationKey{}:
		return &x.op.operation
	case traceKey:
		return x.trace.in(x.Context)
	}
	return x.Context.Value(key)
}

// prepare makes the request. It fails where the body cannot be had again.
func (x *exchange) prepare() error {
	op := x.op
	ctx, cancel := context.WithCancel(x)
	x.req, x.cancel = op.req.WithContext(ctx), cancel
	x.req.Header = op.header(x.number)
	if op.source == nil {
		return nil
	}
	body, err := op.source.open(int64(x.number))
	if err != nil {
		cancel()
		return err
	}
	x.req.Body = body
	if body != nil && body != http.NoBody && !isInMemory(body) {
		x.body.from = body
		x.req.Body = &x.body
	}
	return nil
}

// header is that of the n-th attempt. The attempts share one, the caller's own
// where nothing has to be added to it; only their numbers make them different.
func (op *httpOperation) header(n int) http.Header {
	if op.shared == nil {
		op.shared = op.newHeader()
	}
	name := op.cfg.attemptHeader
	if name == "" {
		return op.shared
	}
	h := maps.Clone(op.shared)
	maps.DeleteFunc(h, func(field string, _ []string) bool { return strings.EqualFold(field, name) })
	h[name] = []string{strconv.Itoa(n)}
	return h
}

func (op *httpOperation) newHeader() http.Header {
	if op.keyValue == "" && op.req.Header != nil {
		return op.req.Header
	}
	h := make(http.Header, len(op.req.Header)+1)
	for field, values := range op.req.Header {
		if !op.ownKey || !strings.EqualFold(field, op.cfg.keyHeader) {
			h[field] = slices.Clip(values) // so that what a base transport adds is not the caller's
		}
	}
	if op.keyValue != "" {
		h[op.cfg.keyHeader] = []string{op.keyValue}
	}
	return h
}

// send sends the request. Exactly one of what it returns is not nil; with a
// response, the request's context is still to be cancelled.
func (x *exchange) send(base http.RoundTripper, timeout time.Duration) (*http.Response, error) {
	var timer *time.Timer
	if timeout > 0 {
		timer = time.AfterFunc(timeout, x.cancel)
	}
	resp, err := base.RoundTrip(x.req)
	// A timer that has fired has cancelled the request, and the reading of its
	// answer too, should there be one by a hair.
	x.timedOut = timer != nil && !timer.Stop() && x.Context.Err() == nil
	if resp != nil && err == nil && !x.timedOut {
		if resp.Body == nil {
			resp.Body = http.NoBody
		}
		resp.Request = x.req
		return resp, nil
	}
	x.giveUp()
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	if err == nil {
		err = errNoAnswer
	}
	return nil, err
}

// failure is the error that an attempt which got none but err failed with.
func (x *exchange) failure(err error) error {
	if x.Context.Err() != nil {
		return interruption(x.Context, err)
	}
	if own := x.body.failed.Load(); own != nil {
		return own
	}
	if x.timedOut {
		return attemptTimeout{}
	}
	return schemeMismatch(err)
}

// verdict is what the attempt tells of the operation's effect; err is what the
// base transport returned.
func (x *exchange) verdict(a Attempt, err error) Outcome {
	if a.Err == nil {
		mayBeInProgress := false
		if a.Response.StatusCode == http.StatusConflict {
			inProgress, known := isInProgress(a)
			mayBeInProgress = inProgress || !known
		}
		return statusVerdict(a.Response.StatusCode, mayBeInProgress)
	}
	none, known := x.trace.hadNone()
	if known && none || !known && isConnectFailure(err) || isMalformed(x.req, err) {
		return NotSent
	}
	return Unknown
}

// giveUp ends the attempt: nothing more is sent of its request or read of its
// answer.
func (x *exchange) giveUp() {
	x.cancel()
	if x.body.from != nil {
		x.body.Close()
	}
}
