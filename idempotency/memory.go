package idempotency

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of [MemoryStore.Claim]. The middleware answers both with 503.
var (
	ErrClosed = errors.New("idempotency: the store is closed")
	ErrFull   = errors.New("idempotency: the store has as many records as it may")
)

const (
	memoryShards  = 256 // a power of two
	sweepInterval = time.Minute
	sweepStep     = 128 // records removed under one hold of a shard's lock
)

// A MemoryStore is a [Store] in the memory of one process: records are gone when the process is, and are not seen by
// another. It suits a single instance, and tests. It has no transactions. Use [NewMemoryStore]; the zero value is not
// ready. All methods may be called by many goroutines at once.
//
// Records are spread over shards with a lock each, so different keys seldom wait for each other.
type MemoryStore struct {
	now        func() time.Time
	interval   time.Duration
	maxRecords int64 // 0: no limit

	seed   maphash.Seed
	live   atomic.Int64 // records in all shards
	closed atomic.Bool
	shards [memoryShards]shard

	timer    *time.Timer // runs while there are records
	sweeping sync.Mutex  // held by a sweep, for Close to wait for
	onSweep  []func(removed int)
	onSweepM sync.Mutex
}

// A MemoryOption changes a default of [NewMemoryStore].
type MemoryOption func(*MemoryStore)

// WithMaxRecords bounds the number of records to n, at least 1. A new key past that is refused with [ErrFull], which
// the middleware answers with 503; nothing is evicted before it expires. The default is no bound.
func WithMaxRecords(n int) MemoryOption {
	return func(s *MemoryStore) {
		wantOption(n >= 1, "WithMaxRecords", n, "1 or more")
		s.maxRecords = int64(n)
	}
}

// WithSweepInterval sets how often expired records are removed. The default is a minute.
func WithSweepInterval(d time.Duration) MemoryOption {
	return func(s *MemoryStore) {
		wantOption(d > 0, "WithSweepInterval", d, "more than 0")
		s.interval = d
	}
}

// WithClock replaces [time.Now] as the clock that leases and expiry are measured on. The sweep interval is real time
// all the same. The function is called by many goroutines at once.
func WithClock(now func() time.Time) MemoryOption {
	return func(s *MemoryStore) {
		wantOption(now != nil, "WithClock", "nil", "a function")
		s.now = now
	}
}

// NewMemoryStore returns an empty store. Close it when the server has shut down.
func NewMemoryStore(opts ...MemoryOption) *MemoryStore {
	s := &MemoryStore{now: time.Now, interval: sweepInterval, seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].records = make(map[ID]*record)
	}
	for _, opt := range opts {
		opt(s)
	}
	s.timer = time.AfterFunc(s.interval, s.sweepOnTimer)
	s.timer.Stop()
	return s
}

// Claim implements [Store].
func (s *MemoryStore) Claim(_ context.Context, id ID, fingerprint [32]byte, lease, retention time.Duration) (Claim, error) {
	if s.closed.Load() {
		return Claim{}, ErrClosed
	}
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	rec := sh.records[id]
	if rec != nil && !rec.free(now) {
		return rec.found(fingerprint), nil
	}
	if rec == nil {
		if !s.reserve() {
			return Claim{}, ErrFull
		}
		rec = &record{id: id, index: -1}
	}
	sh.tokens++
	rec.fingerprint = fingerprint
	rec.token = strconv.FormatUint(sh.tokens, 36)
	rec.leaseEnd = now.Add(lease)
	rec.expiry = now.Add(retention)
	rec.answer = nil
	sh.put(rec)
	return Claim{State: Claimed, ID: id, Token: rec.token}, nil
}

// Begin implements [Store]. There is nothing to open: it returns ctx.
func (s *MemoryStore) Begin(ctx context.Context, _ Claim) (context.Context, error) { return ctx, nil }

// Renew implements [Store].
func (s *MemoryStore) Renew(_ context.Context, c Claim, lease time.Duration) error {
	sh := s.shard(c.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rec := sh.held(c)
	if rec == nil {
		return ErrLost
	}
	rec.leaseEnd = s.now().Add(lease)
	return nil
}

// Complete implements [Store].
func (s *MemoryStore) Complete(_ context.Context, c Claim, a Answer) error {
	kept := a.clone()
	sh := s.shard(c.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rec := sh.held(c)
	if rec == nil {
		return ErrLost
	}
	rec.answer = kept
	return nil
}

// Release implements [Store].
func (s *MemoryStore) Release(_ context.Context, c Claim) error {
	sh := s.shard(c.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rec := sh.held(c)
	if rec == nil {
		return ErrLost
	}
	sh.remove(rec)
	s.live.Add(-1)
	return nil
}

// Len returns the number of records held, those expired but not yet swept among them.
func (s *MemoryStore) Len() int { return int(s.live.Load()) }

// Close stops the sweeper and refuses further claims with [ErrClosed]. Requests in flight may still end. It may be
// called more than once, and by many goroutines at once.
func (s *MemoryStore) Close() {
	s.closed.Store(true)
	s.timer.Stop()
	s.sweeping.Lock() // a sweep under way sees closed and ends
	s.sweeping.Unlock()
}

// reserve counts one more record, unless there are as many as there may be.
func (s *MemoryStore) reserve() bool {
	n := s.live.Add(1)
	if s.maxRecords > 0 && n > s.maxRecords {
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

// A record is one operation. Without an answer it is in flight: it ends by its lease, not by its expiry.
type record struct {
	id          ID
	fingerprint [32]byte
	token       string
	leaseEnd    time.Time
	expiry      time.Time
	answer      *Answer // nil while in flight

	due   time.Time // when the sweeper looks at it
	index int       // in the shard's queue
}

// free reports whether another request may claim the record's key.
func (r *record) free(now time.Time) bool {
	if r.answer == nil {
		return !now.Before(r.leaseEnd)
	}
	return !now.Before(r.expiry)
}

// found returns the claim of a request that came second.
func (r *record) found(fingerprint [32]byte) Claim {
	switch {
	case r.fingerprint != fingerprint:
		return Claim{State: Mismatch, ID: r.id}
	case r.answer == nil:
		return Claim{State: InProgress, ID: r.id}
	}
	return Claim{State: Completed, ID: r.id, Answer: r.answer.clone()}
}

// A shard has the records of a part of all IDs, and a queue of them by when they are due to be swept.
type shard struct {
	mu      sync.Mutex
	records map[ID]*record
	queue   queue
	tokens  uint64
	peak    int // most records since the map was made
}

// held returns the record that c holds the claim on, or nil.
func (sh *shard) held(c Claim) *record {
	rec := sh.records[c.ID]
	if rec == nil || rec.token != c.Token || rec.answer != nil {
		return nil
	}
	return rec
}

func (sh *shard) put(rec *record) {
	rec.due = rec.expiry
	if rec.index >= 0 {
		heap.Fix(&sh.queue, rec.index)
		return
	}
	sh.records[rec.id] = rec
	heap.Push(&sh.queue, rec)
	sh.peak = max(sh.peak, len(sh.records))
}

func (sh *shard) remove(rec *record) {
	delete(sh.records, rec.id)
	heap.Remove(&sh.queue, rec.index)
}

// wantOption panics unless ok.
func wantOption(ok bool, option string, value any, want string) {
	if !ok {
		panic(fmt.Sprintf("idempotency: %s: %v: want %s", option, value, want))
	}
}
