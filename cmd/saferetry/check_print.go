package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/saferetry/saferetry/conformance"
)

// A checkPrinter prints results as they come.
type checkPrinter struct {
	paint
	w       io.Writer
	verbose bool
	target  conformance.Target
	begun   bool
}

func (p *checkPrinter) begin() {
	u, err := readURL("URL", p.target.URL)
	if err != nil || p.begun {
		return // it was read before
	}
	p.begun = true
	fmt.Fprintf(p.w, "%s %s, profile %s\n\n", p.target.Method, shownURL(u), p.target.Profile)
}

func (p *checkPrinter) result(r conformance.Result) {
	p.begin()
	outcome := map[conformance.Outcome]string{
		conformance.Pass: p.green("pass"), conformance.Fail: p.red("FAIL"), conformance.Skip: p.yellow("skip"),
	}[r.Outcome]
	if r.Outcome == conformance.Fail && r.Level == conformance.Should {
		outcome = p.yellow("fail")
	}
	fmt.Fprintf(p.w, "%s  %-6s  %-20s  %s\n", outcome, r.Level, r.ID, r.About)
	if r.Outcome == conformance.Fail || p.verbose && r.Outcome == conformance.Pass {
		for _, e := range r.Sent {
			fmt.Fprintf(p.w, "      sent  %s\n      came  %s\n", printable(e.Sent), printable(e.Came))
		}
		fmt.Fprintf(p.w, "      want  %s\n", r.Want)
	}
	if r.Why != "" {
		fmt.Fprintf(p.w, "      why   %s\n", p.bold(printable(r.Why)))
	}
	if r.Outcome == conformance.Fail || p.verbose {
		fmt.Fprintf(p.w, "      rule  %s\n", r.Source)
	}
}

func (p *checkPrinter) end(r conformance.Report) {
	musts, shoulds := len(r.Failed(conformance.Must)), len(r.Failed(conformance.Should))
	failed := fmt.Sprintf("%d failed", musts+shoulds)
	switch {
	case musts > 0:
		failed = p.red(fmt.Sprintf("%s (%d must)", failed, musts))
	case shoulds > 0:
		failed = p.yellow(failed + " (no must)")
	}
	fmt.Fprintf(p.w, "\n%d checks: %s, %s, %d skipped; %d requests in %s\n", len(r.Results),
		p.green(fmt.Sprintf("%d passed", r.Count(conformance.Pass))), failed, r.Count(conformance.Skip), r.Requests,
		r.Took.Round(time.Millisecond))
}

// printPlan prints what would be sent.
func printPlan(w io.Writer, steps []conformance.Step, asJSON bool) int {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(steps) // to where? stdout is gone
		return ok
	}
	var requests, counts, skipped int
	for _, s := range steps {
		note := ""
		switch {
		case s.Skip != "":
			note = "  skip: " + s.Skip
			skipped++
		case s.Load:
			note = "  all at once"
		}
		fmt.Fprintf(w, "%3d  %-6s  %-20s  %s%s\n", s.Requests, s.Level, s.ID, s.About, note)
		requests += s.Requests
		counts += s.Counts
	}
	fmt.Fprintf(w, "\n%d requests at most, and %d to count effects; %d checks skipped\n", requests, counts, skipped)
	return ok
}
