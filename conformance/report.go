package conformance

import "time"

// An Outcome is what became of a check.
type Outcome string

// The outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip" // it could not be told
)

// An Exchange is a request and what came back for it, in words. Keys are shown as
// letters, A for the first of the check.
type Exchange struct {
	Sent string `json:"sent"`
	Came string `json:"came"`
}

// A Result is what a check found.
type Result struct {
	ID      string        `json:"id"`
	About   string        `json:"about"`
	Level   Level         `json:"level"`
	Outcome Outcome       `json:"outcome"`
	Why     string        `json:"why,omitempty"` // of a Fail or Skip
	Sent    []Exchange    `json:"exchanges"`     // what was sent, and what came
	Want    string        `json:"want"`
	Source  string        `json:"source"` // of the rule
	Took    time.Duration `json:"took_ns"`
}

// A Report is what Run found.
type Report struct {
	URL      string        `json:"url"` // without user info and query
	Profile  Profile       `json:"profile"`
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took_ns"`
	Requests int           `json:"requests"` // sent to the endpoint, without those that count effects
	Results  []Result      `json:"results"`
}

// Count returns how many checks had the outcome.
func (r Report) Count(o Outcome) int {
	return len(r.ids(func(res Result) bool { return res.Outcome == o }))
}

// Failed returns the IDs of the checks of a level that failed.
func (r Report) Failed(l Level) []string {
	return r.ids(func(res Result) bool { return res.Outcome == Fail && res.Level == l })
}

// OK reports whether no Must failed. Skipped checks and failed Shoulds do not
// count against it.
func (r Report) OK() bool { return len(r.Failed(Must)) == 0 }

func (r Report) ids(which func(Result) bool) []string {
	var ids []string
	for _, res := range r.Results {
		if which(res) {
			ids = append(ids, res.ID)
		}
	}
	return ids
}
