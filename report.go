package saferetry

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Outcome says what is known of an operation's effect on the server.
type Outcome int

const (
	// Unknown: an attempt reached the server, or may have, and no answer tells
	// what came of it. Ask again under the same key.
	Unknown Outcome = iota
	// NotSent: no attempt reached the server. Nothing was performed.
	NotSent
	// Refused: the server answered that it did not perform the operation.
	Refused
	// Performed: the server answered that it did.
	Performed
)

var outcomes = [...]string{"unknown", "not sent", "refused", "performed"}

// String returns the outcome in lower case words.
func (o Outcome) String() string { return nameOf(int(o), outcomes[:], "Outcome") }

// StopReason says why an operation made no further attempt.
type StopReason int

const (
	Answered          StopReason = iota // an answer that is not to be retried
	Permanent                           // an error that would come again
	Exhausted                           // no attempts left, or the wait policy said stop
	Deadline                            // the context's deadline passed, or the wait would have passed it
	RetryAfterTooLong                   // the server asked for a longer wait than WithMaxRetryAfter
	BudgetSpent                         // the budget shared by all operations is spent
	NotReplayable                       // the request's body cannot be sent again
	NotRepeatable                       // the request has no key and its method is not idempotent
	Canceled                            // the context was cancelled
)

var reasons = [...]string{"answered", "permanent", "exhausted", "deadline", "retry-after too long",
	"budget spent", "not replayable", "not repeatable", "canceled"}

// String returns the reason in lower case words.
func (r StopReason) String() string { return nameOf(int(r), reasons[:], "StopReason") }

func nameOf(i int, names []string, kind string) string {
	if i < 0 || i >= len(names) {
		return kind + "(" + strconv.Itoa(i) + ")"
	}
	return names[i]
}

// Report says how an operation went.
type Report struct {
	Key      string        // the operation's key, without quotes; "" when it has none
	Attempts int           // made, the first included; 0 when nothing was sent
	Outcome  Outcome       // what is known of the effect
	Replayed bool          // the server marked its answer as a stored one
	Reason   StopReason    // why there was no further attempt
	Waited   time.Duration // between attempts, in all
	Failed   []Attempt     // the attempts that were followed by another; nil after a first-try success
}

// ReportOf returns the report of the operation that ended with resp and err, as
// http.Client.Do or [Transport.RoundTrip] returned them (or [Do] its error,
// with a nil resp). ok is false for what did not come from this package, and
// where net/http put an error of its own in place of ours: on Client.Timeout.
// Hooks.Done is called for those too. The report is the caller's own copy; it
// counts the attempts that a body resume has made so far.
func ReportOf(resp *http.Response, err error) (report Report, ok bool) {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Report, true
	}
	if resp == nil || resp.Request == nil {
		return Report{}, false
	}
	// A request that somebody made under an attempt's context is not that attempt.
	if op := operationFor(resp.Request); op != nil && op.answer != nil && op.answer.Request == resp.Request {
		return op.report(), true
	}
	return Report{}, false
}

// Error is the error of an operation that ended without an answer to hand over.
type Error struct {
	Report Report
	Err    error // what ended the last attempt, or the wait after it

	target string // method, scheme, host and path
}

// Error returns the request's method, scheme, host and path, the attempts, the
// kind of error, and the first 8 characters of the key. The text of Err is not
// in it, since that may carry a query or a header; use [errors.As] for that.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("saferetry: ")
	if e.target != "" {
		b.WriteString(e.target + ": ")
	}
	if e.Report.Attempts > 0 {
		fmt.Fprintf(&b, "attempt %d: ", e.Report.Attempts)
	}
	fmt.Fprintf(&b, "%s (%s, outcome %s", errorClass(e.Err), e.Report.Reason, e.Report.Outcome)
	if e.Report.Key != "" {
		b.WriteString(", key " + keyPrefix(e.Report.Key))
	}
	b.WriteByte(')')
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether the operation ended because time ran out: an
// attempt's, or the caller's. An operation that was cancelled after an attempt
// timed out did not end for that.
func (e *Error) Timeout() bool {
	return e.Report.Reason == Deadline || e.Report.Reason != Canceled && isTimeout(e.Err)
}

// tally is what the verdicts on an operation's attempts add up to. The zero
// tally is that of no attempt.
type tally struct {
	last Outcome
	seen [Performed + 1]bool
}

func (t *tally) add(verdict Outcome) {
	t.last = verdict
	t.seen[verdict] = true
}

// outcome is the last verdict if that is Performed; else the worst seen. An
// earlier Performed that a classifier had repeated leaves the outcome Unknown.
func (t *tally) outcome() Outcome {
	switch {
	case t.last == Performed:
		return Performed
	case t.seen[Unknown], t.seen[Performed]:
		return Unknown
	case t.seen[Refused]:
		return Refused
	default:
		return NotSent
	}
}

// carry takes over what earlier attempts of the same operation, at the address
// that redirected here, came to.
func (t *tally) carry(earlier *tally) {
	for verdict, seen := range earlier.seen {
		t.seen[verdict] = t.seen[verdict] || seen
	}
}

func (op *operation) report() Report {
	if op.later != nil {
		if resumed := op.later.Load(); resumed != nil {
			report := *resumed
			report.Failed = slices.Clone(report.Failed)
			return report
		}
	}
	return Report{
		Key:      op.key,
		Attempts: op.attempts,
		Outcome:  op.tally.outcome(),
		Replayed: op.answer != nil && isReplay(op.answer.Header),
		Reason:   op.reason,
		Waited:   op.waited,
		Failed:   slices.Clone(op.failed),
	}
}
