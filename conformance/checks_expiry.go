package conformance

import "time"

// expiryChecks move the endpoint's clock, and so come last.
var expiryChecks = []check{
	{
		id:    "expiry.kept",
		about: "a retry a minute before the key's time is over",
		want:  "the first answer again",
		draft: should(draft23), stripe: must(stripePage), acp: must(acp66),
		needs:    []need{clock},
		requests: 2,
		run: func(p *probe) {
			op := p.operation()
			first := p.perform(op)
			p.advance(max(p.target.Retention-time.Minute, p.target.Retention/2))
			p.wantSame(first, p.send(op))
		},
	},
	{
		id:    "expiry.forgotten",
		about: "a retry a minute after the key's time is over",
		want:  "a new operation",
		draft: should(draft23), stripe: should(stripePage), acp: should(acp66),
		needs:    []need{clock},
		requests: 2, counts: 2,
		run: func(p *probe) {
			before := p.count()
			op := p.operation()
			first := p.perform(op)
			p.advance(p.target.Retention + time.Minute)
			a := p.send(op)
			p.wantPerformed(first, a)
			p.wantNotReplayed(first, a)
			p.wantEffects(before, 2)
		},
	},
}
