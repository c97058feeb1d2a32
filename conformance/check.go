package conformance

import "slices"

// A Level says how much a failed check means.
type Level string

// The levels.
const (
	Must   Level = "must"
	Should Level = "should"
)

// A check looks at one rule. To add one, put it into a list of the catalog: the
// plan, the report and the commands know it from there.
type check struct {
	id    string // stable: users name it
	about string // what is looked at
	want  string // what is to come

	draft, stripe, acp rule // the zero rule: not in that profile

	needs    []need // what the target has to tell, or the check is skipped
	requests int    // how many it sends at the most
	counts   int    // how often it counts effects at the most
	load     bool   // it sends many at once
	run      func(*probe)
}

// A rule is where a check comes from.
type rule struct {
	level  Level
	source string
}

func must(source string) rule   { return rule{Must, source} }
func should(source string) rule { return rule{Should, source} }

// catalog has all checks, in the order in which they run. Those that move the
// clock are the last.
var catalog []check

func init() { // not in the declaration: the checks come back to it by way of Target.Only
	catalog = slices.Concat(keyChecks, replayChecks, contentChecks, reuseChecks, jsonChecks, flightChecks, concurrentChecks,
		callerChecks, failureChecks, expiryChecks)
}

// rule is the check's in a profile. ok is false if the check is not in it.
func (c *check) rule(p Profile) (r rule, ok bool) {
	switch p {
	case Stripe:
		r = c.stripe
	case ACP:
		r = c.acp
	default:
		r = c.draft
	}
	return r, r != rule{}
}

// A need is something of the target that a check cannot do without.
type need struct {
	missing string // why the check is skipped
	met     func(*Target) bool
}

var (
	effects = need{
		"no way to count effects (Target.Effects; -effects-url or -effects-command)",
		func(t *Target) bool { return t.Effects != nil },
	}
	otherBody = need{
		"no second body: want {{n}} in the body, or another body (Target.OtherBody; -other-body)",
		func(t *Target) bool { return t.OtherBody != "" || string(body(t.Body, 1)) != t.Body },
	}
	jsonBody = need{
		"the body is not a JSON object",
		func(t *Target) bool { _, err := members(body(t.Body, 1)); return err == nil },
	}
	otherCaller = need{
		"no second caller (Target.OtherCaller; -other-caller)",
		func(t *Target) bool { return len(t.OtherCaller) > 0 },
	}
	clock = need{
		"no way to move the endpoint's clock (Target.Advance; -advance-url or -advance-command)",
		func(t *Target) bool { return t.Advance != nil },
	}
	slow     = wayNeed("to make the endpoint slow", "Slow", "slow", func(w *Ways) *Way { return w.Slow })
	failing  = wayNeed("to make the endpoint fail", "Error", "error", func(w *Ways) *Way { return w.Error })
	limited  = wayNeed("to be answered 429", "Limited", "limited", func(w *Ways) *Way { return w.Limited })
	refused  = wayNeed("to be refused as a caller", "Refused", "refused", func(w *Ways) *Way { return w.Refused })
	large    = wayNeed("to get a large answer", "Large", "large", func(w *Ways) *Way { return w.Large })
	binary   = wayNeed("to get a binary answer", "Binary", "binary", func(w *Ways) *Way { return w.Binary })
	hopByHop = wayNeed("to get a hop-by-hop field", "HopByHop", "hop", func(w *Ways) *Way { return w.HopByHop })
)

func wayNeed(what, field, flag string, of func(*Ways) *Way) need {
	return need{
		"no way " + what + " (Target.Ways." + field + "; -" + flag + ")",
		func(t *Target) bool { return of(&t.Ways) != nil },
	}
}

// skipped says why the check cannot run against t, or "".
func (c *check) skipped(t *Target) string {
	for _, n := range c.needs {
		if !n.met(t) {
			return n.missing
		}
	}
	if c.load && !t.Load && !loopback(t.URL) {
		return "sends many requests at once, and the address is not loopback (Target.Load; -yes)"
	}
	return ""
}
