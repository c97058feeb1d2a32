package testserver

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCrashBeforeWriteLeavesTheClaimUntilItsLeaseEnds(t *testing.T) {
	s := New(t, WithLease(time.Minute))
	s.Script(CrashBeforeWrite())
	require.Error(t, charge(t, s, "k").err)

	s.Advance(time.Minute - time.Second)
	got := charge(t, s, "k")
	got.requireError(t, 409, "idempotency_key_in_progress")
	assert.Equal(t, "1", got.header.Get("Retry-After"))
	do(t, s, s.Client(), http.MethodPost, "/v1/charges", `{"amount":1}`, "Idempotency-Key", "k").
		requireError(t, 422, "idempotency_key_reuse")
	assert.Zero(t, s.Executions("k"))

	s.Advance(time.Second)
	got = charge(t, s, "k")
	assert.Equal(t, 201, got.status)
	assert.False(t, got.replayed())
	assert.Equal(t, 1, s.Executions("k"))
}

// Neither the middleware's renewal nor its release may touch a dead server's claim.
func TestACrashedClaimIsNeitherRenewedNorReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithLease(time.Minute))
		s.Script(CrashBeforeWrite())
		require.Error(t, charge(t, s, "k").err)
		time.Sleep(time.Minute - time.Nanosecond)
		require.Equal(t, 409, charge(t, s, "k").status)
		time.Sleep(time.Nanosecond)
		require.Equal(t, 201, charge(t, s, "k").status)
	})
}

func TestALiveClaimIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithLease(time.Second), WithLatency(time.Minute))
		done := make(chan outcome)
		go func() { done <- charge(t, s, "k") }()
		time.Sleep(30 * time.Second)
		require.Equal(t, 409, charge(t, s, "k").status)
		require.Equal(t, 201, (<-done).status)
	})
}

// CASES: a slow owner. It outlives its lease, another takes over, and the first
// can neither store nor release: one charge, and it is the second's.
func TestASlowOwnerThatLostItsLeaseChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithLease(time.Minute), WithLatency(10*time.Second))
		first := make(chan outcome)
		go func() { first <- charge(t, s, "k") }()
		time.Sleep(time.Second)
		s.Advance(time.Minute)
		second := make(chan outcome)
		go func() { second <- charge(t, s, "k") }()
		time.Sleep(9*time.Second + time.Millisecond)
		(<-first).requireError(t, 500, "idempotency_claim_lost")
		assert.Empty(t, s.Charges())
		assert.Equal(t, 409, charge(t, s, "k").status)
		got := <-second
		assert.Equal(t, 201, got.status)
		assert.Equal(t, 1, s.Executions("k"))
		require.Len(t, s.Charges(), 1)
		assert.Equal(t, "/v1/charges/"+s.Charges()[0].ID, got.location())
		assert.Equal(t, got.body, charge(t, s, "k").body)
	})
}

// The renewal tells an owner that is still at it: it need not go on.
func TestAnOwnerThatLostItsLeaseEndsAtTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithLease(time.Minute), WithLatency(time.Hour))
		start := time.Now()
		first := make(chan outcome)
		go func() { first <- charge(t, s, "k") }()
		time.Sleep(time.Second)
		s.Advance(time.Minute)
		go charge(t, s, "k")
		(<-first).requireError(t, 500, "idempotency_claim_lost")
		assert.Equal(t, 20*time.Second, time.Since(start))
		assert.Empty(t, s.Charges())
	})
}

func TestAnOperationIsNewOnceItsRecordHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithRetention(24*time.Hour))
		require.Equal(t, 201, charge(t, s, "k").status)
		s.Advance(24*time.Hour - time.Nanosecond)
		assert.True(t, charge(t, s, "k").replayed())
		s.Advance(time.Nanosecond)
		assert.False(t, charge(t, s, "k").replayed())
		assert.Equal(t, 2, s.Executions("k"))
	})
}

// A store that is closed under a handler keeps nothing, and charges nothing.
func TestNoChargeWithoutItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithLatency(10*time.Second))
		go func() { _ = charge(t, s, "k") }()
		time.Sleep(5 * time.Second)
		s.Close()
		assert.Empty(t, s.Charges())
		assert.Zero(t, s.Executions("k"))
	})
}

