package saferetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Do makes call one logical operation, for what is not an HTTP request or goes
// through another SDK: one key, handed to every attempt, and the cap, waits,
// attempt timeout, hooks and logs of a [Transport]. The key is ctx's
// ([WithKey]), or a new one; the context of the call has it too, so that a
// Transport of this package below sends it, and leaves the repeating to Do.
//
// It retries what [Retryable] marked, errors of a connection and timeouts by
// their type, and errors with an HTTPStatusCode() int or StatusCode() int of
// 408, 429 or 5xx. Any other error may be the caller's own mistake and stops it,
// as backoff.Permanent and the [*Error] of an operation within do. A classifier
// given by [WithClassifier] decides on errors instead; a success is final.
//
// The context of a call is cancelled when the call fails, or takes longer than
// the attempt timeout. After a success it lives as long as the result uses it.
//
// The error is an [*Error], and the result then the zero T. Of the options, those
// on headers, methods and bodies do nothing here.
func Do[T any](ctx context.Context, call func(ctx context.Context, key string) (T, error), opts ...Option) (T, error) {
	op := &callOperation[T]{operation: operation{cfg: newConfig(opts), ctx: ctx, repeatable: true}, call: call}
	err := op.begin()
	if err == nil {
		_, err = op.run(op)
	}
	if err != nil {
		var none T
		return none, op.fail(err)
	}
	op.done(nil)
	return op.result, nil
}

// Retryable marks err so that [Do] tries again, no sooner than after; zero or
// less leaves the wait to the policy. errors.Is and errors.As see err through the
// mark. It returns nil for a nil err.
func Retryable(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryableError{err, after}
}

type retryableError struct {
	error
	after time.Duration
}

func (e *retryableError) Unwrap() error { return e.error }

// callOperation is an operation whose attempts are calls made by Do.
type callOperation[T any] struct {
	operation
	call    func(ctx context.Context, key string) (T, error)
	current *callContext
	result  T
}

// begin finds or makes the key, and checks what can be wrong before any call.
func (op *callOperation[T]) begin() error {
	op.reason = Permanent
	if op.ctx == nil {
		return errNilContext
	}
	if op.call == nil {
		return errNilCall
	}
	key, ok := KeyFromContext(op.ctx)
	if !ok {
		var err error
		if key, err = op.cfg.newKey(nil); err != nil {
			return err
		}
	}
	if err := ValidateKey(key); err != nil {
		return err
	}
	op.key = key
	if op.ctx.Err() != nil {
		op.reason = stopped(op.ctx)
		return interruption(op.ctx, nil)
	}
	return nil
}

func (op *callOperation[T]) prepare(int) error {
	op.current = newCallContext(&op.operation)
	return nil
}

func (op *callOperation[T]) send() (Attempt, Outcome) {
	var timer *time.Timer
	if timeout := op.cfg.attemptTimeout; timeout > 0 {
		timer = time.AfterFunc(timeout, op.current.cancel)
	}
	result, err := op.call(op.current, op.key)
	timedOut := timer != nil && !timer.Stop()
	if err == nil {
		op.result = result
		return Attempt{}, Performed
	}
	op.current.cancel()
	switch {
	case op.ctx.Err() != nil:
		return Attempt{Err: interruption(op.ctx, err)}, verdictOn(err)
	case timedOut && errors.Is(err, context.Canceled):
		return Attempt{Err: attemptTimeout{}}, verdictOn(err)
	case timedOut: // many SDKs have an error of their own for a context that ended
		return Attempt{Err: fmt.Errorf("%w: %w", attemptTimeout{}, err)}, verdictOn(err)
	}
	return Attempt{Err: err}, verdictOn(err)
}

func (op *callOperation[T]) judge(a Attempt) (Decision, floor) {
	decision, least := judgeCall(a.Err)
	if a.Err != nil && op.cfg.classify != nil {
		decision = op.cfg.classify(a)
	}
	return decision, least
}

func (op *callOperation[T]) replayable() bool { return true }
func (op *callOperation[T]) discard(Attempt)  {}

// judgeCall decides by what the error of a call is known to be.
func judgeCall(err error) (Decision, floor) {
	var (
		permanent *backoff.PermanentError
		marked    *retryableError
	)
	switch {
	case err == nil, errors.As(err, &permanent):
		return Stop, floor{}
	case wasRepeated(err):
		return Stop, floor{}
	case errors.As(err, &marked):
		return Retry, floor{wait: marked.after}
	}
	if status, ok := statusIn(err); ok {
		return retryIf(isRetryableStatus(status)), floor{}
	}
	return retryIf(!isCertificateRefusal(err) && (isTimeout(err) || isConnectionError(err))), floor{}
}

// wasRepeated is true for the error of an operation within the call, unless the
// call itself marked it as one to be repeated.
func wasRepeated(err error) bool {
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e.(type) {
		case *retryableError:
			return false
		case *Error:
			return true
		}
	}
	return errors.As(err, new(*Error)) // in a branch of several errors
}

// verdictOn says what the error of a call tells of its effect. A 409 may be
// this operation's own earlier attempt: an error does not show its body.
func verdictOn(err error) Outcome {
	var ended *Error
	if errors.As(err, &ended) {
		return ended.Report.Outcome
	}
	if status, ok := statusIn(err); ok {
		return statusVerdict(status, true)
	}
	if isConnectFailure(err) {
		return NotSent
	}
	return Unknown
}

// statusIn returns the HTTP status that an SDK's error carries.
func statusIn(err error) (status int, ok bool) {
	var long interface{ HTTPStatusCode() int }
	var short interface{ StatusCode() int }
	switch {
	case errors.As(err, &long):
		status = long.HTTPStatusCode()
	case errors.As(err, &short):
		status = short.StatusCode()
	}
	return status, status > 0
}
