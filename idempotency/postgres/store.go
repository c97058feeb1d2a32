package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency"
)

// A Store is an [idempotency.Store] on PostgreSQL, shared by every process that uses the same tables. Use [New]; the zero
// value is not ready. All methods may be called by many goroutines at once.
type Store struct {
	config
	pool    *pgxpool.Pool
	sql     statements
	reserve reserve
	running sync.Map // token of a claim: *operation, from Begin until Complete or Release
	sweeper sweeper
}

var _ idempotency.Store = (*Store)(nil)
var _ idempotency.SweepReporter = (*Store)(nil)

// New returns a store on the database that pool connects to. The pool stays the caller's, who closes it after the
// store. Nothing is sent before the first call: see [Store.Migrate] for the tables.
//
// The store keeps to the pool's connections, but for at most two of its own, opened with the pool's configuration when
// first needed and closed when they are idle: renewals go over them, and so do the records of [Foreign] while the
// handler has its transaction open. Thus a pool of any size, one connection included, cannot come to a standstill
// with every connection held by a handler that waits for another.
func New(pool *pgxpool.Pool, opts ...Option) *Store {
	wantOption(pool != nil, "New", "nil", "a pool")
	s := &Store{config: newConfig(opts), pool: pool}
	s.sql = newStatements(&s.config)
	s.reserve.parent = pool
	s.sweeper.init(s)
	return s
}

// Close stops the sweeper and has every further claim refused with [idempotency.ErrClosed]. Requests in flight can still
// end, except that their leases are not renewed any more: shut the server down first. It may be called more than once.
// The pool is left open.
func (s *Store) Close() {
	s.sweeper.close()
	s.reserve.close()
}

// reserveConns is how many connections a store opens beside its pool, at most. Each is held for one short statement at a
// time, so one would do to keep things going; the second is for when the first waits for a commit.
const reserveConns = 2

// A reserve is a small pool that no handler can hold a connection of.
type reserve struct {
	parent *pgxpool.Pool

	mu     sync.Mutex
	pool   *pgxpool.Pool // nil until first needed
	closed bool
}

// get returns the pool, which it opens if need be.
func (r *reserve) get(ctx context.Context) (*pgxpool.Pool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, idempotency.ErrClosed
	}
	if r.pool == nil {
		c := r.parent.Config()
		c.MaxConns, c.MinConns, c.MinIdleConns = reserveConns, 0, 0
		c.MaxConnIdleTime = min(c.MaxConnIdleTime, time.Minute)
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), c)
		if err != nil {
			return nil, err
		}
		r.pool = pool
	}
	return r.pool, nil
}

func (r *reserve) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.pool != nil {
		r.pool.Close()
		r.pool = nil
	}
}

// ErrRolledBack is in the chain of the error of [Store.Complete] when it is certain that the transaction was rolled back.
// The key is free then.
var ErrRolledBack = errors.New("postgres: the transaction was rolled back")
