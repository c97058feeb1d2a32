package main

import (
	"container/heap"
	"time"
)

type eventKind int

const (
	begin     eventKind = iota // an operation
	again                      // the next attempt of one
	served                     // the server has done its work
	reconnect                  // the client finds its connection gone
)

// An event is something that will happen to a client, unless its turn is over
// by then.
type event struct {
	at     time.Duration
	number int // orders events of the same moment
	client int
	turn   int
	kind   eventKind
}

// A queue has the events to come. The zero value is empty.
type queue struct {
	events byTime
	made   int
}

func (q *queue) add(e event) {
	q.made++
	e.number = q.made
	heap.Push(&q.events, e)
}

// next takes out the earliest event, if it is before end.
func (q *queue) next(end time.Duration) (e event, ok bool) {
	if len(q.events) == 0 || q.events[0].at >= end {
		return event{}, false
	}
	return heap.Pop(&q.events).(event), true
}

// byTime is a heap with the earliest event on top.
type byTime []event

func (b byTime) Len() int      { return len(b) }
func (b byTime) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b byTime) Less(i, j int) bool {
	return b[i].at < b[j].at || b[i].at == b[j].at && b[i].number < b[j].number
}

func (b *byTime) Push(x any) { *b = append(*b, x.(event)) }

func (b *byTime) Pop() any {
	last := len(*b) - 1
	x := (*b)[last]
	*b = (*b)[:last]
	return x
}
