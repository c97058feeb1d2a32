package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A printer shows a sending as it goes. It may be called by many goroutines at
// once.
type printer interface {
	begin(s *sending)
	attempt(res *result, a attempt)
	wait(res *result, d time.Duration)
	done(res *result)
	answer(res *result)
	end(all []*result) (code int)
}

func newPrinter(w io.Writer, asJSON bool) printer {
	if asJSON {
		return &jsonPrinter{e: json.NewEncoder(w)}
	}
	return &textPrinter{w: w, paint: paintFor(w)}
}

// agreed is the exit code: whether all answers are as the first.
func agreed(all []*result) int {
	if slices.ContainsFunc(all, func(res *result) bool { return !res.Agrees }) {
		return differs
	}
	return ok
}

// A jsonPrinter prints an object for each answer.
type jsonPrinter struct{ e *json.Encoder }

func (p *jsonPrinter) begin(*sending)              {}
func (p *jsonPrinter) attempt(*result, attempt)    {}
func (p *jsonPrinter) wait(*result, time.Duration) {}
func (p *jsonPrinter) done(*result)                {}
func (p *jsonPrinter) answer(res *result)          { _ = p.e.Encode(res) } // to where? stdout is gone
func (p *jsonPrinter) end(all []*result) int       { return agreed(all) }

// A textPrinter prints for a reader.
type textPrinter struct {
	paint
	mu    sync.Mutex
	w     io.Writer
	crowd bool   // attempts of several requests come mixed
	intro func() // shows what is sent, before the first that comes
}

func (p *textPrinter) begin(s *sending) {
	p.crowd = s.parallel > 1
	p.intro = sync.OnceFunc(func() { p.request(s) })
}

func (p *textPrinter) request(s *sending) {
	fmt.Fprintf(p.w, "%s %s\n", p.bold(s.method), shownURL(s.url))
	fmt.Fprintf(p.w, "%s: %s\n", http.CanonicalHeaderKey(s.keyHeader), p.bold(printable(s.key)))
	if len(s.body) > 0 {
		fmt.Fprintf(p.w, "\n%s\n", indent(bodyText(s.body), 2))
	}
	fmt.Fprintln(p.w)
}

// line prints a line about an attempt.
func (p *textPrinter) line(res *result, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.intro()
	prefix := "   "
	if p.crowd {
		prefix = fmt.Sprintf("   request %d, ", res.N)
	}
	fmt.Fprintln(p.w, prefix+text)
}

func (p *textPrinter) attempt(res *result, a attempt) {
	came := a.Error
	if came == "" {
		came = p.status(a.Status, statusText(a.Status))
	}
	p.line(res, fmt.Sprintf("attempt %d: %s, after %d ms", a.Number, came, a.TookMS))
}

func (p *textPrinter) wait(res *result, d time.Duration) {
	p.line(res, fmt.Sprintf("waiting %s", d.Round(time.Millisecond)))
}

func (p *textPrinter) done(res *result) {
	r := res.Report
	p.line(res, fmt.Sprintf("%s: no further attempt because %s; %d in all, %d ms waited",
		p.bold(r.Outcome), because[r.Reason], r.Attempts, r.WaitedMS))
}

// because has the SDK's reasons in a sentence.
var because = map[string]string{
	"answered":             "this answer is not to be retried",
	"permanent":            "the error would come again",
	"exhausted":            "no attempts are left",
	"deadline":             "the time is over (-timeout)",
	"retry-after too long": "the server asks for a longer wait than is allowed",
	"budget spent":         "the budget is spent",
	"not replayable":       "the body cannot be sent again",
	"not repeatable":       "the request has no key",
	"canceled":             "it was interrupted",
}

func (p *textPrinter) answer(res *result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.intro()
	head := p.bold(strconv.Itoa(res.N)) + "  "
	if res.Changed != "" {
		fmt.Fprintf(p.w, "%sanother body: %s\n   ", head, indent(bodyText([]byte(res.Changed)), 0))
		head = ""
	}
	if res.err != nil {
		fmt.Fprintf(p.w, "%s%s (%d ms)\n\n", head, p.red("no answer: "+res.Error), res.TookMS)
		return
	}
	mark := ""
	if res.Replayed {
		mark = ", marked as a replay"
	}
	fmt.Fprintf(p.w, "%s%s (%d ms)%s\n", head, p.status(res.Status, statusText(res.Status)), res.TookMS, p.bold(mark))
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		for _, value := range res.Header[name] {
			fmt.Fprintf(p.w, "   %s: %s\n", p.dim(name), printable(value))
		}
	}
	if len(res.answer.Body) > 0 {
		fmt.Fprintf(p.w, "\n%s\n", indent(bodyText(res.answer.Body), 3))
	}
	if res != res.first {
		p.compared(res)
	}
	fmt.Fprintln(p.w)
}

// compared says in what an answer is not as the first.
func (p *textPrinter) compared(res *result) {
	fmt.Fprintln(p.w)
	if res.Agrees {
		fmt.Fprintf(p.w, "   %s\n", p.green("as the first in status, body and header fields that matter"))
	} else {
		fmt.Fprintf(p.w, "   %s\n", p.red("differs from the first"))
	}
	for _, d := range res.Differs {
		text := fmt.Sprintf("%s: %s, was %s", d.Field, orNone(d.Other), orNone(d.First))
		if !d.Counts {
			text = p.dim(text + " (may differ)")
		}
		fmt.Fprintf(p.w, "     %s\n", printable(text))
	}
}

func (p *textPrinter) end(all []*result) int {
	code := agreed(all)
	if len(all) == 1 {
		return code
	}
	other, replayed := 0, 0
	for _, res := range all {
		if !res.Agrees {
			other++
		}
		if res.Replayed {
			replayed++
		}
	}
	verdict := p.green("all agree")
	if code != ok {
		verdict = p.red(fmt.Sprintf("%d not as the first", other))
	}
	fmt.Fprintf(p.w, "%d answers: %s; %d marked as a replay\n", len(all), verdict, replayed)
	return code
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func statusText(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// bodyText shows a body that is text, and of another its length.
func bodyText(body []byte) string {
	const most = 16 << 10
	if isText(body) {
		text := printable(string(body))
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + fmt.Sprintf("… (%d bytes in all)", len(body))
		}
		return text
	}
	return fmt.Sprintf("(%d bytes that are not text)", len(body))
}
