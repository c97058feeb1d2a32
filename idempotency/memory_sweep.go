package idempotency

import "time"

// sweepStep is how many records are looked at under one hold of a shard's lock.
const sweepStep = 128

// Sweep removes the records that have expired and returns how many there were. The store does so by itself, at its sweep
// interval; call Sweep to have it done after moving a clock of your own. It goes in steps of at most 128 records, with
// claims going on in between.
//
// A record in progress goes only when both its lease and its retention have ended. On a closed store Sweep does nothing.
func (s *MemoryStore) Sweep() int {
	removed := s.sweep()
	if removed > 0 {
		s.mu.Lock()
		observers := s.onSweep
		s.mu.Unlock()
		for _, f := range observers {
			f(removed)
		}
	}
	return removed
}

// OnSweep implements [SweepReporter].
func (s *MemoryStore) OnSweep(f func(removed int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onSweep = append(s.onSweep, f)
}

// sweepOnTimer sweeps, and sees to the next time if there are records left.
func (s *MemoryStore) sweepOnTimer() {
	s.Sweep()
	if s.live.Load() > 0 && !s.closed.Load() {
		s.timer.Reset(s.interval)
	}
}

func (s *MemoryStore) sweep() (removed int) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	for i := range s.shards {
		for more := true; more && !s.closed.Load(); {
			var n int
			n, more = s.shards[i].sweep(s.now())
			s.live.Add(int64(-n))
			removed += n
		}
	}
	return removed
}

// sweep is one step. more says that there may be further records to remove.
func (sh *shard) sweep(now time.Time) (removed int, more bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for range sweepStep {
		if len(sh.queue) == 0 || now.Before(sh.queue[0].due) {
			sh.shrink()
			return removed, false
		}
		rec := sh.queue[0]
		if rec.free(now) {
			sh.remove(rec)
			removed++
		} else { // in progress past its expiry
			sh.schedule(rec, rec.leaseEnd)
		}
	}
	return removed, true
}
