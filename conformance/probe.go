package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A probe is the hand of one check. Its methods send, and end the check when
// there is nothing more to be told; they are called by the check's own goroutine
// alone.
type probe struct {
	ctx    context.Context
	run    *run
	target *Target
	check  *check

	flights sync.WaitGroup // requests that another goroutine sends

	mu        sync.Mutex
	sent      int // requests
	counted   int // calls of Effects
	exchanges []Exchange
	letters   map[string]string // how keys are shown
}

func newProbe(ctx context.Context, r *run, c *check) *probe {
	return &probe{ctx: ctx, run: r, target: r.target, check: c, letters: make(map[string]string)}
}

// A verdict ends a check.
type verdict struct {
	outcome Outcome
	why     string
	cause   error // of a Fail: why there was no answer
	err     error // ends the run
}

// judge runs the check. Verdicts travel as panics, so that a check reads as what
// it does, step after step.
func (p *probe) judge() (v verdict) {
	defer func() {
		switch found := recover().(type) {
		case nil:
		case verdict:
			v = found
		default:
			panic(found)
		}
		p.flights.Wait() // each ends within Target.Timeout
		if p.ctx.Err() != nil {
			v = verdict{err: context.Cause(p.ctx)}
		}
	}()
	p.check.run(p)
	return verdict{outcome: Pass}
}

func (p *probe) fail(format string, args ...any) {
	panic(verdict{outcome: Fail, why: fmt.Sprintf(format, args...)})
}

// failWithout ends the check where an answer is missing.
func (p *probe) failWithout(err error) {
	panic(verdict{outcome: Fail, why: fmt.Sprintf("no answer: %v", err), cause: err})
}

func (p *probe) skip(format string, args ...any) {
	panic(verdict{outcome: Skip, why: fmt.Sprintf(format, args...)})
}

// call calls what the user gave. If it does not work, the run ends.
func (p *probe) call(what string, f func(context.Context) error) {
	ctx, cancel := context.WithTimeoutCause(p.ctx, p.target.Timeout, fmt.Errorf("not done within %s", p.target.Timeout))
	defer cancel()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.abort(what, err)
	}
}

func (p *probe) abort(what string, err error) {
	panic(verdict{err: fmt.Errorf("conformance: %s: %w", what, err)})
}

// spend takes one from what the check said it would send at the most.
func (p *probe) spend(used *int, most int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *used >= most {
		return errors.New("the check has sent all that it said it would")
	}
	*used++
	return nil
}

// counts reports whether effects can be counted.
func (p *probe) counts() bool { return p.target.Effects != nil }

// count returns the number of effects so far, or 0 if they are not counted.
func (p *probe) count() int {
	if !p.counts() {
		return 0
	}
	if err := p.spend(&p.counted, p.check.counts); err != nil {
		p.abort("Target.Effects", err)
	}
	var n int
	p.call("Target.Effects", func(ctx context.Context) (err error) {
		n, err = p.target.Effects(ctx)
		return err
	})
	return n
}

// advance moves the endpoint's clock.
func (p *probe) advance(d time.Duration) {
	p.call("Target.Advance", func(ctx context.Context) error { return p.target.Advance(ctx, d) })
	p.log(Exchange{"the clock moved by " + d.String(), "done"})
}

// pause waits for d.
func (p *probe) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.ctx.Done():
		panic(verdict{err: context.Cause(p.ctx)})
	}
}

func (p *probe) log(e Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges = append(p.exchanges, e)
}
