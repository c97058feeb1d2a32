package conformance

import "net/http"

// reuseChecks look at a key that comes again with another request.
var reuseChecks = []check{
	{
		id:    "reuse.body",
		about: "a key with another body, after the first is done",
		want:  "4xx, nothing of the first answer, and nothing is performed",
		draft: must(draft27), stripe: must(stripePage), acp: must(acp64),
		needs:    []need{otherBody},
		requests: 2, counts: 2,
		run: func(p *probe) {
			before := p.count()
			op := p.operation()
			first := p.perform(op)
			p.wantRefused(first, p.send(op.other(p)))
			p.wantEffects(before, 1)
		},
	},
	{
		id:    "reuse.status",
		about: "a key with another body, after the first is done: the status",
		want:  "422 (profile stripe: 400)",
		draft: should(draft27), stripe: should(stripeErrors), acp: must(acp64),
		needs:    []need{otherBody},
		requests: 2,
		run: func(p *probe) {
			want := http.StatusUnprocessableEntity
			if p.target.Profile == Stripe {
				want = http.StatusBadRequest
			}
			op := p.operation()
			p.perform(op)
			if a := p.send(op.other(p)); a.Status != want {
				p.fail("answered %d: want %d", a.Status, want)
			}
		},
	},
	{
		id:    "reuse.query",
		about: "a key with another query",
		want:  "refused, or performed for itself: never the first answer",
		draft: should(own), stripe: must(stripePage),
		requests: 2,
		run: func(p *probe) {
			op := p.operation()
			first := p.perform(op)
			address := withQuery(op.url, map[string][]string{"conformance": {"1"}})
			p.wantNotReplayed(first, p.send(op.at(address, "another query")))
		},
	},
	{
		id:    "reuse.method",
		about: "a key with another method",
		want:  "refused, or performed for itself: never the first answer",
		draft: should(own), stripe: should(own), acp: should(own),
		requests: 2,
		run: func(p *probe) {
			op := p.operation()
			first := p.perform(op)
			method := http.MethodPatch
			if op.method == method {
				method = http.MethodPost
			}
			p.wantNotReplayed(first, p.send(op.by(method)))
		},
	},
	{
		id:    "reuse.path",
		about: "a key at another path",
		want:  "another operation: never the first answer (profile acp: nor 409 or 422)",
		draft: must(own), stripe: must(stripePage), acp: must(acp61),
		requests: 2,
		run: func(p *probe) {
			op := p.operation()
			first := p.perform(op)
			address := p.target.OtherURL
			if address == "" {
				address = below(op.url, "conformance")
			}
			a := p.send(op.at(address, "another path"))
			p.wantNotReplayed(first, a)
			if p.target.Profile == ACP && (a.Status == http.StatusConflict || a.Status == http.StatusUnprocessableEntity) {
				p.fail("answered %d, as if the key were used: want it to be free at another path", a.Status)
			}
		},
	},
}

// jsonChecks look at what counts as another JSON body.
var jsonChecks = []check{
	{
		id:    "json.member-order",
		about: "a key with the members of the body in another order",
		want:  "the same request: the first answer again",
		acp:   must(acp62),
		needs: []need{jsonBody}, requests: 2,
		run: func(p *probe) { p.rewritten(reordered, "members in another order", "two members or more") },
	},
	{
		id:    "json.number-form",
		about: "a key with a number of the body written as 1.0 instead of 1",
		want:  "the same request: the first answer again",
		acp:   must(acp62),
		needs: []need{jsonBody}, requests: 2,
		run: func(p *probe) { p.rewritten(renumbered, "1.0 for 1", "a member that is an integer") },
	},
	{
		id:    "json.null-absent",
		about: "a key with a member of the body null, and then absent",
		want:  "another request: 4xx",
		draft: should(draft27), acp: must(acp62),
		needs: []need{jsonBody}, requests: 2,
		run: func(p *probe) {
			absent := p.operation()
			list, _ := members(absent.body) // is one: needs jsonBody
			null := absent.written(object(set(list, member{p.target.NullField, []byte("null")})), "a member null")
			first := p.perform(null)
			p.wantRefused(first, p.send(absent.written(object(without(list, p.target.NullField)), "the member absent")))
		},
	},
}

// rewritten wants a body written in another way to be the same request.
func (p *probe) rewritten(write func([]byte) ([]byte, bool), how, wants string) {
	op := p.operation()
	text, ok := write(op.body)
	if !ok {
		p.skip("the body has not %s", wants)
	}
	first := p.perform(op)
	p.wantSame(first, p.send(op.written(text, how)))
}

func without(list []member, name string) []member {
	var rest []member
	for _, m := range list {
		if m.name != name {
			rest = append(rest, m)
		}
	}
	return rest
}
