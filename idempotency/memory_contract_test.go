package idempotency_test

import (
	"sync"
	"testing"
	"time"

	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/storetest"
)

func TestMemoryStoreKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		clock := newClock()
		s := idempotency.NewMemoryStore(idempotency.WithClock(clock.Now))
		t.Cleanup(s.Close)
		return storetest.Fixture{
			Store:   s,
			Advance: clock.Advance,
			Sweep:   func() { s.Sweep() },
			Len:     s.Len,
			Close:   s.Close,
		}
	})
}

// A clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
