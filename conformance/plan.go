package conformance

// A Step is what Run would do for a check, or to prepare.
type Step struct {
	ID       string `json:"id"` // of the check; "prepare" for the first step
	About    string `json:"about"`
	Level    Level  `json:"level,omitempty"`
	Source   string `json:"source,omitempty"`
	Requests int    `json:"requests"` // to the endpoint, at the most
	Counts   int    `json:"counts"`   // calls of Target.Effects, at the most
	Load     bool   `json:"load,omitempty"`
	Skip     string `json:"skip,omitempty"` // why the check will be skipped; then nothing is sent
}

// Plan says what Run sends at the most, without sending anything. The error is
// that of a wrong target.
func Plan(t Target) ([]Step, error) {
	target, err := t.withDefaults()
	if err != nil {
		return nil, err
	}
	return target.plan(), nil
}

func (t *Target) plan() []Step {
	steps := []Step{{
		ID: preparation.id, About: preparation.about,
		Requests: preparation.requests, Counts: t.counted(preparation.counts),
	}}
	for _, c := range t.checks() {
		r, _ := c.rule(t.Profile)
		s := Step{ID: c.id, About: c.about, Level: r.level, Source: r.source, Load: c.load, Skip: c.skipped(t)}
		if s.Skip == "" {
			s.Requests, s.Counts = c.requests, t.counted(c.counts)
		}
		steps = append(steps, s)
	}
	return steps
}

func (t *Target) counted(n int) int {
	if t.Effects == nil {
		return 0
	}
	return n
}
