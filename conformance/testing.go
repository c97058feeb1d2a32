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
		t.Run(res.ID, func(t *testing.T) { res.tell(t) })
	}
	if _, err := Run(t.Context(), target); err != nil {
		t.Fatal(err)
	}
}

// tell passes the result on to its subtest.
func (r Result) tell(t interface {
	Skip(...any)
	Error(...any)
	Log(...any)
}) {
	switch {
	case r.Outcome == Skip:
		t.Skip(r.Why)
	case r.Outcome == Fail && r.Level == Must:
		t.Error(r.text())
	case r.Outcome == Fail:
		t.Log(r.text())
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
