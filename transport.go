package saferetry

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Transport is an [http.RoundTripper] that makes each request one logical
// operation: one idempotency key, and under it as many attempts as it takes and
// the options allow. Make it with [NewTransport]; it is safe for concurrent use.
type Transport struct {
	under http.RoundTripper
	cfg   *config
}

// NewTransport returns a Transport over base; nil stands for
// http.DefaultTransport, as it is when a request is sent. base must keep the
// contract of [http.RoundTripper].
func NewTransport(base http.RoundTripper, opts ...Option) *Transport {
	return &Transport{under: base, cfg: newConfig(opts)}
}

func (t *Transport) base() http.RoundTripper {
	if t.under == nil {
		return http.DefaultTransport
	}
	return t.under
}

// CloseIdleConnections closes the base transport's idle connections, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip performs the operation that req asks for. It does not change req,
// and closes its body on every path, perhaps after it has returned.
//
// It ends in one of these ways, with either a response or an [*Error], and
// [ReportOf] tells which:
//
//   - Answered: the server gave an answer that is not to be retried.
//   - Permanent: the request is not one that can be sent, its key is not valid,
//     its body failed, or the error would come again.
//   - Exhausted: the attempts are used up.
//   - Deadline: the context's deadline passed, or would have in the wait.
//   - RetryAfterTooLong: the server asks for more patience than allowed.
//   - NotReplayable: the body was longer than remembered, or GetBody failed.
//   - NotRepeatable: the request has no key, its method is not idempotent, and
//     an attempt may have reached the server.
//   - Canceled: the context was cancelled.
//
// If the last attempt got a response, whatever its status, that is returned,
// its body unread, save where it was given up for a next attempt that then
// could not be made. A CONNECT or upgrade request, and one that a Transport
// above or an enclosing Do is already repeating, goes straight to the base
// transport.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	above := operationOf(req.Context())
	if isTunnel(req) || above != nil && above.repeats(req) {
		return t.base().RoundTrip(req)
	}
	op := &httpOperation{operation: operation{cfg: t.cfg, ctx: req.Context(), req: req}, base: t.base()}
	if err := op.findKey(above); err != nil {
		return op.refuse(Permanent, err)
	}
	if above != nil && above.isDo() && above.key == op.key {
		return op.passThrough()
	}
	if op.ctx.Err() != nil {
		return op.refuse(stopped(op.ctx), interruption(op.ctx, nil))
	}
	defer op.abandon()
	return op.finish(op.run(op))
}

// isTunnel is true for requests whose connection becomes something else.
func isTunnel(req *http.Request) bool {
	return req.Method == http.MethodConnect || len(req.Header["Upgrade"]) > 0
}

// operation is what one logical operation needs whatever its attempts are: HTTP
// exchanges, or calls made by Do.
type operation struct {
	cfg *config
	ctx context.Context // the caller's
	req *http.Request   // the caller's; nil in Do
	key string

	repeatable bool // an attempt may be made again although one reached the server
	attempts   int
	tally      tally
	answer     *http.Response // handed over, when it is
	handed     *answerBody    // its body
	reason     StopReason
	policy     backoff.BackOff // made at the first failure
	waited     time.Duration
	failed     []Attempt
}

type operationKey struct{}

// operationOf returns the operation whose attempt ctx belongs to, or nil.
func operationOf(ctx context.Context) *operation {
	op, _ := ctx.Value(operationKey{}).(*operation)
	return op
}

// operationFor returns the operation that made req, or nil.
func operationFor(req *http.Request) *operation {
	if req == nil {
		return nil
	}
	return operationOf(req.Context())
}

func (op *operation) isDo() bool { return op.req == nil }

// repeats reports whether req is the very request that the operation, a
// Transport's, is repeating: it has the operation's key. Without a key it must
// be the same request in the main, since a base transport may make others
// under its context.
func (op *operation) repeats(req *http.Request) bool {
	if op.isDo() || req.URL == nil {
		return false
	}
	key, err := keyFieldOf(req.Header, op.cfg.keyHeader).key(op.cfg.keyHeader)
	if err != nil || key != op.key {
		return false
	}
	return key != "" || req.Method == op.req.Method && (req.URL == op.req.URL || req.URL.String() == op.req.URL.String())
}

// sender makes the attempts of an operation.
type sender interface {
	// prepare gets the n-th attempt ready. It fails where the operation's input
	// cannot be had once more.
	prepare(n int) error
	// send makes the attempt and says what it tells of the effect.
	send() (Attempt, Outcome)
	// judge decides what may follow it, and the least wait before that.
	judge(Attempt) (Decision, floor)
	// replayable reports whether another attempt can be prepared.
	replayable() bool
	// discard ends an attempt whose answer will not be handed over.
	discard(Attempt)
}

// run makes the first attempt, and what must follow it. It returns the last, or
// the error that kept a further one from being made when the answer before it
// was already given up.
func (op *operation) run(s sender) (Attempt, error) {
	if op.cfg.budget != nil {
		op.cfg.budget.earn()
	}
	if err := s.prepare(1); err != nil {
		return Attempt{}, err
	}
	return op.attempt(s)
}

