package main

import "time"

// binWidth is the resolution of the load.
const binWidth = 500 * time.Millisecond

// A result is what came of a simulation.
type result struct {
	variant
	load        [(warmup + horizon) / binWidth]int // attempts
	operations  int                                // begun in the outage
	attempts    int                                // that these took
	failed      int                                // of these, in the eyes of their callers
	reached     int                                // clients served since the server came back
	lastReached time.Duration                      // when the last of them was, after that
}

func (r *result) count(now time.Duration, hit bool) {
	r.load[(now+warmup)/binWidth]++
	if hit {
		r.attempts++
	}
}

// rate is the load in a bin, in attempts a second.
func (r *result) rate(bin int) int { return r.load[bin] * int(time.Second/binWidth) }

// peak is the highest rate from one moment to another.
func (r *result) peak(from, to time.Duration) int {
	highest := 0
	for bin := (from + warmup) / binWidth; bin < (to+warmup)/binWidth; bin++ {
		highest = max(highest, r.rate(int(bin)))
	}
	return highest
}

func (r *result) peakDown() int { return r.peak(0, outage) }

func (r *result) peakBack() int { return r.peak(outage, horizon) }

// overload is for how long the load was above capacity once the server was back.
func (r *result) overload() time.Duration {
	var d time.Duration
	for bin := (outage + warmup) / binWidth; bin < (horizon+warmup)/binWidth; bin++ {
		if r.rate(int(bin)) > capacity {
			d += binWidth
		}
	}
	return d
}

// amplification is how many attempts an operation begun in the outage took.
func (r *result) amplification() float64 { return float64(r.attempts) / float64(r.operations) }

// failedShare is the percentage of these operations that failed.
func (r *result) failedShare() float64 { return 100 * float64(r.failed) / float64(r.operations) }
