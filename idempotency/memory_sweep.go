package idempotency

import (
	"container/heap"
	"maps"
	"time"
)

// Sweep removes the records that have expired and returns how many there were. The store does so by itself; call it
// to see memory go down at once, after moving a clock given to [WithClock].
//
// It goes in steps: a shard's lock is held for at most 128 records, and claims go on in between.
func (s *MemoryStore) Sweep() int {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	removed := 0
	for i := range s.shards {
		for !s.closed.Load() {
			n, more := s.shards[i].sweep(s.now())
			s.live.Add(int64(-n))
			removed += n
			if !more {
				break
			}
		}
	}
	if removed > 0 {
		s.tellSwept(removed)
	}
	return removed
}

// OnSweep has f called after every sweep that removed something, with the number of records.
func (s *MemoryStore) OnSweep(f func(removed int)) {
	s.onSweepM.Lock()
	defer s.onSweepM.Unlock()
	s.onSweep = append(s.onSweep, f)
}

func (s *MemoryStore) tellSwept(removed int) {
	s.onSweepM.Lock()
	observers := s.onSweep
	s.onSweepM.Unlock()
	for _, f := range observers {
		f(removed)
	}
}

// sweepOnTimer runs while there are records.
func (s *MemoryStore) sweepOnTimer() {
	s.Sweep()
	if s.live.Load() > 0 && !s.closed.Load() {
		s.timer.Reset(s.interval)
	}
}

// sweep removes at most sweepStep records that are due, and reports whether there may be more.
func (sh *shard) sweep(now time.Time) (removed int, more bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for range sweepStep {
		if len(sh.queue) == 0 || now.Before(sh.queue[0].due) {
			sh.shrink()
			return removed, false
		}
		rec := sh.queue[0]
		if !rec.free(now) { // in flight past its expiry: look again when its lease ends
			rec.due = rec.leaseEnd
			heap.Fix(&sh.queue, 0)
			continue
		}
		sh.remove(rec)
		removed++
	}
	return removed, true
}

// shrink gives memory back after most records have gone: a Go map never does so by itself.
func (sh *shard) shrink() {
	if sh.peak < 16 || len(sh.records) > sh.peak/4 {
		return
	}
	records := make(map[ID]*record, len(sh.records))
	maps.Copy(records, sh.records)
	sh.records = records
	sh.queue = append(queue(nil), sh.queue...)
	sh.peak = len(records)
}

// A queue is a heap of records by when they are due.
type queue []*record

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	rec := x.(*record)
	rec.index = len(*q)
	*q = append(*q, rec)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	rec := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	rec.index = -1
	return rec
}
