package conformance

// replayChecks look at a request that is sent again after it was answered.
var replayChecks = []check{
	{
		id:    "replay.same",
		about: "the same request twice: what comes back",
		want:  "the same status, bytes and header fields that matter",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		requests: 2,
		run: func(p *probe) {
			op := p.operation()
			first := p.perform(op)
			p.wantReplay(first, p.send(op))
		},
	},
	{
		id:    "replay.once",
		about: "the same request three times: what it does",
		want:  "one effect",
		draft: must(draft26), stripe: must(stripePage), acp: must(acp63),
		needs:    []need{effects},
		requests: 3, counts: 2,
		run: func(p *probe) {
			before := p.count()
			op := p.operation()
			p.perform(op)
			p.send(op)
			p.send(op)
			p.wantEffects(before, 1)
		},
	},
	{
		id:    "replay.marked",
		about: "the same request twice: the mark of a replay",
		want:  "the second answer is marked as a stored one, the first is not",
		draft: should(own), stripe: should(stripeErrors), acp: should(acp63),
		requests: 2,
		run: func(p *probe) {
			op := p.operation()
			p.perform(op) // wants no mark
			if !p.send(op).Replayed(p.target.ReplayHeader) {
				p.fail("the second answer has no mark")
			}
		},
	},
	{
		id:    "replay.get",
		about: "a GET under the key of an operation",
		want:  "never the operation's stored answer",
		draft: must(http921), stripe: must(stripePage), acp: must(http921),
		requests: 4,
		run: func(p *probe) {
			op := p.operation()
			first := p.perform(op)
			p.perform(p.operation()) // what a GET shows is no longer what the first made
			get := op.by("GET")
			p.wantNotStored(first, p.send(get))
			p.wantNotStored(first, p.send(get))
		},
	},
}

// wantNotStored wants a GET to be answered for itself.
func (p *probe) wantNotStored(first, a *reply) {
	if a.Replayed(p.target.ReplayHeader) {
		p.fail("answered with a stored answer")
	}
	if !p.run.alike && len(first.Body) > 0 && string(a.Body) == string(first.Body) {
		p.fail("answered with the operation's bytes")
	}
}