// attempt makes the attempt that is prepared, and what must follow it.
func (op *operation) attempt(s sender) (Attempt, error) {
	for {
		start := time.Now()
		a, verdict := s.send()
		op.attempts++
		op.tally.add(verdict)
		a.Number, a.Duration = op.attempts, time.Since(start)
		if hook := op.cfg.hooks.Attempt; hook != nil {
			hook(a)
		}
		wait, again := op.next(s, a)
		if !again {
			return a, op.ending(a)
		}
		if err := op.repeat(s, a, wait); err != nil {
			return Attempt{}, err
		}
	}
}

// ending is the error that the operation ends with after a: where the context
// ended, also between the attempt and its judging, that and its cause.
func (op *operation) ending(a Attempt) error {
	if a.Err == nil || op.ctx.Err() == nil || op.reason != stopped(op.ctx) || errors.As(a.Err, new(*interrupted)) {
		return a.Err
	}
	return interruption(op.ctx, a.Err)
}

// repeat gives up a and, after the wait, prepares the attempt that follows it.
func (op *operation) repeat(s sender, a Attempt, wait time.Duration) error {
	op.announce(a, wait)
	s.discard(a)
	if !op.pause(wait) {
		if op.cfg.budget != nil {
			op.cfg.budget.refund()
		}
		op.reason = stopped(op.ctx)
		return interruption(op.ctx, a.Err)
	}
	if err := s.prepare(op.attempts + 1); err != nil {
		op.reason = NotReplayable
		return err
	}
	if op.failed == nil {
		op.failed = make([]Attempt, 0, min(op.cfg.maxAttempts-1, 3))
	}
	op.failed = append(op.failed, a)
	return nil
}

// httpOperation is an operation whose attempts are HTTP exchanges.
type httpOperation struct {
	operation
	base     http.RoundTripper
	ownKey   bool        // the caller's header has a field for the key
	keyValue string      // of that field on the wire; "" leaves the header as it is
	shared   http.Header // of all attempts
	source   bodySource  // nil without a body
	released atomic.Bool // source is
	ended    bool        // by finish
	current  *exchange
	body     answerBody // handed over
	first    exchange   // saves an allocation where one attempt does
}

func (op *httpOperation) prepare(n int) error {
	op.current = &op.first
	if n == 1 {
		op.source = op.newSource()
	} else {
		op.current = new(exchange)
	}
	op.current.Context, op.current.op, op.current.number = op.ctx, op, n
	return op.current.prepare()
}

// newSource remembers of a body that can be read only once as much as another
// attempt could need.
func (op *httpOperation) newSource() bodySource {
	if !op.repeatable || op.cfg.maxAttempts == 1 {
		return sourceOf(op.req, 0)
	}
	return sourceOf(op.req, op.cfg.bodyBuffer)
}

func (op *httpOperation) send() (Attempt, Outcome) {
	x := op.current
	resp, err := x.send(op.base, op.cfg.attemptTimeout)
	a := Attempt{Request: x.req, Response: resp}
	if err != nil {
		a.Err = x.failure(err)
	}
	if x.trace.resent() {
		op.tally.add(Unknown)
	}
	return a, x.verdict(a, err)
}

func (op *httpOperation) judge(a Attempt) (Decision, floor) {
	classify := op.cfg.classify
	if classify == nil {
		classify = DefaultClassifier
	}
	if a.Err != nil && op.current.body.failed.Load() != nil || classify(a) == Stop {
		return Stop, floor{}
	}
	if a.Response == nil {
		return Retry, floor{}
	}
	return Retry, retryAfter(a.Response.Header, time.Now)
}

func (op *httpOperation) replayable() bool { return op.source == nil || op.source.replayable() }

func (op *httpOperation) discard(a Attempt) {
	if a.Response != nil {
		op.current.discard(a.Response)
	}
}

// abandon ends what is under way when a hook or classifier panics.
func (op *httpOperation) abandon() {
	if !op.ended {
		op.current.giveUp()
		op.releaseSource()
	}
}

// finish hands over what run ended with.
func (op *httpOperation) finish(a Attempt, err error) (*http.Response, error) {
	op.ended = true
	if err != nil {
		op.releaseSource()
		return nil, op.fail(err)
	}
	op.answer, op.handed = a.Response, &op.body
	op.handed.resumable = op.isResumable(a.Response)
	if !op.handed.resumable {
		op.releaseSource()
	}
	op.current.deliver(a.Response, op.handed)
	op.done(nil)
	return a.Response, nil
}

// releaseSource says that the request's body will not be needed for another
// attempt. Only the first call counts.
func (op *httpOperation) releaseSource() {
	if op.source != nil && !op.released.Swap(true) {
		op.source.release()
	}
}

// refuse ends an operation of which nothing is sent.
func (op *httpOperation) refuse(reason StopReason, err error) (*http.Response, error) {
	if op.req.Body != nil {
		op.req.Body.Close()
	}
	op.reason = reason
	return nil, op.fail(err)
}

// passThrough sends the request, under the key, for an operation that Do
// repeats.
func (op *httpOperation) passThrough() (*http.Response, error) {
	req := op.req.WithContext(op.ctx)
	req.Header = op.header(1)
	return op.base.RoundTrip(req)
}
