package idempotency

import (
	"container/heap"
	"maps"
	"slices"
	"sync"
	"time"
)

// A record is one operation. While it has no answer it is in progress: it ends by its lease, not by its expiry.
type record struct {
	id          ID
	token       string
	fingerprint [32]byte
	leaseEnd    time.Time
	expiry      time.Time
	answer      *Answer

	due   time.Time // when the sweeper is to look at it
	index int       // in the shard's queue
}

// free reports whether a claim finds nothing in the way.
func (r *record) free(now time.Time) bool {
	if r.answer == nil {
		return !now.Before(r.leaseEnd)
	}
	return !now.Before(r.expiry)
}

// found is what a claim finds in the way.
func (r *record) found(fingerprint [32]byte) Claim {
	switch {
	case r.fingerprint != fingerprint:
		return Claim{State: Mismatch, ID: r.id}
	case r.answer == nil:
		return Claim{State: InProgress, ID: r.id}
	}
	return Claim{State: Completed, ID: r.id, Answer: r.answer.clone()}
}

// A shard has a part of all records, and a queue of them in the order in which they are due to be swept. Both are
// guarded by mu.
type shard struct {
	mu      sync.Mutex
	records map[ID]*record // nil until the first one
	queue   queue
	tokens  uint64  // how many were given out
	peak    int     // the most records there were in this map
	_       [8]byte // a cache line to itself
}

func (sh *shard) add(id ID, due time.Time) *record {
	if sh.records == nil {
		sh.records = make(map[ID]*record)
	}
	rec := &record{id: id, due: due}
	sh.records[id] = rec
	sh.peak = max(sh.peak, len(sh.records))
	heap.Push(&sh.queue, rec)
	return rec
}

func (sh *shard) remove(rec *record) {
	delete(sh.records, rec.id)
	heap.Remove(&sh.queue, rec.index)
}

// schedule has the sweeper look at rec when due.
func (sh *shard) schedule(rec *record, due time.Time) {
	rec.due = due
	heap.Fix(&sh.queue, rec.index)
}

// shrink gives memory back when most of the records are gone; a Go map never does so by itself. What it copies is less
// than a third of what went before it.
func (sh *shard) shrink() {
	if sh.peak < 16 || len(sh.records) > sh.peak/4 {
		return
	}
	records := make(map[ID]*record, len(sh.records))
	maps.Copy(records, sh.records)
	sh.records, sh.queue = records, slices.Clone(sh.queue)
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
	return rec
}
