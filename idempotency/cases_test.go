package idempotency_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// Scenarios from public reports about idempotent servers. Each name says what went wrong there.

func TestCaseTwoRequestsAtOnceBothPerform(t *testing.T) {
	for range 50 {
		h := &handler{}
		s := serve(t, protect(t, h.ServeHTTP))
		replies := make(chan reply, 2)
		for range 2 {
			go func() { replies <- s.post("k", "body") }()
		}
		performed := 0
		for range 2 {
			switch r := <-replies; {
			case r.status == 409:
				wantProblem(t, r, 409, "idempotency_key_in_progress")
			case r.replayed():
				wantCreated(t, r, "body", true)
			default:
				wantCreated(t, r, "body", false)
				performed++
			}
		}
		assert.Equal(t, 1, performed)
		assert.EqualValues(t, 1, h.runs.Load())
	}
}

func TestCaseAChangedBodyIsToldToRetryWhileTheFirstRuns(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, protect(t, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-finish
	}))
	first := make(chan reply)
	go func() { first <- s.post("k", "body") }()
	<-entered
	r := s.post("k", "changed")
	wantProblem(t, r, 422, "idempotency_key_reuse")
	assert.Empty(t, r.header.Get("Retry-After"))
	wantProblem(t, s.post("k", "body"), 409, "idempotency_key_in_progress")
	close(finish)
	<-first
}

func TestCaseAClientThatHangsUpHasItsOperationRunAgain(t *testing.T) {
	done := make(chan struct{})
	h := &handler{}
	h.then = func(w http.ResponseWriter, r *http.Request) {
		// The work is done. Only then does the server notice that nobody waits for the answer.
		close(done)
		<-r.Context().Done()
		create(w, r)
	}
	protected, ended := protect(t, h.ServeHTTP), make(chan struct{}, 2)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protected.ServeHTTP(w, r)
		ended <- struct{}{}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan reply)
	go func() { first <- s.do(ctx, "POST", "/v1/charges", "body", "Idempotency-Key", "k") }()
	<-done
	cancel()
	require.ErrorIs(t, (<-first).err, context.Canceled)
	<-ended
	wantCreated(t, s.post("k", "body"), "body", true)
	assert.EqualValues(t, 1, h.runs.Load())
}

func TestCaseAPanicKeepsTheKeyForALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{}
		h.then = func(w http.ResponseWriter, r *http.Request) {
			if h.runs.Load() == 1 {
				panic(errBoom)
			}
			create(w, r)
		}
		recovered := make(chan any, 2)
		protected := protect(t, h.ServeHTTP)
		s := serveInBubble(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if v := recover(); v != nil {
					recovered <- v
					panic(v)
				}
			}()
			protected.ServeHTTP(w, r)
		}))
		require.Error(t, s.post("k", "body").err)
		assert.Equal(t, errBoom, <-recovered)
		start := time.Now()
		wantCreated(t, s.post("k", "body"), "body", false)
		assert.Zero(t, time.Since(start))
	})
}

func TestCaseACreateDoesNotComeBackWhole(t *testing.T) {
	body := "{\"id\":\"ch_1\",\"memo\":\"nul \x00 and \xff\"}\n"
	s := serve(t, protect(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Location", "/v1/charges/ch_1")
		h.Set("ETag", `"v1"`)
		h.Add("Link", "</v1/charges/ch_1>; rel=self")
		h.Add("Link", "</v1/charges>; rel=collection")
		h.Add("Set-Cookie", "session=secret")
		h.Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(body))
	}))
	first, replay := s.post("k", ""), s.post("k", "")
	assert.Equal(t, "session=secret", first.header.Get("Set-Cookie"))
	assert.Equal(t, body, replay.body)
	assert.True(t, replay.replayed())
	first.header.Del("Set-Cookie")
	first.header.Del("WWW-Authenticate")
	assert.Len(t, replay.header["Link"], 2)
	sameButForDate(t, first.header, replay.header)
}

func TestCaseAnAnswerTooLargeToKeepIsCutOrRunAgain(t *testing.T) {
	large := string(bytes.Repeat([]byte("0123456789abcdef"), 1<<16)) + "!" // 1 MiB and a byte
	h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
		for rest := large; rest != ""; rest = rest[min(len(rest), 1000):] {
			w.Write([]byte(rest[:min(len(rest), 1000)]))
		}
	}}
	s := serve(t, protect(t, h.ServeHTTP))
	first := s.post("k", "")
	require.NoError(t, first.err)
	assert.True(t, first.body == large, "%d bytes of %d", len(first.body), len(large))
	retry := s.post("k", "")
	wantProblem(t, retry, 409, "idempotency_response_not_stored")
	assert.Empty(t, retry.header.Get("Retry-After"))
	assert.EqualValues(t, 1, h.runs.Load())
}

func TestCaseARecordIsGoneTooSoonOrTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10 * time.Second) // the day begins with the claim
			create(w, r)
		}}
		s := serveInBubble(t, protect(t, h.ServeHTTP))
		claimed := time.Now()
		wantCreated(t, s.post("k", "body"), "body", false)
		time.Sleep(time.Until(claimed.Add(24*time.Hour - 1)))
		wantCreated(t, s.post("k", "body"), "body", true)
		time.Sleep(time.Nanosecond)
		wantCreated(t, s.post("k", "body"), "body", false)
		assert.EqualValues(t, 2, h.runs.Load())
	})
}

func TestCaseASlowOwnerStoresOverItsSuccessor(t *testing.T) {
	for name, late := range map[string]http.HandlerFunc{
		"store":   func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "of the slow one") },
		"release": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				finishFirst, finishSecond := make(chan struct{}), make(chan struct{})
				to := takeOver(t, func(w http.ResponseWriter, r *http.Request) {
					<-finishFirst // whatever happens to its context
					late(w, r)
				}, finishSecond)
				second := make(chan reply, 1)
				go func() { second <- to.s.post("k", "body") }()
				synctest.Wait()
				close(finishFirst)
				wantProblem(t, <-to.first, 500, "idempotency_claim_lost")
				wantProblem(t, to.s.post("k", "body"), 409, "idempotency_key_in_progress")
				close(finishSecond)
				wantCreated(t, <-second, "body", false)
				wantCreated(t, to.s.post("k", "body"), "body", true)
				assert.EqualValues(t, 2, to.runs.Load())
			})
		})
	}
}

func TestCaseOneLockPerKeyIsNeverGivenBack(t *testing.T) {
	const keys, mebibyte = 100_000, 1 << 20
	clock := newClock()
	store := newStore(t, idempotency.WithClock(clock.Now))
	fill(t, store, 1000, time.Hour) // what is made once, such as types
	clock.Advance(time.Hour)
	store.Sweep()

	before := heap()
	fill(t, store, keys, time.Hour)
	assert.Greater(t, heap()-before, int64(10*mebibyte), "they are there")
	clock.Advance(time.Hour)
	assert.Equal(t, keys, store.Sweep())
	assert.Zero(t, store.Len())
	assert.Less(t, heap()-before, int64(mebibyte))
	runtime.KeepAlive(store)
}

// heap is how many bytes are live.
func heap() int64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
