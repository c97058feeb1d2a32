package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/saferetry/saferetry/idempotency"
)

// What the memory store does beyond the contract; with rule 11.

func idOf(key string) idempotency.ID {
	return idempotency.ID{Scope: "tenant", Method: "POST", Path: "/v1/charges", Key: key}
}

// fill completes an operation under each of n keys.
func fill(t testing.TB, s *idempotency.MemoryStore, n int, retention time.Duration) {
	t.Helper()
	for i := range n {
		c, err := s.Claim(t.Context(), idOf(fmt.Sprint("key-", i)), [32]byte{}, time.Minute, retention)
		if err == nil {
			err = s.Complete(t.Context(), c, idempotency.Answer{Status: 201, Body: make([]byte, 100)})
		}
		if err != nil { // require is slow, for so many
			t.Fatal(err)
		}
	}
}

func TestRule11RecordsExpireSweptOrNot(t *testing.T) {
	clock := newClock()
	store := newStore(t, idempotency.WithClock(clock.Now))
	h := &handler{}
	s := serve(t, idempotency.Middleware(store, oneTenant, idempotency.WithRetention(time.Hour))(h))
	wantCreated(t, s.post("k", "body"), "body", false)
	clock.Advance(time.Hour - 1)
	wantCreated(t, s.post("k", "body"), "body", true)
	clock.Advance(1)
	assert.Equal(t, 1, store.Len())
	wantCreated(t, s.post("k", "other"), "other", false)
	assert.EqualValues(t, 2, h.runs.Load())
}

func TestRule11TheSweeperRunsWhileThereAreRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, idempotency.WithSweepInterval(10*time.Minute))
		var swept []int
		store.OnSweep(func(n int) { swept = append(swept, n) })
		for range 2 { // it starts anew after all were gone
			fill(t, store, 1000, time.Hour)
			time.Sleep(time.Hour - 1)
			synctest.Wait()
			assert.Equal(t, 1000, store.Len())
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			assert.Zero(t, store.Len())
			time.Sleep(24 * time.Hour)
		}
		assert.Equal(t, []int{1000, 1000}, swept)
	})
}

func TestRule11CloseStopsTheSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		fill(t, store, 10, time.Hour)
		store.Close()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		assert.Equal(t, 10, store.Len())
		assert.Zero(t, store.Sweep())
	})
}

func TestRule11RequestsAfterCloseGet503(t *testing.T) {
	store := newStore(t)
	entered, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, idempotency.Middleware(store, oneTenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-finish
		create(w, r)
	})))
	first := make(chan reply)
	go func() { first <- s.post("k", "body") }()
	<-entered
	var all sync.WaitGroup
	for range 8 {
		all.Go(store.Close)
	}
	all.Wait()
	wantProblem(t, s.post("k", "body"), 503, "store_unavailable")
	wantProblem(t, s.post("new", "body"), 503, "store_unavailable")
	close(finish)
	wantCreated(t, <-first, "body", false) // what was in flight may end
}

// Closing while a sweep is under way waits for the step, not for the sweep.
func TestRule11CloseWhileSweeping(t *testing.T) {
	clock := newClock()
	store := newStore(t, idempotency.WithClock(clock.Now))
	fill(t, store, 10_000, time.Hour)
	clock.Advance(time.Hour)
	var all sync.WaitGroup
	all.Go(func() { store.Sweep() })
	for range 8 {
		all.Go(store.Close)
	}
	all.Wait()
	left := store.Len()
	assert.Zero(t, store.Sweep())
	assert.Equal(t, left, store.Len())
}

func TestMaxRecordsRefusesNewKeysAndEvictsNothing(t *testing.T) {
	clock := newClock()
	store := newStore(t, idempotency.WithClock(clock.Now), idempotency.WithMaxRecords(2))
	finish := make(chan struct{})
	entered := make(chan struct{}, 1)
	h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
		if idempotency.Key(r.Context()) == "in-flight" {
			entered <- struct{}{}
			<-finish
		}
		create(w, r)
	}}
	s := serve(t, idempotency.Middleware(store, oneTenant, idempotency.WithRetention(time.Hour), idempotency.WithLease(2*time.Hour))(h))
	wantCreated(t, s.post("completed", "body"), "body", false)
	first := make(chan reply)
	go func() { first <- s.post("in-flight", "body") }()
	<-entered

	r := s.post("new", "body")
	wantProblem(t, r, 503, "store_unavailable")
	assert.Equal(t, "1", r.header.Get("Retry-After"))
	wantCreated(t, s.post("completed", "body"), "body", true)
	wantProblem(t, s.post("in-flight", "body"), 409, "idempotency_key_in_progress")

	clock.Advance(time.Hour - time.Nanosecond)
	wantProblem(t, s.post("new", "body"), 503, "store_unavailable")
	clock.Advance(time.Nanosecond)
	wantCreated(t, s.post("new", "body"), "body", false) // what has expired makes room, swept or not
	assert.Equal(t, 2, store.Len())
	close(finish)
	wantCreated(t, <-first, "body", false)
	assert.EqualValues(t, 3, h.runs.Load())
}

func TestMaxRecordsHoldsWithManyAtOnce(t *testing.T) {
	const most = 100
	store := newStore(t, idempotency.WithMaxRecords(most))
	var claimed, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for k := range 50 {
				_, err := store.Claim(context.Background(), idOf(fmt.Sprint(i, "-", k)), [32]byte{}, time.Minute, time.Hour)
				switch err {
				case nil:
					claimed.Add(1)
				case idempotency.ErrFull:
					refused.Add(1)
				default:
					t.Errorf("Claim: %v", err)
				}
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, most, claimed.Load())
	assert.EqualValues(t, 16*50-most, refused.Load())
	assert.Equal(t, most, store.Len())
}

// An observer that asks the store from within a sweep does not wait for that sweep.
func TestASweepMayBeObservedByTheStoresUser(t *testing.T) {
	clock := newClock()
	store := newStore(t, idempotency.WithClock(clock.Now))
	fill(t, store, 10, time.Hour)
	clock.Advance(time.Hour)
	left := -1
	store.OnSweep(func(int) {
		left = store.Len()
		store.Sweep()
		store.Close()
	})
	assert.Equal(t, 10, store.Sweep())
	assert.Zero(t, left)
}

func TestAWrongMemoryOptionPanics(t *testing.T) {
	for want, opt := range map[string]idempotency.MemoryOption{
		"idempotency: WithMaxRecords: 0: want 1 or more":        idempotency.WithMaxRecords(0),
		"idempotency: WithSweepInterval: -1s: want more than 0": idempotency.WithSweepInterval(-time.Second),
		"idempotency: WithClock: <nil>: want a function":        idempotency.WithClock(nil),
	} {
		assert.PanicsWithValue(t, want, func() { idempotency.NewMemoryStore(opt) })
	}
}
