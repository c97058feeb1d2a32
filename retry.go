package saferetry

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// next decides whether another attempt follows a, and after what wait. Where
// none does, op.reason says why.
func (op *operation) next(s sender, a Attempt) (wait time.Duration, again bool) {
	if a.Err != nil && op.ctx.Err() != nil {
		op.reason = stopped(op.ctx)
		return 0, false
	}
	decision, least := s.judge(a)
	switch {
	case decision == Stop && a.Err == nil:
		op.reason = Answered
	case decision == Stop:
		op.reason = Permanent
	default:
		return op.another(s, least)
	}
	return 0, false
}

// another decides whether attempts, body, time and budget allow for another
// attempt, and draws the wait before it.
func (op *operation) another(s sender, least floor) (wait time.Duration, again bool) {
	switch {
	case op.ctx.Err() != nil:
		op.reason = stopped(op.ctx)
	case op.attempts >= op.cfg.maxAttempts:
		op.reason = Exhausted
	case !op.repeatable && op.tally.outcome() != NotSent:
		op.reason = NotRepeatable
	case !s.replayable():
		op.reason = NotReplayable
	default:
		return op.nextWait(least)
	}
	return 0, false
}

// nextWait draws the next wait from the policy. A server's Retry-After is a
// floor, with something at random on top of it, so that clients that were told
// the same second do not come back together.
func (op *operation) nextWait(least floor) (wait time.Duration, again bool) {
	if least.beyond || least.wait > op.cfg.maxRetryAfter {
		op.reason = RetryAfterTooLong
		return 0, false
	}
	if op.policy == nil {
		op.policy = op.cfg.policy()
	}
	wait = op.policy.NextBackOff()
	if wait == backoff.Stop {
		op.reason = Exhausted
		return 0, false
	}
	if least.wait > 0 {
		spread := min(op.cfg.base, math.MaxInt64-least.wait)
		wait = max(wait, least.wait+op.cfg.random(spread))
	}
	if deadline, ok := op.ctx.Deadline(); ok && time.Until(deadline) <= wait {
		op.reason = Deadline
		return 0, false
	}
	if op.cfg.budget != nil && !op.cfg.budget.spend() {
		op.reason = BudgetSpent
		return 0, false
	}
	return wait, true
}

// pause waits for d; it is false if the context ended before the next attempt.
func (op *operation) pause(d time.Duration) bool {
	if d > 0 {
		start := time.Now()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-op.ctx.Done():
		}
		op.waited += time.Since(start)
	}
	return op.ctx.Err() == nil
}
