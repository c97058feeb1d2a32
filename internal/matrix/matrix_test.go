package matrix

import (
	"flag"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/testserver"
)

var (
	maxFaults = flag.Int("faults", 3, "the length of the longest scripts, and the attempts an operation may make")
	oneCase   = flag.String("case", "", "try this one, as a failure prints it")
)

// mostFailures are looked for: one mistake makes half of a matrix fail.
const mostFailures = 20

// One effect and a true word about it, whatever breaks: for every script of up
// to as many faults as an operation may make attempts.
func TestEveryScriptOfFaultsHasAtMostOneEffectAndATrueOutcome(t *testing.T) {
	if *oneCase != "" {
		s, script, err := parseCase(*oneCase)
		require.NoError(t, err)
		new(matrix).try(t, s, script)
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // servers come and go
	m := new(matrix)
	for _, overlapping := range []bool{false, true} {
		group := settings(overlapping)
		var unharmed []*course
		for _, s := range group {
			unharmed = append(unharmed, m.try(t, s, nil))
		}
		t.Run(group[0].attempts(), func(t *testing.T) {
			for _, fault := range kinds {
				t.Run(fault.String(), func(t *testing.T) {
					t.Parallel()
					m.explore(t, group, unharmed, []testserver.Fault{fault})
				})
			}
		})
	}
	scripts, longest := 1, 1
	for range *maxFaults {
		longest *= len(kinds)
		scripts += longest
	}
	t.Logf("%d operations stand for %d scripts in %d settings", m.made.Load(), scripts, 2*len(settings(false)))
}

// A matrix is all scripts in all settings.
type matrix struct {
	made, failed atomic.Int64
}

// explore tries all scripts that begin with script, in a group of settings.
// before has, for each of these, the course under script without its last
// fault. A course that is known need not be run:
//
//   - The operation was over before it met the script's last fault. Then this
//     script, and all longer ones, change nothing.
//   - The last fault is None, which is what comes after a script anyway.
//   - Without a deadline the operation was over before that deadline. Then it
//     did not cut off an attempt, nor did a wait reach beyond it.
//   - The answer is not to be read, and there is none. Then the course is that
//     of a caller who would have read it.
func (m *matrix) explore(t *testing.T, group []setting, before []*course, script []testserver.Fault) {
	courses := make([]*course, len(group))
	goesOn := false
	for i, s := range group {
		if before[i] == nil || before[i].requests < len(script) {
			continue
		}
		patient, reader := courses[i-i%len(deadlines)], courses[i%len(deadlines)]
		switch {
		case script[len(script)-1] == testserver.None():
			courses[i] = before[i]
		case patient != nil && patient.allTook < s.deadline:
			courses[i] = patient
		case reader != nil && reader.err != nil:
			courses[i] = reader
		default:
			courses[i] = m.try(t, s, script)
		}
		goesOn = goesOn || courses[i].requests > len(script)
	}
	if len(script) == *maxFaults || !goesOn || m.failed.Load() >= mostFailures {
		return
	}
	for _, fault := range kinds {
		m.explore(t, group, courses, append(script[:len(script):len(script)], fault))
	}
}

// try makes an operation under script. A failure prints as the line that tries
// this one again.
func (m *matrix) try(t *testing.T, s setting, script []testserver.Fault) *course {
	m.made.Add(1)
	c := run(t, s, script, *maxFaults)
	if len(c.problems) > 0 {
		m.failed.Add(1)
		t.Errorf("go test ./internal/matrix -faults %d -case '%s: %s' # %s", *maxFaults, s, join(script), strings.Join(c.problems, "; "))
	}
	return c
}

func join(script []testserver.Fault) string {
	var items []string
	for _, f := range script {
		items = append(items, f.String())
	}
	return strings.Join(items, ", ")
}
