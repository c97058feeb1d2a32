package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// How long a claim lasts: rule 8.

var errDown = errors.New("the store is down")

func TestRule8ALeaseIsRenewedWhileTheHandlerLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{MemoryStore: newStore(t)}
		h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(10*time.Minute + time.Second)
			create(w, r)
		}}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant)(h))
		first := make(chan reply)
		go func() { first <- s.post("k", "body") }()
		for range 10 {
			time.Sleep(59 * time.Second)
			wantProblem(t, s.post("k", "body"), 409, "idempotency_key_in_progress")
		}
		wantCreated(t, <-first, "body", false)
		assert.EqualValues(t, 30, store.renewals.Load(), "one every 20s")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 30, store.renewals.Load(), "none after the handler's end")
		wantCreated(t, s.post("k", "body"), "body", true)
		assert.EqualValues(t, 1, h.runs.Load())
	})
}

func TestRule8AStoreThatCannotRenewForAWhileLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		store := &faultyStore{MemoryStore: newStore(t), renew: func(ctx context.Context) error {
			assert.Nil(t, ctx.Value(begunKey{}), "a renewal is not part of the transaction")
			switch renewals.Add(1) {
			case 1:
				return errDown
			case 2:
				<-ctx.Done() // at the latest when the next one is due
				return ctx.Err()
			}
			return nil
		}}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(105 * time.Second)
			assert.NoError(t, r.Context().Err())
			create(w, r)
		})))
		wantCreated(t, s.post("k", "body"), "body", false)
		assert.EqualValues(t, 4, renewals.Load(), "at 20, 40 (10s long), 70 and 90 seconds")
	})
}

// A handler that ends while its lease is being renewed does not wait for a store that does not answer, but for the
// renewal to end.
func TestRule8AnAnswerDoesNotWaitForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		renewals := 0
		store := &faultyStore{MemoryStore: newStore(t), renew: func(ctx context.Context) error {
			renewals++
			<-ctx.Done()
			time.Sleep(time.Second)
			return ctx.Err()
		}}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant, idempotency.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(21 * time.Second)
				create(w, r)
			})))
		start := time.Now()
		wantCreated(t, s.post("k", "body"), "body", false)
		assert.Equal(t, 22*time.Second, time.Since(start))
		time.Sleep(time.Hour)
		assert.Equal(t, 1, renewals)
		assert.Empty(t, log.String(), "that it was cut off is no failure")
	})
}

// What the handler started under its context ends with it.
func TestRule8TheHandlersContextEndsWithTheHandler(t *testing.T) {
	left := make(chan context.Context, 1)
	h := protect(t, func(w http.ResponseWriter, r *http.Request) { left <- r.Context() })
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Idempotency-Key", "k")
	h.ServeHTTP(httptest.NewRecorder(), r)
	assert.NoError(t, r.Context().Err())
	assert.Equal(t, context.Canceled, context.Cause(<-left))
}

// Storing may take longer than a lease is.
func TestRule8ALeaseIsRenewedWhileTheAnswerIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{MemoryStore: newStore(t), complete: func(context.Context) error {
			time.Sleep(9 * time.Second)
			return nil
		}}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant, idempotency.WithLease(3*time.Second))(http.HandlerFunc(create)))
		first := make(chan reply)
		go func() { first <- s.post("k", "body") }()
		time.Sleep(8 * time.Second)
		wantProblem(t, s.post("k", "body"), 409, "idempotency_key_in_progress")
		wantCreated(t, <-first, "body", false)
		wantCreated(t, s.post("k", "body"), "body", true)
	})
}

// A takeover is a first request whose lease cannot be renewed, and a second one that takes over after it ended.
type takeover struct {
	t      *testing.T
	s      *server
	runs   atomic.Int64
	first  chan reply
	down   atomic.Bool // the store cannot renew
	events events
}

// takeOver has the first request's handler be late and the second's create, 61 seconds after the first arrived; it lasts
// until finish is closed.
func takeOver(t *testing.T, late http.HandlerFunc, finish chan struct{}, opts ...idempotency.Option) *takeover {
	to := &takeover{t: t, first: make(chan reply, 1)}
	to.down.Store(true)
	store := &faultyStore{MemoryStore: newStore(t), renew: func(context.Context) error {
		if to.down.Load() {
			return errDown
		}
		return nil
	}}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to.runs.Add(1) == 1 {
			late(w, r)
			return
		}
		<-finish
		create(w, r)
	})
	opts = append(opts, idempotency.WithObserver(to.events.add))
	to.s = serveInBubble(t, idempotency.Middleware(store, oneTenant, opts...)(h))
	go func() { to.first <- to.s.post("k", "body") }()
	time.Sleep(61 * time.Second)
	return to
}

