package conformance

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// flightChecks look at a request that comes while the first is under way.
var flightChecks = []check{
	{
		id:    "flight.conflict",
		about: "the same request again while the first is under way",
		want:  "409, or the first answer once it is there; one effect",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp64),
		needs:    []need{slow},
		requests: 2, counts: 2,
		run: func(p *probe) {
			before := p.count()
			op := p.slow()
			first, second := p.overlap(op, op)
			if second.Status != http.StatusConflict {
				p.wantSame(first, second)
			}
			p.wantEffects(before, 1)
		},
	},
	{
		id:    "flight.retry-after",
		about: "the same request again while the first is under way: when to retry",
		want:  "the 409 has Retry-After, in seconds or as a date",
		draft: should(http1023), acp: should(acp64),
		needs:    []need{slow},
		requests: 2,
		run: func(p *probe) {
			op := p.slow()
			_, second := p.overlap(op, op)
			if second.Status != http.StatusConflict {
				p.skip("the second was answered %d, not 409", second.Status)
			}
			if value := second.Header.Get("Retry-After"); !isRetryAfter(value) {
				p.fail("Retry-After is %q", value)
			}
		},
	},
	{
		id:    "flight.then-replay",
		about: "a retry once the first is done, after a 409",
		want:  "the first answer",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		needs:    []need{slow},
		requests: 3,
		run: func(p *probe) {
			op := p.slow()
			first, second := p.overlap(op, op)
			if second.Status != http.StatusConflict {
				p.skip("the second was answered %d, not 409", second.Status)
			}
			p.wantSame(first, p.send(op))
		},
	},
	{
		id:    "flight.other-body",
		about: "a key with another body while the first is under way",
		want:  "4xx, nothing of the first answer, and nothing is performed",
		draft: must(draft27), stripe: must(stripePage), acp: must(acp64),
		needs:    []need{slow, otherBody},
		requests: 2, counts: 2,
		run: func(p *probe) {
			before := p.count()
			op := p.slow()
			first, second := p.overlap(op, op.other(p))
			p.wantRefused(first, second)
			p.wantEffects(before, 1)
		},
	},
	{
		id:    "flight.client-gone",
		about: "the client hangs up in the middle, and retries",
		want:  "in the end 2xx, and one effect",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		needs:    []need{slow, effects},
		requests: 1 + patience, counts: 2,
		run: func(p *probe) {
			before := p.count()
			op := p.slow()
			ctx, hangUp := context.WithCancelCause(p.ctx)
			f := p.begin(ctx, op)
			tooFast := f.over()
			hangUp(errHungUp)
			<-f.ended
			p.log(Exchange{p.words(op), p.cameAs(f.reply)})
			if tooFast {
				p.skip("the endpoint answered before the client could hang up: make it slower")
			}
			if a := p.insist(op); !a.ok() {
				p.fail("the retry was answered %d: want 2xx", a.Status)
			}
			p.wantEffects(before, 1)
		},
	},
}

// concurrentChecks send many requests at once.
var concurrentChecks = []check{
	{
		id:    "concurrent.answers",
		about: "the same request 50 times at once: what comes back",
		want:  "one answer of an operation; each other is that one again, or 409",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		load: true, requests: many,
		run: func(p *probe) { p.crowd() },
	},
	{
		id:    "concurrent.once",
		about: "the same request 50 times at once: what it does",
		want:  "one effect",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		needs: []need{effects}, load: true, requests: many, counts: 2,
		run: func(p *probe) {
			before := p.count()
			p.together(p.slow(), many)
			p.wantEffects(before, 1)
		},
	},
}

const (
	many     = 50 // requests at once
	patience = 20 // retries while the first is under way
)

type hungUp struct{}

func (hungUp) Error() string { return "the client hung up" }

var errHungUp = hungUp{}

// slow is an operation that takes a while, if there is a way.
func (p *probe) slow() operation { return p.operation().made(p.target.Ways.Slow, "slow") }

// overlap sends second while first is under way, and returns both answers.
func (p *probe) overlap(first, second operation) (a, b *reply) {
	f := p.begin(p.ctx, first)
	tooFast := f.over()
	b = p.exchange(p.ctx, second, nil)
	p.log(Exchange{p.words(second), p.cameAs(b)})
	a = p.land(first, f)
	switch {
	case b.err != nil:
		p.failWithout(b.err)
	case tooFast:
		p.skip("the first was answered before the second was sent: make it slower")
	case !a.ok():
		p.skip("the operation was answered %d: want 2xx", a.Status)
	}
	return a, b
}

// crowd sends a request many times at once and judges the answers.
func (p *probe) crowd() {
	var first *reply
	replies := p.together(p.slow(), many)
	for _, a := range replies {
		if a.err != nil {
			p.failWithout(a.err)
		}
		if a.ok() && !a.Replayed(p.target.ReplayHeader) {
			first = a
		}
	}
	if first == nil {
		p.fail("no answer of an operation among %d", many)
	}
	for _, a := range replies {
		if a != first && a.Status != http.StatusConflict {
			p.wantSame(first, a)
		}
	}
}

// insist retries op until it is not told to wait.
func (p *probe) insist(op operation) *reply {
	deadline := time.Now().Add(p.target.Timeout)
	wait := 50 * time.Millisecond
	for tries := 1; ; tries++ {
		a := p.send(op)
		if a.Status != http.StatusConflict || tries == patience || time.Now().Add(wait).After(deadline) {
			return a
		}
		p.pause(wait)
		wait = min(2*wait, time.Second)
	}
}

// isRetryAfter reports whether value is what RFC 9110, section 10.2.3, wants.
func isRetryAfter(value string) bool {
	if _, err := strconv.ParseUint(value, 10, 64); err == nil {
		return true
	}
	_, err := http.ParseTime(value)
	return err == nil
}
