package main

import (
	_ "embed"
	"fmt"
	"math"
	"strings"
	"time"
)

// The chart is a grid of panels: a row for each policy, a column without and
// one with Retry-After. Load is drawn on a logarithmic scale: it goes from a
// little below capacity to thirty times that.
const (
	chartEnd             = 60 * time.Second
	panelWidth           = 352
	panelHeight          = 84
	captionHeight        = 36
	left, top            = 62, 110
	columnStep           = 402
	rowStep              = 154
	chartWidth           = left + columnStep + panelWidth + 24
	lowestRate, topRate  = 100.0, 50_000.0
	secondsBetweenLabels = 10
)

//go:embed chart.css
var chartStyle string

// chart draws the load over time, against capacity.
func chart(results []result) []byte {
	rows := len(results) / 2
	height := top + rows*rowStep
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`aria-labelledby="title desc" font-family="ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, "<title id=\"title\">The load of %s clients on a server that was down for %.0f seconds</title>\n", thousands(clients), outage.Seconds())
	fmt.Fprintf(&b, "<desc id=\"desc\">%s</desc>\n", description(results))
	fmt.Fprintf(&b, "<style>\n%s</style>\n", chartStyle)
	fmt.Fprintf(&b, `<rect class="bg" width="%d" height="%d" rx="8"/>`+"\n", chartWidth, height)
	text := func(x, y int, class, s string) {
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, s)
	}
	text(left, 30, "head", fmt.Sprintf("%s clients, a server down for %.0f s", thousands(clients), outage.Seconds()))
	text(left, 50, "soft", fmt.Sprintf("Attempts a second, at most %d attempts per operation. Dashed: what the server can do. Shaded: it is down.", results[0].maxAttempts))
	text(left, 84, "column", "No Retry-After")
	text(left+columnStep, 84, "column", fmt.Sprintf("Retry-After: %.0f", retryAfter.Seconds()))
	for i := range results {
		b.WriteString(panel(&results[i], left+i/rows*columnStep, top+i%rows*rowStep))
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// panel draws one result with its upper left corner at (x, y).
func panel(r *result, x, y int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", x, y)
	fmt.Fprintf(&b, `<text class="name" y="11">%s</text><text class="soft" y="28">%.1f attempts each, %s failed, all served after %s</text>`+"\n",
		r.name, r.amplification(), percent(r.failedShare()), r.allServed())
	fmt.Fprintf(&b, `<g transform="translate(0 %d)">`+"\n", captionHeight)
	fmt.Fprintf(&b, `<rect class="down" x="%s" width="%s" height="%d"/>`+"\n", at(0), span(outage), panelHeight)
	for rate := lowestRate; rate <= topRate; rate *= 10 {
		fmt.Fprintf(&b, `<path class="grid" d="M0 %s H%d"/><text class="tick end" x="-6" y="%s">%s</text>`+"\n",
			level(rate), panelWidth, level(rate*0.87), shortNumber(rate))
	}
	fmt.Fprintf(&b, `<path class="load" d="%s"/>`+"\n", outline(r))
	fmt.Fprintf(&b, `<path class="capacity" d="M0 %s H%d"/>`+"\n", level(capacity), panelWidth)
	for s := 0; s <= int(chartEnd.Seconds()); s += secondsBetweenLabels {
		label := fmt.Sprint(s)
		if s == 0 {
			label = "0 s"
		}
		fmt.Fprintf(&b, `<text class="tick middle" x="%s" y="%d">%s</text>`+"\n", at(time.Duration(s)*time.Second), panelHeight+14, label)
	}
	b.WriteString("</g></g>\n")
	return b.String()
}

// outline is the path around the load.
func outline(r *result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M0 %d", panelHeight)
	for bin := range int((chartEnd + warmup) / binWidth) {
		end := time.Duration(bin+1)*binWidth - warmup
		fmt.Fprintf(&b, "V%sH%s", level(float64(r.rate(bin))), at(end))
	}
	fmt.Fprintf(&b, "V%dZ", panelHeight)
	return b.String()
}

// at is the place of a moment, span the width of a time.
func at(t time.Duration) string { return span(t + warmup) }

func span(d time.Duration) string {
	return fmt.Sprintf("%.1f", d.Seconds()/(warmup+chartEnd).Seconds()*panelWidth)
}

// level is the height of a rate, from the top.
func level(rate float64) string {
	up := math.Log(max(rate, lowestRate)/lowestRate) / math.Log(topRate/lowestRate)
	return fmt.Sprintf("%.1f", panelHeight*(1-min(up, 1)))
}

func shortNumber(f float64) string {
	if f >= 1000 {
		return fmt.Sprintf("%.0fk", f/1000)
	}
	return fmt.Sprintf("%.0f", f)
}

// description says in words what the chart shows.
func description(results []result) string {
	var b strings.Builder
	for i := range results {
		r := &results[i]
		told := ""
		if r.told {
			told = " and Retry-After"
		}
		fmt.Fprintf(&b, "With %s%s the load once the server is back peaks at %s attempts a second, and all are served after %s. ",
			r.name, told, thousands(r.peakBack()), r.allServed())
	}
	return strings.TrimSpace(b.String())
}
