package main

import (
	"math"
	"time"
)

// A variant is how the clients behave, and whether the server tells them when
// to come back.
type variant struct {
	name        string
	policy      policy
	budgeted    bool
	told        bool // a refusal has a Retry-After
	maxAttempts int
}

// variants are the ones to be compared: first without Retry-After, then with it.
func variants(maxAttempts int) []variant {
	var list []variant
	for _, told := range []bool{false, true} {
		list = append(list,
			variant{"no jitter", noJitter, false, told, maxAttempts},
			variant{"equal jitter", equalJitter, false, told, maxAttempts},
			variant{"full jitter", fullJitter, false, told, maxAttempts},
			variant{"full jitter, budget", fullJitter, true, told, maxAttempts})
	}
	return list
}

// A policy draws the wait after the n-th attempt.
type policy func(s *simulation, n int) time.Duration

// maxWait is the upper end of that wait.
func maxWait(n int) time.Duration {
	d := waitBase
	for ; n > 1 && d < waitMax; n-- {
		d *= 2
	}
	return min(d, waitMax)
}

func noJitter(_ *simulation, n int) time.Duration { return maxWait(n) }

func equalJitter(s *simulation, n int) time.Duration { return s.uniform(maxWait(n)/2, maxWait(n)) }

// fullJitter is saferetry.FullJitter with the simulation's own randomness, and
// bucket is saferetry.Budget with nobody to wait for. A test holds the whole
// model against the client itself.
func fullJitter(s *simulation, n int) time.Duration { return s.uniform(0, maxWait(n)) }

// A bucket starts full. Each operation earns a part of a retry, each retry
// costs one.
type bucket struct{ millionths int }

const aRetry = 1_000_000

func newBucket() bucket { return bucket{budgetBurst * aRetry} }

func (b *bucket) earn() {
	b.millionths = min(b.millionths+int(math.Round(budgetRatio*aRetry)), budgetBurst*aRetry)
}

func (b *bucket) spend() bool {
	if b.millionths < aRetry {
		return false
	}
	b.millionths -= aRetry
	return true
}
