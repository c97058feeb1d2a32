package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// Who runs, and what the others are told: rules 4 and 5.

func TestRule4OfFiftyAtOnceOneRuns(t *testing.T) {
	const requests = 50
	finish := make(chan struct{})
	h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
		<-finish
		create(w, r)
	}}
	s := serve(t, protect(t, h.ServeHTTP))
	replies := make(chan reply, requests)
	for range requests {
		go func() { replies <- s.post("k", "body") }()
	}
	for range requests - 1 { // those that were too late do not wait
		r := <-replies
		wantProblem(t, r, 409, "idempotency_key_in_progress")
		assert.Equal(t, "1", r.header.Get("Retry-After"))
	}
	close(finish)
	first := <-replies
	wantCreated(t, first, "body", false)

	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			r := s.post("k", "body")
			wantCreated(t, r, "body", true)
			assert.Equal(t, first.body, r.body)
			first, got := first.header.Clone(), r.header.Clone()
			first.Del("Date")
			got.Del("Date")
			got.Del("Idempotent-Replayed")
			assert.Equal(t, first, got)
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, h.runs.Load())
}

func TestRule4DifferentKeysRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond)
			create(w, r)
		}}
		s := serveInBubble(t, protect(t, h.ServeHTTP))
		start := time.Now()
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() { wantCreated(t, s.post(fmt.Sprint("key-", i), "body"), "body", false) })
		}
		all.Wait()
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		assert.EqualValues(t, 50, h.runs.Load())
	})
}

func TestRule5AnotherFingerprintIsToldSo(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-finish
		create(w, r)
	}}
	s := serve(t, protect(t, h.ServeHTTP))
	first := make(chan reply)
	go func() { first <- s.post("k", "secret") }()
	<-entered
	mismatch := func() {
		r := s.post("k", "other")
		wantProblem(t, r, 422, "idempotency_key_reuse")
		assert.Empty(t, r.header.Get("Retry-After"))
		assert.Empty(t, r.header.Get("Location"))
		assert.NotContains(t, r.body, "secret")
		assert.False(t, r.replayed())
	}
	mismatch()
	wantProblem(t, s.post("k", "secret"), 409, "idempotency_key_in_progress")
	close(finish)
	wantCreated(t, <-first, "secret", false)
	mismatch()
	wantCreated(t, s.post("k", "secret"), "secret", true)
}

func TestRule5HoldWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(3 * time.Second)
			create(w, r)
		}}
		store := &countingStore{MemoryStore: newStore(t)}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant, idempotency.WithHold(10*time.Second))(h))
		start := time.Now()
		var both sync.WaitGroup
		both.Go(func() { wantCreated(t, s.post("k", "body"), "body", false) })
		both.Go(func() {
			time.Sleep(time.Second)
			wantCreated(t, s.post("k", "body"), "body", true)
			assert.GreaterOrEqual(t, time.Since(start), 3*time.Second)
			assert.LessOrEqual(t, time.Since(start), 3250*time.Millisecond)
		})
		both.Go(func() {
			time.Sleep(time.Second)
			wantProblem(t, s.post("k", "other"), 422, "idempotency_key_reuse")
			assert.Equal(t, time.Second, time.Since(start), "a mismatch is told at once")
		})
		both.Wait()
		assert.EqualValues(t, 1, h.runs.Load())
		assert.LessOrEqual(t, store.claims.Load(), int64(20), "polled too hard")
	})
}

func TestRule5HoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute)
			create(w, r)
		}}
		s := serveInBubble(t, protect(t, h.ServeHTTP, idempotency.WithHold(1100*time.Millisecond)))
		var all sync.WaitGroup
		all.Go(func() { wantCreated(t, s.post("k", "body"), "body", false) })
		all.Go(func() {
			time.Sleep(time.Second)
			start := time.Now()
			wantProblem(t, s.post("k", "body"), 409, "idempotency_key_in_progress")
			assert.Equal(t, 1100*time.Millisecond, time.Since(start))
		})
		all.Go(func() {
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			start := time.Now()
			r := s.do(ctx, "POST", "/v1/charges", "body", "Idempotency-Key", "k")
			assert.ErrorIs(t, r.err, context.DeadlineExceeded)
			assert.Equal(t, 30*time.Millisecond, time.Since(start))
		})
		all.Wait()
	})
}

// The wait ends with the request's context: no duplicate stays behind for a client that left.
func TestRule5HoldEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{then: func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		protected := protect(t, h.ServeHTTP, idempotency.WithHold(time.Hour))
		left := make(chan time.Duration, 1)
		start := time.Now()
		s := serveInBubble(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			protected.ServeHTTP(w, r)
			if r.Header.Get("Second") != "" {
				left <- time.Since(start)
			}
		}))
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan reply)
		go func() { first <- s.do(ctx, "POST", "/", "", "Idempotency-Key", "k") }()
		synctest.Wait()
		short, cancelShort := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancelShort()
		require.Error(t, s.do(short, "POST", "/", "", "Idempotency-Key", "k", "Second", "yes").err)
		assert.Equal(t, 2*time.Second, <-left)
		cancel()
		require.Error(t, (<-first).err)
	})
}

func TestRule5HoldRunsTheHandlerWhenTheFirstIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{}
		h.then = func(w http.ResponseWriter, r *http.Request) {
			if h.runs.Load() == 1 {
				time.Sleep(time.Second)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			create(w, r)
		}
		s := serveInBubble(t, protect(t, h.ServeHTTP, idempotency.WithHold(10*time.Second)))
		first := make(chan reply)
		go func() { first <- s.post("k", "body") }()
		synctest.Wait()
		wantCreated(t, s.post("k", "body"), "body", false)
		assert.Equal(t, 503, (<-first).status)
		assert.EqualValues(t, 2, h.runs.Load())
	})
}