func TestRule8ALateOwnerIsCancelledAndItsClientGets500(t *testing.T) {
	for name, late := range map[string]http.HandlerFunc{
		"created":  create,
		"refused":  func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(400) },
		"flushed":  func(w http.ResponseWriter, r *http.Request) { flush(w); create(w, r) },
		"streamed": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, alphabet(limit+1)) },
		"declared": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, err := io.Copy(w, onlyReader(alphabet(1000)))
			assert.Equal(t, idempotency.ErrLost, err)
		},
		"taken over": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			_, _, err := http.NewResponseController(w).Hijack()
			assert.Equal(t, idempotency.ErrLost, err)
		},
		"performed": performed(func(w http.ResponseWriter) { w.WriteHeader(500) }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				finish := make(chan struct{})
				start := time.Now()
				to := takeOver(t, func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					assert.Equal(t, idempotency.ErrLost, context.Cause(r.Context()))
					late(w, r)
				}, finish, idempotency.WithAnswerLimit(limit))
				second := make(chan reply, 1)
				go func() { second <- to.s.post("k", "body") }()
				synctest.Wait()
				to.down.Store(false)
				wantProblem(t, <-to.first, 500, "idempotency_claim_lost")
				assert.Equal(t, 80*time.Second, time.Since(start), "at the next renewal")
				wantProblem(t, to.s.post("k", "body"), 409, "idempotency_key_in_progress")
				close(finish)
				wantCreated(t, <-second, "body", false)
				wantCreated(t, to.s.post("k", "body"), "body", true)
				assert.EqualValues(t, 2, to.runs.Load())
				assert.Equal(t, 1, to.events.count()["lease_lost"])
				assert.Zero(t, to.events.count()["released"])
			})
		})
	}
}

// What left before the claim was lost cannot be taken back, but the client is not to take it for the whole.
func TestRule8ALateStreamBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		to := takeOver(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "part")
			flush(w)
			<-r.Context().Done()
		}, finish)
		go func() { to.s.post("k", "body") }()
		synctest.Wait()
		to.down.Store(false)
		first := <-to.first
		assert.Equal(t, 200, first.status)
		assert.Equal(t, "part", first.body)
		assert.ErrorIs(t, first.err, io.ErrUnexpectedEOF)
		close(finish)
	})
}

// A late owner that does not notice, and panics: the panic goes on, and the other's claim stays.
func TestRule8ALateOwnerThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		to := takeOver(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(62 * time.Second)
			panic(errBoom)
		}, finish)
		go func() { to.s.post("k", "body") }()
		require.Error(t, (<-to.first).err)
		wantProblem(t, to.s.post("k", "body"), 409, "idempotency_key_in_progress")
		close(finish)
	})
}

// Nobody took over, so nothing is lost, however late.
func TestRule8AnOwnerWithoutASuccessorIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := takeOver(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			create(w, r)
		}, nil)
		wantCreated(t, <-to.first, "body", false)
		wantCreated(t, to.s.post("k", "body"), "body", true)
	})
}

func TestRule8AProcessThatDiedFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		h := &handler{}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant)(h))
		// A claim whose owner was never heard of again, made by a request to another instance.
		died := &faultyStore{MemoryStore: store,
			begin:   func(context.Context) error { return errDown },
			release: func(context.Context) error { return errDown },
		}
		wantProblem(t, serveInBubble(t, idempotency.Middleware(died, oneTenant)(h)).post("k", "body"), 503, "store_unavailable")
		time.Sleep(time.Minute - 1)
		wantProblem(t, s.post("k", "body"), 409, "idempotency_key_in_progress")
		time.Sleep(time.Nanosecond)
		wantCreated(t, s.post("k", "body"), "body", false)
		assert.EqualValues(t, 1, h.runs.Load())
	})
}

// Leases are renewed in time also when they are shorter than a timer is exact.
func TestRule8AVeryShortLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{MemoryStore: newStore(t)}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant, idempotency.WithLease(time.Nanosecond))(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(10*time.Millisecond + 1)
				create(w, r)
			})))
		wantCreated(t, s.post("k", "body"), "body", false)
		assert.EqualValues(t, 10, store.renewals.Load(), "no more than one a millisecond")
	})
}

func TestRule8ManyHandlersLeaveNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{MemoryStore: newStore(t)}
		s := serveInBubble(t, idempotency.Middleware(store, oneTenant)(http.HandlerFunc(create)))
		for i := range 100 {
			s.post(fmt.Sprint("key-", i), "")
		}
		time.Sleep(time.Hour)
		assert.Zero(t, store.renewals.Load())
	})
}
