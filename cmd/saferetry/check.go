package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/saferetry/saferetry/conformance"
)

// checkFlags are the flags of "saferetry check".
type checkFlags struct {
	*requestFlags
	otherBody, otherURL, nullField   *string
	profile, only                    *string
	otherCaller, compare             lines
	replayHeader                     *string
	ways                             wayFlags
	effectsURL, effectsPath, effects *string
	advanceURL, advance              *string
	retention                        *duration
	asJSON, plan, yes, verbose       *bool
	junit                            *string
}

func newCheckFlags(flags *flag.FlagSet) *checkFlags {
	c := &checkFlags{
		requestFlags: newRequestFlags(flags, "the request's `body`, with {{n}} for a number that is another for each operation; "+
			"@FILE reads a file, - standard input"),
		otherBody:    flags.String("other-body", "", "a second `body` that is accepted; without it, the first with another {{n}}"),
		otherURL:     flags.String("other-url", "", "another `URL` that accepts the same requests"),
		nullField:    flags.String("null-field", "", "a `member` that the JSON body may have as null, or not at all"),
		profile:      flags.String("profile", "draft", "whose rules: `draft, stripe or acp`"),
		only:         flags.String("only", "", "run these checks alone: `id,id,...`"),
		replayHeader: flags.String("replay-header", "", "a header field, true in a replay, that is not among the usual ones, a `name`"),
		effectsURL:   flags.String("effects-url", "", "where a GET shows what took effect, a `URL`"),
		effectsPath:  flags.String("effects-path", "data.length", "the `path` of their number in the JSON there"),
		effects:      flags.String("effects-command", "", "a shell `command` that prints the number of effects"),
		advanceURL:   flags.String("advance-url", "", "where a POST moves the endpoint's clock, a `URL` with {{d}} for how far, as in 24h1m0s"),
		advance:      flags.String("advance-command", "", "a shell `command` that moves it, with {{d}} or, in seconds, {{s}}"),
		retention:    durationFlag(flags, "retention", 24*time.Hour, time.Second, "how long the endpoint keeps keys, a `duration`"),
		asJSON:       flags.Bool("json", false, "print the report as JSON"),
		junit:        flags.String("junit", "", "write the report as JUnit XML to a `file`"),
		plan:         flags.Bool("plan", false, "print what would be sent, and send nothing"),
		yes:          flags.Bool("yes", false, "allow the checks that send 50 requests at once to an address that is not loopback"),
		verbose:      flags.Bool("v", false, "show what was sent and what came for each check, not only for those that failed"),
	}
	flags.Var(&c.otherCaller, "other-caller", "a header `field` that makes the request another caller's; may be given more than once")
	flags.Var(&c.compare, "compare", "a header field of an answer that is to be replayed, beside the usual ones, a `name`")
	c.ways.define(flags)
	return c
}

// check checks an endpoint from outside.
func check(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	c := newCheckFlags(flags)
	address, code, goOn := parseURL(flags, args, stdout, stderr)
	if !goOn {
		return code
	}
	target, err := c.target(flags, address)
	var steps []conformance.Step
	if err == nil {
		steps, err = conformance.Plan(target)
	}
	if err != nil {
		return fail(stderr, "check", plainer(err))
	}
	if *c.plan {
		return printPlan(stdout, steps, *c.asJSON)
	}
	p := &checkPrinter{paint: paintFor(stdout), w: stdout, verbose: *c.verbose, target: target}
	if !*c.asJSON {
		target.Progress = p.result
	}
	junit, err := createJUnit(*c.junit) // before anything is sent
	if err != nil {
		return fail(stderr, "check", err)
	}
	report, err := conformance.Run(ctx, target)
	if unwritten := junit.write(report); err == nil {
		err = unwritten
	}
	switch {
	case *c.asJSON && len(report.Results) > 0:
		printReport(stdout, report)
	case len(report.Results) > 0:
		p.end(report)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "saferetry check: interrupted")
		return interrupted
	case err != nil && notReached(err):
		return fail(stderr, "check", fmt.Errorf("%s: %s", hostOf(target.URL), explain(err)))
	case err != nil:
		return fail(stderr, "check", plainer(err))
	case !report.OK():
		return differs
	}
	return ok
}

