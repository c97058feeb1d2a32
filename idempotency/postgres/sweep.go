package postgres

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/saferetry/saferetry/idempotency"
)

// sweepBatch is how many rows a sweep removes in one statement, and so in one transaction.
const sweepBatch = 500

// Sweep removes the records that have expired, the claims among them whose lease has ended, and the intents of [Foreign]
// that are settled and expired. It returns how many records there were. The store does so by itself at
// [WithSweepInterval]; it is for those who would rather do it from a job of their own.
//
// It goes in batches of 500, each a transaction of its own that leaves out what another one has locked: sweeps of many
// processes share the work, and a claim waits for a sweep only if it is for one of the records being removed, as long as
// that takes.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	records, err := s.sweep(ctx, s.sql.sweepKeys)
	if err == nil {
		_, err = s.sweep(ctx, s.sql.sweepIntents)
	}
	if records > 0 {
		s.sweeper.tell(records)
	}
	return records, err
}

func (s *Store) sweep(ctx context.Context, sql string) (removed int, err error) {
	for {
		tag, err := exec(ctx, s.pool, sql, sweepBatch)
		if err != nil {
			return removed, err
		}
		removed += int(tag.RowsAffected())
		if tag.RowsAffected() < sweepBatch {
			return removed, nil
		}
	}
}

// OnSweep implements [idempotency.SweepReporter].
func (s *Store) OnSweep(f func(removed int)) {
	s.sweeper.mu.Lock()
	defer s.sweeper.mu.Unlock()
	s.sweeper.observers = append(s.sweeper.observers, f)
}

// A sweeper sweeps a store at intervals, from the first claim until it is closed. Between sweeps it is a timer.
type sweeper struct {
	store  *Store
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	timer     *time.Timer // nil before the first claim
	running   sync.WaitGroup
	observers []func(removed int)
}

func (w *sweeper) init(s *Store) {
	w.store = s
	w.ctx, w.cancel = context.WithCancel(context.Background())
}

// start sets the timer, if it is not set, or fails if the store is closed.
func (w *sweeper) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return idempotency.ErrClosed
	}
	if w.timer == nil && w.store.sweepInterval > 0 {
		w.timer = time.AfterFunc(w.store.sweepInterval, w.run)
	}
	return nil
}

func (w *sweeper) run() {
	w.mu.Lock()
	if w.ctx.Err() != nil {
		w.mu.Unlock()
		return
	}
	w.running.Add(1)
	w.mu.Unlock()
	defer w.running.Done()

	if _, err := w.store.Sweep(w.ctx); err != nil && w.ctx.Err() == nil && w.store.logger != nil {
		w.store.logger.LogAttrs(w.ctx, slog.LevelError, "postgres: a sweep failed", slog.Any("error", err))
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() == nil {
		w.timer.Reset(w.store.sweepInterval)
	}
}

func (w *sweeper) tell(removed int) {
	w.mu.Lock()
	observers := w.observers
	w.mu.Unlock()
	for _, f := range observers {
		f(removed)
	}
}

// close ends the sweeping, and waits for the sweep under way.
func (w *sweeper) close() {
	w.mu.Lock()
	w.cancel()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.running.Wait()
}
