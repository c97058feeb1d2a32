package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
	"time"
)

//go:embed storm.md.tmpl
var textTemplate string

// text is the page that explains the setting and shows the numbers.
func text(many, few []result) []byte {
	var page bytes.Buffer
	t := template.Must(template.New("storm.md").Funcs(template.FuncMap{
		"count":   thousands,
		"seconds": func(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) },
		"times":   func(f float64) string { return fmt.Sprintf("%.1f", f) },
		"percent": percent,
	}).Parse(textTemplate))
	data := map[string]any{
		"clients": clients, "processes": processes, "capacity": capacity,
		"manyAttempts": manyAttempts, "fewAttempts": fewAttempts,
		"many": byName(many), "few": byName(few),
		"manyTable": table(many), "fewTable": table(few),
	}
	if err := t.Execute(&page, data); err != nil { // the template is part of the program
		panic(err)
	}
	return page.Bytes()
}

// byName has the results for the template: as noJitter, equalJitter, fullJitter
// and fullJitterBudget, and with Retry-After as noJitterTold and so on.
func byName(results []result) map[string]view {
	named := make(map[string]view)
	for _, r := range results {
		name := names[r.name]
		if r.told {
			name += "Told"
		}
		named[name] = view{r.peakDown(), r.peakBack(), r.amplification(), r.failedShare(), r.overload(), r.lastReached}
	}
	return named
}

var names = map[string]string{
	"no jitter": "noJitter", "equal jitter": "equalJitter", "full jitter": "fullJitter", "full jitter, budget": "fullJitterBudget",
}

// A view is what the page says of a result.
type view struct {
	PeakDown, PeakBack    int
	Amplification, Failed float64
	Overload, All         time.Duration
}

// table is a Markdown table of results.
func table(results []result) string {
	var b strings.Builder
	b.WriteString("| waits | Retry-After | peak, server down | peak, server back | attempts per operation | failed | all served after |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|\n")
	for _, r := range results {
		told := "none"
		if r.told {
			told = fmt.Sprintf("%.0f s", retryAfter.Seconds())
		}
		fmt.Fprintf(&b, "| %s | %s | %s/s | %s/s | %.1f | %s | %s |\n", r.name, told, thousands(r.peakDown()),
			thousands(r.peakBack()), r.amplification(), percent(r.failedShare()), r.allServed())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r *result) allServed() string {
	if r.reached < clients {
		return fmt.Sprintf("%s missing", thousands(clients-r.reached))
	}
	return fmt.Sprintf("%.0f s", r.lastReached.Seconds())
}

// thousands writes n, less than a million, with a comma.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// percent writes what is all, or none, otherwise than what is nearly so.
func percent(f float64) string {
	if f == 0 || f == 100 {
		return fmt.Sprintf("%.0f%%", f)
	}
	return fmt.Sprintf("%.1f%%", f)
}