// No sequence of faults, expiry of leases and concurrent attempts leaves a charge
// without its record or a record without its charge: whoever asks until there is
// an answer gets one charge, and everybody gets the same one.
func TestAChargeAndItsRecordChangeTogether(t *testing.T) {
	mix := map[Fault]float64{
		NeverSaw():                   0.1,
		CrashBeforeWrite():           0.15,
		CrashAfterWrite():            0.15,
		DropResponse(20):             0.1,
		Answer(503):                  0.05,
		FailAfterWrite(502):          0.1,
		Stall(3 * time.Second):       0.1,
		StallAfterWrite(time.Second): 0.1,
	}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			s := New(t, WithoutListener(), WithLease(time.Minute), WithLatency(time.Second))
			s.Chaos(seed, mix)
			const keys = 10
			var clients sync.WaitGroup
			for i := range 3 * keys { // three clients for each
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				clients.Go(func() {
					key := fmt.Sprint("order-", i%keys)
					for attempt := 0; attempt < 100; attempt++ {
						client := s.Client()
						client.Timeout = time.Duration(500+random.IntN(3000)) * time.Millisecond
						got := do(t, s, client, http.MethodPost, "/v1/charges", chargeBody, "Idempotency-Key", key)
						checkTogether(t, s, key, got)
						if got.err == nil && got.status == http.StatusCreated {
							return
						}
						time.Sleep(time.Duration(random.IntN(30)) * time.Second)
						if random.IntN(10) == 0 {
							s.Advance(20 * time.Second)
						}
					}
					t.Error("no answer in 100 attempts")
				})
			}
			clients.Wait()
			s.Chaos(0, nil)
			assert.Len(t, s.Charges(), keys)
			for i := range keys {
				key := fmt.Sprint("order-", i)
				assert.Equal(t, 1, s.Executions(key), "seed %d, faults %v", seed, s.Faults())
				got := charge(t, s, key)
				assert.True(t, got.replayed())
				checkTogether(t, s, key, got)
			}
		})
	}
}

// checkTogether checks what is there at the moment an answer has come.
func checkTogether(t *testing.T, s *Server, key string, got outcome) {
	t.Helper()
	n := s.Executions(key)
	if n > 1 {
		t.Errorf("%s took effect %d times: %v", key, n, s.Faults())
	}
	if got.status != http.StatusCreated {
		return
	}
	var made []string
	for _, c := range s.Charges() {
		if c.Key == key {
			made = append(made, "/v1/charges/"+c.ID)
		}
	}
	assert.Equal(t, []string{got.location()}, made)
}

// An increment is relative: each of many at once counts, and says so.
func TestConcurrentChangesOfOneChargeAreOneAfterTheOther(t *testing.T) {
	s := New(t)
	path := charge(t, s, "create").location()
	const n = 50
	answers := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			got := do(t, s, s.Client(), http.MethodPatch, path, `{"op":"increment","field":"retries"}`,
				"Idempotency-Key", fmt.Sprint("change-", i))
			_, answers[i], _ = strings.Cut(strings.TrimSuffix(got.body, "}\n"), `"retries":`)
		})
	}
	all.Wait()
	sort.Slice(answers, func(i, j int) bool {
		return len(answers[i]) < len(answers[j]) || len(answers[i]) == len(answers[j]) && answers[i] < answers[j]
	})
	for i, a := range answers {
		assert.Equal(t, fmt.Sprint(i+1), a)
	}
	assert.EqualValues(t, n, s.Charges()[0].Retries)
	assert.Equal(t, 1, s.Executions("change-0"))
}

// Fifty at once on one key: one run, 49 told to wait, then fifty replays.
func TestFiftyAtOnceUnderOneKeyAreOneCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithLatency(time.Second))
		first := fiftyAtOnce(t, s, func(int) string { return "k" })
		made := ""
		conflicts := 0
		for _, got := range first {
			switch got.status {
			case 201:
				made = got.body
			case 409:
				assert.Equal(t, "1", got.header.Get("Retry-After"))
				conflicts++
			}
		}
		assert.Equal(t, 49, conflicts)
		assert.Equal(t, 1, s.Executions("k"))
		for _, got := range fiftyAtOnce(t, s, func(int) string { return "k" }) {
			assert.True(t, got.replayed())
			assert.Equal(t, made, got.body)
		}
		assert.Equal(t, 1, s.Executions("k"))
	})
}

func TestFiftyKeysAtOnceDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithLatency(100*time.Millisecond))
		start := time.Now()
		for _, got := range fiftyAtOnce(t, s, func(i int) string { return fmt.Sprint(i) }) {
			assert.Equal(t, 201, got.status)
		}
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		assert.Len(t, s.Charges(), 50)
	})
}

func fiftyAtOnce(t *testing.T, s *Server, key func(i int) string) []outcome {
	t.Helper()
	got := make([]outcome, 50)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i] = charge(t, s, key(i)) })
	}
	all.Wait()
	return got
}
