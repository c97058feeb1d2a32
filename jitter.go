package saferetry

import (
	"math"
	"math/rand/v2"
	"time"
)

// FullJitter is a backoff.BackOff whose n-th wait is drawn uniformly from
// zero to the smaller of Max and Base·2ⁿ⁻¹, both ends included. Drawing from
// the whole interval, rather than around its end, spreads clients that failed
// together most evenly.
//
// The zero value waits zero. A negative Base or Max counts as zero. Like every
// BackOff it belongs to one operation: it is not safe for concurrent use.
type FullJitter struct {
	Base time.Duration // upper end of the first wait
	Max  time.Duration // upper end of every wait

	made   int                                     // waits drawn so far
	random func(limit time.Duration) time.Duration // nil: randomUpTo
}

// NewFullJitter returns a FullJitter at its first wait.
func NewFullJitter(base, max time.Duration) *FullJitter {
	return &FullJitter{Base: base, Max: max}
}

// NextBackOff returns the next wait. It never returns backoff.Stop.
func (j *FullJitter) NextBackOff() time.Duration {
	limit := doubled(max(j.Base, 0), j.made, max(j.Max, 0))
	if j.made < math.MaxInt {
		j.made++
	}
	if j.random != nil {
		return j.random(limit)
	}
	return randomUpTo(limit)
}

// Reset makes the next wait the first one again.
func (j *FullJitter) Reset() { j.made = 0 }

// doubled returns d doubled n times, or limit if that is less. It compares
// before it shifts, so that no n overflows.
func doubled(d time.Duration, n int, limit time.Duration) time.Duration {
	if d == 0 {
		return 0
	}
	if n >= 63 || d > limit>>n {
		return limit
	}
	return d << n
}

// randomUpTo draws uniformly from [0, limit]; 0 for a negative limit.
func randomUpTo(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(rand.Uint64N(uint64(limit) + 1))
}
