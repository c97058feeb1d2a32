package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A renewal keeps a claim's lease from ending while its handler lives. It is a timer, no goroutine, between renewals.
type renewal struct {
	m      *middleware
	claim  Claim
	ctx    context.Context // detached from the request, done when the handler has ended
	cancel context.CancelFunc
	lost   context.CancelCauseFunc // ends the handler's context

	mu      sync.Mutex // held while the store renews
	stopped bool
	timer   *time.Timer
}

// renew starts to renew the lease of c.
func renew(ctx context.Context, m *middleware, c Claim, lost context.CancelCauseFunc) *renewal {
	n := &renewal{m: m, claim: c, lost: lost}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.mu.Lock() // timer is set before it is used
	defer n.mu.Unlock()
	n.timer = time.AfterFunc(n.interval(), n.step)
	return n
}

func (n *renewal) interval() time.Duration { return max(n.m.lease/3, time.Millisecond) }

// step renews once. A store that fails is asked again after the next interval; a claim that is lost ends the handler.
func (n *renewal) step() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, min(n.interval(), storeTimeout))
	defer cancel()
	err := n.m.store.Renew(ctx, n.claim, n.m.lease)
	switch {
	case errors.Is(err, ErrLost):
		n.lost(ErrLost)
		return
	case err != nil && n.ctx.Err() == nil:
		n.m.logFailure("renew", n.claim.ID, err)
	}
	n.timer.Reset(n.interval())
}

// stop ends the renewal; none is under way when it returns.
func (n *renewal) stop() {
	n.cancel()
	n.timer.Stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
	n.timer.Stop()
}
