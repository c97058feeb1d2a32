package conformance

import (
	"bytes"
	"net/http"
)

// failureChecks look at a retry after an answer that was an error.
var failureChecks = []check{
	{
		id:    "failure.error",
		about: "a retry after a 5xx",
		want:  "it runs again (profile stripe: the 5xx is replayed)",
		draft: should(own), stripe: must(stripePage), acp: must(acp65),
		needs:    []need{failing},
		requests: 2,
		run: func(p *probe) {
			first, a := p.retried(p.target.Ways.Error, "fails")
			if first.Status < 500 {
				p.skip("the request that is to fail was answered %d: want 5xx", first.Status)
			}
			if p.target.Profile == Stripe {
				p.wantSame(first, a)
				return
			}
			p.wantPerformed(first, a)
		},
	},
	{
		id:    "failure.limited",
		about: "a retry after a 429",
		want:  "it is performed: a 429 does not use up the key",
		draft: must(own), stripe: must(stripePage), acp: must(own),
		needs:    []need{limited},
		requests: 2,
		run: func(p *probe) {
			first, a := p.retried(p.target.Ways.Limited, "over the limit")
			if first.Status != http.StatusTooManyRequests {
				p.skip("the request that is to be limited was answered %d: want 429", first.Status)
			}
			p.wantPerformed(first, a)
		},
	},
}

// retried sends an operation made to fail, and then again without that.
func (p *probe) retried(w *Way, how string) (first, again *reply) {
	op := p.operation()
	bad := op.made(w, how)
	if !bytes.Equal(bad.body, op.body) || bad.url != op.url {
		p.skip("the way to fail changes more than header fields, and so the retry would be another request")
	}
	return p.send(bad), p.send(op)
}
