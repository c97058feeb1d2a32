package idempotency

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of [MemoryStore.Claim]. The middleware answers both with 503.
var (
	ErrClosed = errors.New("idempotency: the store is closed")
	ErrFull   = errors.New("idempotency: the store has as many records as it may have")
)

const (
	memoryShards         = 256
	defaultSweepInterval = time.Minute
)

// A MemoryStore is a [Store] in the memory of one process: another process does not see its records, and they end with
// it. It has no transactions. It suits a service that runs once, and tests. Make one with [NewMemoryStore]; the
// zero value is not ready. All methods may be called by many goroutines at once.
//
// Records are spread over shards with a lock each, so that different keys seldom wait for each other. A sweeper removes
// expired records; it runs only while there are any.
type MemoryStore struct {
	now        func() time.Time
	interval   time.Duration // between sweeps
	maxRecords int64
	seed       maphash.Seed
	shards     [memoryShards]shard

	closed   atomic.Bool
	live     atomic.Int64 // records in all shards
	timer    *time.Timer  // of the sweeper
	sweeping sync.Mutex   // held by a sweep

	mu      sync.Mutex
	onSweep []func(removed int)
}

// A MemoryOption changes a default of [NewMemoryStore], which panics if the value makes no sense.
type MemoryOption func(*MemoryStore)

// WithMaxRecords bounds the number of live records to n, 1 or more. Past it a new key is refused with [ErrFull]; no record
// is removed to make room before it has expired. The default is no bound.
func WithMaxRecords(n int) MemoryOption {
	return func(s *MemoryStore) {
		wantOption(n >= 1, "WithMaxRecords", n, "1 or more")
		s.maxRecords = int64(n)
	}
}

// WithSweepInterval sets the time from one sweep to the next, more than 0. The default is a minute.
func WithSweepInterval(d time.Duration) MemoryOption {
	return func(s *MemoryStore) {
		wantOption(d > 0, "WithSweepInterval", d, "more than 0")
		s.interval = d
	}
}

// WithClock has leases and expiry measured by now, which is called by many goroutines at once. The sweep interval is real
// time all the same; see [MemoryStore.Sweep]. The default is [time.Now].
func WithClock(now func() time.Time) MemoryOption {
	return func(s *MemoryStore) {
		wantOption(now != nil, "WithClock", nil, "a function")
		s.now = now
	}
}

// NewMemoryStore returns an empty store. Close it after the server has shut down.
func NewMemoryStore(opts ...MemoryOption) *MemoryStore {
	s := &MemoryStore{
		now:        time.Now,
		interval:   defaultSweepInterval,
		maxRecords: math.MaxInt64,
		seed:       maphash.MakeSeed(),
	}
	for _, opt := range opts {
		opt(s)
	}
	s.timer = time.AfterFunc(math.MaxInt64, s.sweepOnTimer)
	s.timer.Stop() // until there is a record
	return s
}

// Claim implements [Store]. Its errors are [ErrClosed] and [ErrFull].
func (s *MemoryStore) Claim(_ context.Context, id ID, fingerprint [32]byte, lease, retention time.Duration) (Claim, error) {
	c, err := s.claim(id, fingerprint, lease, retention)
	if err == ErrFull { // perhaps of expired records that have not been swept
		s.Sweep()
		return s.claim(id, fingerprint, lease, retention)
	}
	return c, err
}

func (s *MemoryStore) claim(id ID, fingerprint [32]byte, lease, retention time.Duration) (Claim, error) {
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.closed.Load() {
		return Claim{}, ErrClosed
	}
	now := s.now()
	rec := sh.records[id]
	if rec != nil && !rec.free(now) {
		return rec.found(fingerprint), nil
	}
	expiry := now.Add(retention)
	if rec == nil {
		if !s.reserve() {
			return Claim{}, ErrFull
		}
		rec = sh.add(id.clone(), expiry)
	} else {
		sh.schedule(rec, expiry)
	}
	sh.tokens++
	rec.token = strconv.FormatUint(sh.tokens, 10)
	rec.fingerprint = fingerprint
	rec.leaseEnd, rec.expiry = now.Add(lease), expiry
	rec.answer = nil
	return Claim{State: Claimed, ID: id, Token: rec.token}, nil
}

// Begin implements [Store]. There is nothing to open: it returns ctx.
func (s *MemoryStore) Begin(ctx context.Context, _ Claim) (context.Context, error) { return ctx, nil }

// Renew implements [Store].
func (s *MemoryStore) Renew(_ context.Context, c Claim, lease time.Duration) error {
	return s.withHeld(c, func(_ *shard, rec *record) { rec.leaseEnd = s.now().Add(lease) })
}

// Complete implements [Store].
func (s *MemoryStore) Complete(_ context.Context, c Claim, a Answer) error {
	kept := a.clone()
	return s.withHeld(c, func(_ *shard, rec *record) { rec.answer = kept })
}

// Release implements [Store].
func (s *MemoryStore) Release(_ context.Context, c Claim) error {
	return s.withHeld(c, func(sh *shard, rec *record) {
		sh.remove(rec)
		s.live.Add(-1)
	})
}

// withHeld calls f, under the shard's lock, with the record that c holds, or returns ErrLost.
func (s *MemoryStore) withHeld(c Claim, f func(*shard, *record)) error {
	sh := s.shard(c.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rec := sh.records[c.ID]
	if rec == nil || rec.token != c.Token || rec.answer != nil {
		return ErrLost
	}
	f(sh, rec)
	return nil
}

// Len returns the number of records held, also of those that have expired and are not swept yet.
func (s *MemoryStore) Len() int { return int(s.live.Load()) }

// Close stops the sweeper and has every further claim refused with [ErrClosed]. A request in flight can still store its
// answer or release its key. Close may be called again, and by many goroutines at once.
func (s *MemoryStore) Close() {
	s.closed.Store(true)
	s.timer.Stop()
	s.sweeping.Lock() // a sweep under way sees closed, and soon ends
	defer s.sweeping.Unlock()
}

// reserve counts one record more, unless there are as many as there may be.
func (s *MemoryStore) reserve() bool {
	n := s.live.Add(1)
	if n > s.maxRecords {
		s.live.Add(-1)
		return false
	}
	if n == 1 {
		s.timer.Reset(s.interval)
	}
	return true
}

func (s *MemoryStore) shard(id ID) *shard {
	return &s.shards[maphash.Comparable(s.seed, id)%memoryShards]
}

// clone copies the parts: each may be a short piece of a long string, such as the request line.
func (id ID) clone() ID {
	all := id.Scope + id.Method + id.Path + id.Key
	cut := func(part string) (copied string) {
		copied, all = all[:len(part)], all[len(part):]
		return copied
	}
	return ID{Scope: cut(id.Scope), Method: cut(id.Method), Path: cut(id.Path), Key: cut(id.Key)}
}
