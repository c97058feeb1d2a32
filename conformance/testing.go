package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// Test checks the target as a part of t, each check as a subtest named by its ID.
// A Must that fails fails the subtest, a Should that fails is logged, and a check
// that cannot run is skipped.
func Test(t *testing.T, target Target) {
	t.Helper()
	also := target.Progress
	target.Progress = func(res Result) {
		if also != nil {
			also(res)
		}
		t.Run(res.ID, func(t *testing.T) {
			switch {
			case res.Outcome == Skip:
				t.Skip(res.Why)
			case res.Outcome == Fail && res.Level == Must:
				t.Error(res.text())
			case res.Outcome == Fail:
				t.Log(res.text())
			}
		})
	}
	if _, err := Run(t.Context(), target); err != nil {
		t.Fatal(err)
	}
}

// text is a failed result in a few lines.
func (r Result) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s\n  wanted %s\n", r.About, r.Level, r.Why, r.Want)
	for _, e := range r.Sent {
		fmt.Fprintf(&b, "  sent %s\n  came %s\n", e.Sent, e.Came)
	}
	fmt.Fprintf(&b, "  rule %s", r.Source)
	return b.String()
}
