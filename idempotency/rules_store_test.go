package idempotency_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// What is stored before what is sent, and what a store that fails does: rules 9 and 12.

func TestRule9TheAnswerLeavesOnlyAfterItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]http.HandlerFunc{
			"stored":   create,
			"released": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(400) },
		} {
			slow := func(context.Context) error { time.Sleep(5 * time.Second); return nil }
			store := &faultyStore{MemoryStore: newStore(t), complete: slow, release: slow}
			s := serveInBubble(t, idempotency.Middleware(store, oneTenant)(h))
			start := time.Now()
			req, err := http.NewRequest("POST", s.url, nil)
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "k")
			resp, err := s.client.Do(req) // returns with the first byte
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, 5*time.Second, time.Since(start), name)
		}
	})
}

// The last byte of a streamed answer waits for the record too.
func TestRule9AStreamEndsOnlyAfterItsRecordIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{MemoryStore: newStore(t), complete: func(context.Context) error { time.Sleep(5 * time.Second); return nil }}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "all")
			flush(w)
		})))
		start := time.Now()
		r := s.post("k", "")
		require.NoError(t, r.err)
		assert.Equal(t, "all", r.body)
		assert.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestRule9StoringIsDetachedFromTheRequest(t *testing.T) {
	type valueKey struct{}
	for name, status := range map[string]int{"stored": 201, "released": 400} {
		ended := false
		check := func(ctx context.Context) error {
			ended = true
			assert.NoError(t, ctx.Err())
			deadline, ok := ctx.Deadline()
			assert.True(t, ok, "bounded")
			assert.WithinDuration(t, time.Now().Add(10*time.Second), deadline, time.Second)
			assert.Equal(t, "value", ctx.Value(valueKey{}))
			assert.Equal(t, "begun", ctx.Value(begunKey{}), "with what Begin gave")
			assert.Equal(t, "k", idempotency.Key(ctx))
			return nil
		}
		store := &faultyStore{MemoryStore: newStore(t), complete: check, release: check}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "value"))
		h := idempotency.Middleware(store, oneTenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			assert.ErrorIs(t, r.Context().Err(), context.Canceled)
			w.WriteHeader(status)
		}))
		r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
		r.Header.Set("Idempotency-Key", "k")
		h.ServeHTTP(httptest.NewRecorder(), r)
		assert.True(t, ended, name)
	}
}

// A claim that is cut off could be there all the same, for a whole lease, and nobody would know its token.
func TestRule9ClaimingIsDetachedFromTheRequest(t *testing.T) {
	store := &faultyStore{MemoryStore: newStore(t), claim: func(ctx context.Context) error { return ctx.Err() }}
	h := &handler{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
	r.Header.Set("Idempotency-Key", "k")
	idempotency.Middleware(store, oneTenant)(h).ServeHTTP(httptest.NewRecorder(), r)
	assert.EqualValues(t, 1, h.runs.Load())
}

func TestRule12AStoreThatCannotClaim(t *testing.T) {
	fails := func(context.Context) error { return errDown }
	for name, store := range map[string]idempotency.Store{
		"fails":             &faultyStore{MemoryStore: newStore(t), claim: fails},
		"zero state":        answeringStore{MemoryStore: newStore(t)},
		"unknown state":     answeringStore{newStore(t), idempotency.Claim{State: 5}},
		"without an answer": answeringStore{newStore(t), idempotency.Claim{State: idempotency.Completed}},
	} {
		h := &handler{}
		r := serve(t, idempotency.Middleware(store, oneTenant)(h)).post("k", "")
		wantProblem(t, r, 503, "store_unavailable")
		assert.Equal(t, "1", r.header.Get("Retry-After"), name)
		assert.NotContains(t, r.body, errDown.Error())
		assert.Zero(t, h.runs.Load(), name)
	}
}

// An answeringStore answers every claim in one way.
type answeringStore struct {
	*idempotency.MemoryStore
	answer idempotency.Claim
}

func (s answeringStore) Claim(context.Context, idempotency.ID, [32]byte, time.Duration, time.Duration) (idempotency.Claim, error) {
	return s.answer, nil
}

func TestRule12AStoreThatDoesNotAnswerAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{MemoryStore: newStore(t), claim: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		start := time.Now()
		wantProblem(t, serveInBubble(t, idempotency.Middleware(store, oneTenant)(&handler{})).post("k", ""), 503, "store_unavailable")
		assert.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestRule12AStoreThatCannotBegin(t *testing.T) {
	h, memory := &handler{}, newStore(t)
	down := true
	store := &faultyStore{MemoryStore: memory, begin: func(ctx context.Context) error {
		assert.Equal(t, "k", idempotency.Key(ctx))
		if down {
			return errDown
		}
		return nil
	}}
	s := serve(t, idempotency.Middleware(store, oneTenant)(h))
	r := s.post("k", "body")
	wantProblem(t, r, 503, "store_unavailable")
	assert.Equal(t, "1", r.header.Get("Retry-After"))
	assert.Zero(t, h.runs.Load())
	assert.Zero(t, memory.Len(), "the key is released")
	down = false
	wantCreated(t, s.post("k", "body"), "body", false)
}

func TestRule12AStoreThatCannotStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{}
		down := true
		store := &faultyStore{MemoryStore: newStore(t), complete: func(ctx context.Context) error {
			if !down {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant)(h))
		start := time.Now()
		r := s.post("k", "body")
		wantProblem(t, r, 500, "idempotency_store_failed")
		assert.Empty(t, r.header.Get("Location"))
		assert.Equal(t, 10*time.Second, time.Since(start), "waits no longer for the store")
		down = false
		time.Sleep(time.Minute - 10*time.Second - 1)
		wantProblem(t, s.post("k", "body"), 409, "idempotency_key_in_progress")
		assert.EqualValues(t, 1, h.runs.Load())
		time.Sleep(time.Nanosecond)
		wantCreated(t, s.post("k", "body"), "body", false)
	})
}

func TestRule12AStoreThatCannotStoreAStream(t *testing.T) {
	store := &faultyStore{MemoryStore: newStore(t), complete: func(context.Context) error { return errDown }}
	s := serve(t, idempotency.Middleware(store, oneTenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "all")
		flush(w)
	})))
	r := s.post("k", "")
	assert.Equal(t, "all", r.body)
	assert.ErrorIs(t, r.err, io.ErrUnexpectedEOF)
	wantProblem(t, s.post("k", ""), 409, "idempotency_key_in_progress")
}

// Nothing was done, and so the answer is true whether or not the key could be released.
func TestRule12AStoreThatCannotRelease(t *testing.T) {
	store := &faultyStore{MemoryStore: newStore(t), release: func(context.Context) error { return errDown }}
	s := serve(t, idempotency.Middleware(store, oneTenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such customer", http.StatusUnprocessableEntity)
	})))
	r := s.post("k", "")
	assert.Equal(t, 422, r.status)
	assert.Equal(t, "no such customer\n", r.body)
	wantProblem(t, s.post("k", ""), 409, "idempotency_key_in_progress")
}
