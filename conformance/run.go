package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/saferetry/saferetry/internal/answer"
)

// Run checks the target and reports what it found. It runs one check after the
// other and sends no more than [Plan] says.
//
// The error is that of a wrong Target, of an endpoint that does not accept a
// fresh operation, of Effects or Advance, or the context's; the report then has
// the results up to there. A failed check is not an error.
func Run(ctx context.Context, t Target) (Report, error) {
	target, err := t.withDefaults()
	if err != nil {
		return Report{}, err
	}
	r := &run{target: target, n: 1000, report: Report{
		URL: shownURL(target.URL), Profile: target.Profile, Started: time.Now(), Results: []Result{},
	}}
	err = r.all(ctx)
	r.report.Took = time.Since(r.report.Started)
	return r.report, err
}

// A run is the course of one Run.
type run struct {
	target *Target
	report Report
	n      int // the last number given to a body

	// What was found of the endpoint in the preparation.
	telling []string // the members of a JSON answer that are another's for each operation
	alike   bool     // answers to two operations are the same: a replay can't be told by its bytes
}

// checks are those of the profile that are wanted.
func (t *Target) checks() []*check {
	var list []*check
	for i := range catalog {
		c := &catalog[i]
		if _, ok := c.rule(t.Profile); ok && (len(t.Only) == 0 || slices.Contains(t.Only, c.id)) {
			list = append(list, c)
		}
	}
	return list
}

func (r *run) all(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	for _, c := range r.target.checks() {
		res, err := r.try(ctx, c)
		if err != nil {
			return err
		}
		r.report.Results = append(r.report.Results, res)
		if r.target.Progress != nil {
			r.target.Progress(res)
		}
	}
	return nil
}

// prepare finds out whether the endpoint works at all.
func (r *run) prepare(ctx context.Context) error {
	p := newProbe(ctx, r, &preparation)
	v := p.judge()
	r.report.Requests += p.sent
	at := fmt.Sprintf("conformance: %s %s: ", r.target.Method, shownURL(r.target.URL))
	switch {
	case v.err != nil:
		return v.err
	case v.cause != nil:
		return fmt.Errorf("%sno answer: %w", at, v.cause)
	case v.outcome != Pass:
		return errors.New(at + v.why)
	}
	return nil
}

// try runs a check, or skips it.
func (r *run) try(ctx context.Context, c *check) (Result, error) {
	rule, _ := c.rule(r.target.Profile)
	res := Result{
		ID: c.id, About: c.about, Level: rule.level, Want: c.want, Source: rule.source, Sent: []Exchange{},
	}
	if res.Why = c.skipped(r.target); res.Why != "" {
		res.Outcome = Skip
		return res, nil
	}
	start := time.Now()
	p := newProbe(ctx, r, c)
	v := p.judge()
	res.Took = time.Since(start)
	r.report.Requests += p.sent
	res.Sent = append(res.Sent, p.exchanges...)
	res.Outcome, res.Why = v.outcome, v.why
	return res, v.err
}

// preparation finds out whether the endpoint accepts operations at all, whether
// they are counted, and what tells their answers apart.
var preparation = check{
	id:       "prepare",
	about:    "two fresh operations with the same body",
	requests: 2,
	counts:   2,
	run: func(p *probe) {
		before := p.count()
		op := p.operation()
		first, second := p.performed(op), p.performed(op.fresh(p))
		if changed := p.count() - before; p.counts() && changed != 2 {
			p.fail("2 fresh operations changed the number of effects by %d: want 2; is it counting these?", changed)
		}
		p.run.telling, _ = answer.Differing(first.Body, second.Body)
		p.run.alike = string(first.Body) == string(second.Body)
	},
}

// performed sends a fresh operation that has to be accepted.
func (p *probe) performed(op operation) *reply {
	a := p.send(op)
	if !a.ok() {
		p.fail("a fresh operation was answered %d: want 2xx%s", a.Status, hint(a))
	}
	if a.Replayed(p.target.ReplayHeader) {
		p.fail("a fresh operation was answered with a stored answer")
	}
	return a
}

// hint is the beginning of an error's text.
func hint(a *reply) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(a.Body), "?")), " ")
	if text == "" {
		return ""
	}
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return fmt.Sprintf(" (%q)", text)
}
