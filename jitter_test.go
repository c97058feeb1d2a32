package saferetry_test

import (
	"math"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

var _ backoff.BackOff = (*saferetry.FullJitter)(nil)

// draws are the n-th waits of many policies.
func draws(base, max time.Duration, n int) []time.Duration {
	waits := make([]time.Duration, 1000)
	for i := range waits {
		policy := saferetry.NewFullJitter(base, max)
		for range n {
			waits[i] = policy.NextBackOff()
		}
	}
	return waits
}

func TestFullJitterIsUniformUpToTheDoubledBase(t *testing.T) {
	const base, max = 200 * time.Millisecond, 5 * time.Second
	for n, limit := range map[int]time.Duration{1: base, 2: 2 * base, 3: 4 * base, 5: 16 * base, 6: max, 7: max, 70: max} {
		var quarters [4]int
		for _, wait := range draws(base, max, n) {
			require.GreaterOrEqual(t, wait, time.Duration(0))
			require.LessOrEqual(t, wait, limit)
			quarters[min(int(4*wait/limit), 3)]++
		}
		for _, count := range quarters { // 250 expected; 8 standard deviations
			assert.InDelta(t, 250, count, 110, "wait %d: %v", n, quarters)
		}
	}
}

func TestFullJitterIncludesBothEnds(t *testing.T) {
	seen := make(map[time.Duration]int)
	for _, wait := range draws(3, time.Second, 1) {
		seen[wait]++
	}
	assert.Len(t, seen, 4, "0 to 3 ns: %v", seen)
}

func TestFullJitterOverflowsAtTheEdges(t *testing.T) {
	for _, test := range []struct {
		name      string
		base, max time.Duration
		limit     time.Duration
	}{
		{"base 0", 0, 30 * time.Second, 0},
		{"max 0", 0, 0, 0},
		{"base 1ns", 1, 30 * time.Second, 30 * time.Second},
		{"base 1ns, no max", 1, math.MaxInt64, math.MaxInt64},
		{"base is max", time.Second, time.Second, time.Second},
		{"base over max", time.Minute, time.Second, time.Second},
		{"all there is", math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"negative base", -1, time.Second, 0},
		{"negative max", time.Second, -1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := saferetry.NewFullJitter(test.base, test.max)
			for range 1000 {
				wait := policy.NextBackOff()
				require.GreaterOrEqual(t, wait, time.Duration(0))
				require.LessOrEqual(t, wait, test.limit)
			}
		})
	}
}

// Doubling 1ns reaches the largest max at the 64th wait, not before.
func TestFullJitterDoublesToTheLastBit(t *testing.T) {
	for n, limit := range map[int]time.Duration{1: 1, 2: 2, 10: 512, 62: 1 << 61, 63: 1 << 62, 64: math.MaxInt64} {
		var most time.Duration
		for _, wait := range draws(1, math.MaxInt64, n) {
			require.LessOrEqual(t, wait, limit, n)
			most = max(most, wait)
		}
		assert.Greater(t, most, limit/2, n)
	}
}

func TestFullJitterResetStartsOver(t *testing.T) {
	policy := saferetry.NewFullJitter(1, math.MaxInt64)
	for range 1000 {
		policy.NextBackOff()
	}
	policy.Reset()
	assert.LessOrEqual(t, policy.NextBackOff(), time.Duration(1))
	assert.LessOrEqual(t, policy.NextBackOff(), time.Duration(2))
}

func TestZeroFullJitterWaitsZero(t *testing.T) {
	var policy saferetry.FullJitter
	for range 100 {
		require.Zero(t, policy.NextBackOff())
	}
}
