package matrix

import (
	"fmt"
	"strings"
	"time"

	"github.com/saferetry/saferetry/testserver"
)

// The times of the server and the client are such that no two things fall on
// the same moment, in whatever order they come: what a case does must not depend
// on how its goroutines are scheduled.
const (
	attemptTimeout = 1000 * time.Millisecond
	belowTimeout   = 307 * time.Millisecond
	aboveTimeout   = 1721 * time.Millisecond
	longLatency    = 1531 * time.Millisecond
	lease          = 2539 * time.Millisecond // so that a later attempt takes over what a crash has left
	shortWait      = 103 * time.Millisecond
	longWait       = 1009 * time.Millisecond
)

// kinds are the faults that scripts are made of: every kind that testserver
// has, each stall once below and once above the attempt timeout. Left out are
// servers that lie: a proxy that makes up a 201, a gateway that answers 400
// after the operation was performed. No client can tell.
var kinds = []testserver.Fault{
	testserver.None(),
	testserver.NeverSaw(),
	testserver.CrashBeforeWrite(),
	testserver.CrashAfterWrite(),
	testserver.DropResponse(10),
	testserver.DropResponse(1000), // all of the answer but its end
	testserver.Answer(503),
	testserver.Answer(429, "Retry-After", "1"),
	testserver.Answer(400),
	testserver.FailAfterWrite(502),
	testserver.Stall(belowTimeout),
	testserver.Stall(aboveTimeout),
	testserver.StallAfterWrite(belowTimeout),
	testserver.StallAfterWrite(aboveTimeout),
}

// A setting is what surrounds a script.
type setting struct {
	overlapping bool
	reads       bool
	deadline    time.Duration // the caller's; 0: none
}

// deadlines strike never, in the first attempt or the wait after it, when a
// first attempt that hangs has just been given up, and amid the later ones.
var deadlines = []time.Duration{0, 151 * time.Millisecond, 1057 * time.Millisecond, 2659 * time.Millisecond}

// settings are those with that kind of attempts: first the ones that read the
// answer, with each deadline, then the ones that do not.
func settings(overlapping bool) []setting {
	var all []setting
	for _, reads := range []bool{true, false} {
		for _, deadline := range deadlines {
			all = append(all, setting{overlapping, reads, deadline})
		}
	}
	return all
}

// latency is how long the handler takes. Attempts overlap where that is longer
// than the attempt timeout: the next one arrives while the handler runs.
func (s setting) latency() time.Duration {
	if s.overlapping {
		return longLatency
	}
	return 0
}

// wait is the time between attempts: what stalled beyond the attempt timeout is
// handled before the next attempt arrives, or after that.
func (s setting) wait() time.Duration {
	if s.overlapping {
		return shortWait
	}
	return longWait
}

func (s setting) attempts() string {
	if s.overlapping {
		return "overlapping"
	}
	return "sequential"
}

func (s setting) String() string {
	body, deadline := "read", "none"
	if !s.reads {
		body = "unread"
	}
	if s.deadline > 0 {
		deadline = s.deadline.String()
	}
	return s.attempts() + " " + body + " " + deadline
}

// parseCase reads a setting and a script as they are printed, with a colon in
// between.
func parseCase(s string) (setting, []testserver.Fault, error) {
	before, after, _ := strings.Cut(s, ":")
	for _, candidate := range append(settings(false), settings(true)...) {
		if candidate.String() == strings.TrimSpace(before) {
			script, err := testserver.ParseScript(after)
			return candidate, script, err
		}
	}
	return setting{}, nil, fmt.Errorf("no setting is called %q: want one such as %q", before, settings(true)[0])
}
