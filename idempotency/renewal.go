package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A renewal keeps a claim's lease from ending while its handler lives. Between one step and the next it is a timer, and no
// goroutine.
type renewal struct {
	m     *middleware
	claim Claim
	ctx   context.Context         // of the request
	lost  context.CancelCauseFunc // ends the handler's context

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	cancel  context.CancelFunc // of the step under way
	idle    sync.WaitGroup     // no step is under way
}

// renew starts to renew the lease of c.
func renew(ctx context.Context, m *middleware, c Claim, lost context.CancelCauseFunc) *renewal {
	n := &renewal{m: m, claim: c, ctx: ctx, lost: lost}
	n.mu.Lock() // for the timer to be set before its first step
	defer n.mu.Unlock()
	n.timer = time.AfterFunc(n.interval(), n.step)
	return n
}

func (n *renewal) interval() time.Duration { return max(n.m.lease/3, time.Millisecond) }

// step renews once. If the store fails, the next step tries again; if the claim is lost, there is none.
func (n *renewal) step() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), min(n.interval(), storeTimeout))
	defer cancel()
	n.mu.Lock()
	if n.stopped {
		n.mu.Unlock()
		return
	}
	n.cancel = cancel
	n.idle.Add(1)
	defer n.idle.Done()
	n.mu.Unlock()

	err := n.m.store.Renew(ctx, n.claim, n.m.lease)

	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.stopped: // the claim has ended meanwhile, and the error may be of that
	case errors.Is(err, ErrLost):
		n.lost(ErrLost)
	default:
		if err != nil {
			n.m.logFailure("renew", n.claim.ID, err)
		}
		n.timer.Reset(n.interval())
	}
}

// stop ends the renewal. No step is under way when it returns.
func (n *renewal) stop() {
	n.mu.Lock()
	n.stopped = true
	n.timer.Stop()
	if n.cancel != nil {
		n.cancel()
	}
	n.mu.Unlock()
	n.idle.Wait()
}
