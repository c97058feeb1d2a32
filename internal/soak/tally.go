package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/saferetry/saferetry"
)

// heapGrowth is how much more the process may hold at the end than at the
// beginning: net/http and the runtime keep some things for the next time.
const heapGrowth = 8 << 20

// A tally is what all rounds come to.
type tally struct {
	operations, attempts, failed, kills, effects int
	accounted                                    int // effects that are an operation's
	outcomes                                     [saferetry.Performed + 1]int
	duplicates, lost, untrue, wrong              int
	examples                                     []string // of what is wrong
	waits                                        []time.Duration
	before, after                                footprint
}

// judge compares what the operations' callers were told with what took effect.
// The servers are closed: no more will.
func (r *round) judge(t *tally) {
	for _, s := range r.stations {
		made, changed := make(map[string]int), make(map[string]int)
		for _, charge := range s.server.Charges() {
			made[charge.Customer]++
			changed[charge.ID] = int(charge.Retries)
			t.effects += 1 + int(charge.Retries)
		}
		for _, c := range r.clients {
			if c.station != s {
				continue
			}
			for _, op := range c.made {
				effects := made[op.customer]
				if op.charge != "" {
					effects = changed[op.charge]
				}
				t.add(op, effects)
			}
		}
	}
}

// add counts an operation that has taken effect so many times.
func (t *tally) add(op *operation, effects int) {
	t.operations++
	t.accounted += effects
	t.outcomes[op.report.Outcome]++
	t.waits = append(t.waits, op.report.Waited)
	outcome := op.report.Outcome
	switch {
	case effects > 1:
		t.duplicates += effects - 1
		t.note("%d effects of %+v", effects, *op)
	case effects == 0 && (outcome == saferetry.Performed || outcome == saferetry.Unknown): // then asked for again
		t.lost++
		t.note("no effect of %+v", *op)
	}
	switch {
	case outcome == saferetry.Performed && op.effects != 1, outcome != saferetry.Performed && outcome != saferetry.Unknown && effects > 0:
		t.untrue++
		t.note("%d effects when it was over, %d now, of %+v", op.effects, effects, *op)
	}
	if op.wrong != "" {
		t.wrong++
		t.note("%s", op.wrong)
	}
}

// note keeps the first examples.
func (t *tally) note(format string, args ...any) {
	if len(t.examples) < 5 {
		t.examples = append(t.examples, fmt.Sprintf(format, args...))
	}
}

func (t *tally) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(tw, name+"\t"+format+"\n", args...) }
	row("operations", "%d", t.operations)
	row("attempts", "%d, of which %d%% failed", t.attempts, t.failedShare())
	row("servers killed", "%d times", t.kills)
	row("effects", "%d", t.effects)
	for _, o := range []saferetry.Outcome{saferetry.Performed, saferetry.Refused, saferetry.NotSent, saferetry.Unknown} {
		row("outcome "+o.String(), "%d", t.outcomes[o])
	}
	row("duplicates", "%d", t.duplicates)
	row("lost", "%d", t.lost)
	row("untrue outcomes", "%d", t.untrue)
	row("wrong answers", "%d", t.wrong)
	row("goroutines", "%d before, %d after", t.before.goroutines, t.after.goroutines)
	row("heap", "%.1f MiB before, %.1f MiB after", mebibytes(t.before.heap), mebibytes(t.after.heap))
	slices.Sort(t.waits)
	row("waiting", "p50 %v, p99 %v", t.quantile(50), t.quantile(99))
	tw.Flush()
}

// wrongs says what is not as it should be.
func (t *tally) wrongs() []string {
	var list []string
	want := func(ok bool, format string, args ...any) {
		if !ok {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	want(t.duplicates == 0, "%d effects too many", t.duplicates)
	want(t.lost == 0, "%d operations lost", t.lost)
	want(t.untrue == 0, "%d outcomes untrue", t.untrue)
	want(t.wrong == 0, "%d answers wrong", t.wrong)
	want(t.effects == t.accounted, "%d effects of no operation", t.effects-t.accounted)
	want(t.after.goroutines <= t.before.goroutines, "%d goroutines, %d before", t.after.goroutines, t.before.goroutines)
	want(t.after.heap <= t.before.heap+heapGrowth, "the heap grew by %.1f MiB", mebibytes(t.after.heap-t.before.heap))
	want(t.failedShare() >= 40, "only %d%% of the attempts failed, half were meant to", t.failedShare())
	want(t.kills > 0, "no server was killed")
	for _, o := range []saferetry.Outcome{saferetry.Performed, saferetry.Unknown} {
		want(t.outcomes[o] > 0, "no operation ended %s", o)
	}
	return append(list, t.examples...)
}

func (t *tally) failedShare() int { return 100 * t.failed / max(t.attempts, 1) }

// quantile is the wait that so many per cent of the operations did not exceed.
func (t *tally) quantile(percent int) time.Duration {
	if len(t.waits) == 0 {
		return 0
	}
	return t.waits[(len(t.waits)-1)*percent/100].Round(time.Microsecond)
}

func mebibytes(n uint64) float64 { return float64(n) / (1 << 20) }
