package idempotency_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// events collects events.
type events struct {
	mu  sync.Mutex
	all []idempotency.Event
}

func (e *events) add(event idempotency.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// count is what a dashboard shows.
func (e *events) count() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := make(map[string]int)
	for _, event := range e.all {
		counts[event.Kind.String()] += event.N
	}
	return counts
}

func TestEventsAreWhatADashboardCounts(t *testing.T) {
	var got events
	clock := newClock()
	store := newStore(t, idempotency.WithClock(clock.Now))
	entered, finish := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch idempotency.Key(r.Context()) {
		case "slow":
			close(entered)
			<-finish
		case "refused":
			w.WriteHeader(402)
		case "panics":
			panic(errBoom)
		case "streamed":
			flush(w)
		}
	})
	s := serve(t, idempotency.Middleware(store, oneTenant, idempotency.WithObserver(got.add))(h))
	slow := make(chan reply)
	go func() { slow <- s.post("slow", "body") }()
	<-entered
	s.post("slow", "body")
	s.post("slow", "other")
	close(finish)
	<-slow
	s.post("slow", "body")
	for _, key := range []string{"refused", "panics", "streamed", "streamed"} {
		s.post(key, "body")
	}
	clock.Advance(24 * time.Hour)
	assert.Equal(t, 2, store.Sweep())

	id := func(key string) idempotency.ID {
		return idempotency.ID{Scope: "tenant", Method: "POST", Path: "/v1/charges", Key: key}
	}
	assert.Equal(t, []idempotency.Event{
		{Kind: idempotency.EventClaimed, ID: id("slow"), N: 1},
		{Kind: idempotency.EventConflict, ID: id("slow"), N: 1, Status: 409},
		{Kind: idempotency.EventMismatch, ID: id("slow"), N: 1, Status: 422},
		{Kind: idempotency.EventReplayed, ID: id("slow"), N: 1, Status: 200},
		{Kind: idempotency.EventClaimed, ID: id("refused"), N: 1},
		{Kind: idempotency.EventReleased, ID: id("refused"), N: 1, Status: 402},
		{Kind: idempotency.EventClaimed, ID: id("panics"), N: 1},
		{Kind: idempotency.EventReleased, ID: id("panics"), N: 1},
		{Kind: idempotency.EventClaimed, ID: id("streamed"), N: 1},
		{Kind: idempotency.EventConflict, ID: id("streamed"), N: 1, Status: 409},
		{Kind: idempotency.EventSwept, N: 2},
	}, got.all)
}

func TestEventKindsHaveNames(t *testing.T) {
	var names []string
	for k := idempotency.EventKind(0); k <= idempotency.EventSwept+1; k++ {
		names = append(names, k.String())
	}
	assert.Equal(t, []string{"unknown", "claimed", "replayed", "conflict", "mismatch", "released", "lease_lost", "swept", "unknown"}, names)
}

func TestAnEventIsLoggedRedacted(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	id := idempotency.ID{Scope: "secret-tenant", Method: "POST", Path: "/v1/charges", Key: "12345678-secret"}
	log.Info("", "event", idempotency.Event{Kind: idempotency.EventReplayed, ID: id, N: 1, Status: 201})
	log.Info("", "event", idempotency.Event{Kind: idempotency.EventSwept, N: 7})
	assert.Contains(t, b.String(), "event.kind=replayed event.n=1 event.status=201 event.method=POST event.path=/v1/charges event.key=12345678…\n")
	assert.Contains(t, b.String(), "event.kind=swept event.n=7\n")
	assert.NotContains(t, b.String(), "secret")
}

func TestTheLogSaysWhatFailedAndNoSecret(t *testing.T) {
	fail := func(context.Context) error { return errDown }
	renewed := make(chan struct{}, 100)
	for step, store := range map[string]*faultyStore{
		"claim":    {claim: fail},
		"begin":    {begin: fail},
		"complete": {complete: fail},
		"release":  {release: fail},
		"renew":    {renew: func(context.Context) error { renewed <- struct{}{}; return errDown }},
		"":         {complete: func(context.Context) error { return idempotency.ErrLost }},
	} {
		store.MemoryStore = newStore(t)
		var b safeBuffer
		s := serve(t, idempotency.Middleware(store, oneTenant, idempotency.WithLogger(slog.New(slog.NewTextHandler(&b, nil))),
			idempotency.WithLease(time.Millisecond))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if step == "renew" {
				<-renewed
				<-renewed // the first one has been logged
			}
			if step == "release" {
				w.WriteHeader(400)
			}
			io.WriteString(w, "secret answer")
		})))
		s.do(t.Context(), "POST", "/v1/charges?secret=query", "secret body", "Idempotency-Key", "12345678-secret", "Authorization", "secret header")
		line := b.String()
		require.NotEmpty(t, line, step)
		assert.Contains(t, line, "method=POST path=/v1/charges key=12345678…", step)
		if step == "" {
			assert.Contains(t, line, "level=WARN")
		} else {
			assert.Contains(t, line, "level=ERROR")
			assert.Contains(t, line, "step="+step)
			assert.Contains(t, line, errDown.Error())
		}
		assert.NotContains(t, line, "secret", step)
		assert.NotContains(t, line, "tenant", step)
	}
}

// A safeBuffer may be written and read at once.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
