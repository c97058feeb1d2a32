package conformance

import "strings"

// keyChecks look at what the endpoint takes for a key.
var keyChecks = []check{
	{
		id:    "key.missing",
		about: "a request without a key",
		want:  "400, and nothing is performed",
		draft: should(draft27), acp: must(acp61),
		requests: 1, counts: 2,
		run: func(p *probe) {
			before := p.count()
			a := p.send(p.operation().keyed())
			if a.Status != 400 {
				p.fail("answered %d: want 400", a.Status)
			}
			p.wantEffects(before, 0)
		},
	},
	{
		id:    "key.empty",
		about: "an empty key",
		want:  "4xx, and nothing is performed",
		draft: should(draft5), acp: should(own),
		requests: 1, counts: 2,
		run: func(p *probe) {
			before := p.count()
			p.wantInvalid(p.send(p.operation().keyed("").noted("an empty key")))
			p.wantEffects(before, 0)
		},
	},
	{
		id:    "key.too-long",
		about: "a key of 256 characters",
		want:  "4xx, and nothing is performed",
		draft: should(draft5), stripe: should(stripePage), acp: should(acp61),
		requests: 1, counts: 2,
		run: func(p *probe) {
			before := p.count()
			key := p.newKey()
			key += strings.Repeat("0", 256-len(key))
			p.wantInvalid(p.send(p.operation().keyed(key).noted("256 characters")))
			p.wantEffects(before, 0)
		},
	},
	{
		id:    "key.two-lines",
		about: "two keys in two header lines",
		want:  "4xx, and nothing is performed",
		draft: should(draft21), stripe: should(http53), acp: should(http53),
		requests: 1, counts: 2,
		run: func(p *probe) {
			before := p.count()
			p.wantInvalid(p.send(p.operation().keyed(p.newKey(), p.newKey()).noted("two lines")))
			p.wantEffects(before, 0)
		},
	},
	{
		id:       "key.quoted",
		about:    "the same key bare and in quotes",
		want:     "one operation: the second is answered with the first's answer",
		draft:    should(draft21),
		requests: 2, counts: 2,
		run: func(p *probe) {
			before := p.count()
			op := p.operation()
			first := p.perform(op)
			p.wantSame(first, p.send(op.keyed(`"`+op.keys[0]+`"`).noted("in quotes")))
			p.wantEffects(before, 1)
		},
	},
}

// wantInvalid wants a request with a key that is none to be refused.
func (p *probe) wantInvalid(a *reply) {
	if !a.refused() {
		p.fail("answered %d: want an error of the caller, 4xx", a.Status)
	}
}
