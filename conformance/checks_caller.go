package conformance

import "net/http"

// callerChecks look at who may use a key.
var callerChecks = []check{
	{
		id:    "caller.other",
		about: "another caller's request under the same key",
		want:  "an operation of its own: 2xx, nothing of the first answer",
		draft: must(draft5), stripe: must(own), acp: must(acp61),
		needs:    []need{otherCaller},
		requests: 2,
		run: func(p *probe) {
			op := p.operation()
			first := p.perform(op)
			a := p.send(op.as(p.target.OtherCaller, "another caller"))
			p.wantNotReplayed(first, a)
			if !a.ok() {
				p.fail("the other caller was answered %d: want the key to be free for it, 2xx", a.Status)
			}
		},
	},
	{
		id:    "caller.refused",
		about: "a request that is not authorized, under the key of one that was",
		want:  "401 or 403, and nothing of the first answer",
		draft: must(draft5), stripe: must(own), acp: must(acp61),
		needs:    []need{refused},
		requests: 2,
		run: func(p *probe) {
			op := p.operation()
			first := p.perform(op)
			a := p.send(op.made(p.target.Ways.Refused, "not authorized"))
			p.wantNothingOf(first, a)
			if !unauthorized(a) {
				p.fail("answered %d: want 401 or 403", a.Status)
			}
		},
	},
	{
		id:    "caller.unauthorized",
		about: "a request that was not authorized, again when it is",
		want:  "it is performed: a 401 does not use up the key",
		draft: must(own), stripe: must(stripePage), acp: must(own),
		needs:    []need{refused},
		requests: 2, counts: 2,
		run: func(p *probe) {
			before := p.count()
			op := p.operation()
			first := p.send(op.made(p.target.Ways.Refused, "not authorized"))
			if !unauthorized(first) {
				p.skip("the request that is not authorized was answered %d: want 401 or 403", first.Status)
			}
			p.wantPerformed(first, p.send(op))
			p.wantEffects(before, 1)
		},
	},
}

func unauthorized(a *reply) bool {
	return a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden
}