// plainer is an error of package conformance as a user of the command knows it.
func plainer(err error) error {
	text := strings.TrimPrefix(err.Error(), "conformance: ")
	for _, field := range []string{"Target.Effects: ", "Target.Advance: "} {
		text = strings.TrimPrefix(text, field)
	}
	return errors.New(text)
}

// A junitFile is where a report goes as JUnit XML; nil is nowhere.
type junitFile struct{ *os.File }

func createJUnit(name string) (*junitFile, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("flag -junit: %w", err)
	}
	return &junitFile{f}, nil
}

// write writes the report. Of a run without results no file is left.
func (j *junitFile) write(r conformance.Report) error {
	switch {
	case j == nil:
		return nil
	case len(r.Results) == 0:
		return errors.Join(j.Close(), os.Remove(j.Name()))
	}
	return errors.Join(r.WriteJUnit(j), j.Close())
}

// target is what the flags say. Its errors name the flag.
func (c *checkFlags) target(flags *flag.FlagSet, address string) (conformance.Target, error) {
	req, err := c.read(address)
	if err != nil {
		return conformance.Target{}, err
	}
	t := conformance.Target{
		URL: req.url.String(), Method: req.method, Header: req.header, Body: string(req.body), OtherBody: *c.otherBody,
		KeyHeader: *c.keyHeader, ReplayHeader: *c.replayHeader, Compare: c.compare, NullField: *c.nullField,
		Profile: conformance.Profile(*c.profile), Retention: c.retention.Duration, Timeout: c.timeout.Duration,
		Transport: c.transport(), Load: *c.yes,
	}
	if req.method == "GET" || req.method == "HEAD" {
		return t, fmt.Errorf("flag -X: %s: want a method that has an effect, such as POST", req.method)
	}
	switch t.Profile {
	case conformance.Draft, conformance.Stripe, conformance.ACP:
	default:
		return t, fmt.Errorf("flag -profile: %q: want draft, stripe or acp", *c.profile)
	}
	if *c.otherURL != "" {
		u, err := readURL("flag -other-url", *c.otherURL)
		if err != nil {
			return t, err
		}
		t.OtherURL = u.String()
	}
	if t.OtherCaller, err = readHeader("other-caller", c.otherCaller); err != nil {
		return t, err
	}
	if t.Only, err = c.readOnly(); err != nil {
		return t, err
	}
	if t.Ways, err = c.ways.read(req, *c.otherBody); err != nil {
		return t, err
	}
	if t.Effects, err = c.readEffects(flags, req); err != nil {
		return t, err
	}
	t.Advance, err = c.readAdvance(req)
	return t, err
}

func (c *checkFlags) readOnly() ([]string, error) {
	if *c.only == "" {
		return nil, nil
	}
	ids := strings.Split(*c.only, ",")
	known := make(map[string]bool)
	for _, p := range conformance.Profiles() {
		steps, err := conformance.Plan(conformance.Target{URL: "http://localhost/", Profile: p})
		if err != nil {
			return nil, err
		}
		for _, s := range steps[1:] {
			known[s.ID] = known[s.ID] || p == conformance.Profile(*c.profile)
		}
	}
	for _, id := range ids {
		inProfile, found := known[id]
		switch {
		case !found:
			return nil, fmt.Errorf("flag -only: %q: want IDs of checks, as -plan lists them", id)
		case !inProfile:
			return nil, fmt.Errorf("flag -only: %q: is not in the profile %s", id, *c.profile)
		}
	}
	return ids, nil
}

// printReport prints a report as JSON.
func printReport(w io.Writer, r conformance.Report) {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(struct { // to where? stdout is gone
		OK      bool `json:"ok"`
		Passed  int  `json:"passed"`
		Failed  int  `json:"failed"`
		Skipped int  `json:"skipped"`
		conformance.Report
	}{r.OK(), r.Count(conformance.Pass), r.Count(conformance.Fail), r.Count(conformance.Skip), r})
}
