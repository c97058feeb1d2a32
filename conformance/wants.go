package conformance

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/saferetry/saferetry/internal/answer"
)

// wantReplay wants a to be the first answer again, in all that matters.
func (p *probe) wantReplay(first, a *reply) {
	for _, d := range answer.Compare(first.Answer, a.Answer, p.target.Compare...) {
		if d.Counts {
			p.fail("%s: the first answer has %s, this one has %s", d.Field, shown(d.First), shown(d.Other))
		}
	}
	p.wantTold(a)
}

// wantSame wants a to have what the first answer has for a body, with a status
// of the same kind.
func (p *probe) wantSame(first, a *reply) {
	if first.Status/100 != a.Status/100 {
		p.fail("answered %d: want the first answer, %d", a.Status, first.Status)
	}
	for _, d := range answer.Compare(answer.Answer{Body: first.Body}, answer.Answer{Body: a.Body}) {
		p.fail("%s: the first answer has %s, this one has %s", d.Field, shown(d.First), shown(d.Other))
	}
	p.wantTold(a)
}

// wantTold skips where a replay can't be told from a second operation.
func (p *probe) wantTold(a *reply) {
	if p.run.alike && !a.Replayed(p.target.ReplayHeader) && !p.counts() {
		p.skip("answers to two operations are the same, and it is not marked: a replay can't be told from a second effect")
	}
}

func shown(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

// wantNotReplayed wants a to have nothing of the first answer.
func (p *probe) wantNotReplayed(first, a *reply) {
	if a.Replayed(p.target.ReplayHeader) {
		p.fail("answered with a stored answer")
	}
	p.wantNothingOf(first, a)
	if p.run.alike && a.ok() {
		p.skip("answers to two operations are the same: a replay can't be told from an effect of its own")
	}
}

// wantRefused wants a to be an error of the caller that shows nothing of the
// first answer.
func (p *probe) wantRefused(first, a *reply) {
	if !a.refused() {
		p.fail("answered %d: want an error of the caller, 4xx", a.Status)
	}
	if a.Replayed(p.target.ReplayHeader) {
		p.fail("the refusal is marked as a replay")
	}
	p.wantNothingOf(first, a)
}

// wantNothingOf wants none of what is the first answer's own to be in a.
func (p *probe) wantNothingOf(first, a *reply) {
	location := first.Header.Get("Location")
	switch {
	case !p.run.alike && len(first.Body) > 0 && bytes.Equal(first.Body, a.Body):
		p.fail("answered with the first answer's bytes")
	case location != "" && a.Header.Get("Location") == location:
		p.fail("shows the first answer's Location")
	case p.run.alike:
		return
	}
	for _, value := range answer.Values(first.Body, p.run.telling) {
		if telling(value) && strings.Contains(string(a.Body), value) {
			p.fail("shows %q of the first answer", value)
		}
	}
}

// telling reports whether a value is unlikely to be in another answer by chance,
// as a short one, a number or the time of day may be.
func telling(value string) bool {
	_, notNumber := strconv.ParseFloat(value, 64)
	_, notTime := time.Parse(time.RFC3339Nano, value)
	return len(value) >= 4 && notNumber != nil && notTime != nil
}

// wantEffects wants n more effects than before. Without a way to count them it
// has nothing to say.
func (p *probe) wantEffects(before, n int) {
	if changed := p.count() - before; p.counts() && changed != n {
		p.fail("%d effects: want %d", changed, n)
	}
}

// wantPerformed wants a to come from the handler, after a first answer that was an
// error.
func (p *probe) wantPerformed(first, a *reply) {
	if a.Replayed(p.target.ReplayHeader) {
		p.fail("the retry was answered with the stored %d", a.Status)
	}
	if !a.ok() {
		p.fail("the first was answered %d, the retry %d: want the operation to be performed, 2xx", first.Status, a.Status)
	}
}
