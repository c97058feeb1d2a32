package main

import (
	"math/rand/v2"
	"time"
)

// A simulation is the setting with one variant of the clients.
type simulation struct {
	variant
	random  *rand.Rand
	now     time.Duration
	queue   queue
	busy    time.Duration // until when the server has work
	clients [clients]client
	budgets [processes]bucket
	result  result
}

// A client makes one operation after the other.
type client struct {
	turn     int // counts its operations and pauses; what was meant for an earlier one does not happen
	attempts int // of the operation under way; 0 in a pause
	hit      bool
	reached  bool // served since the server came back
}

// simulate runs the variant. The same seed gives the same result.
func simulate(v variant, seed uint64) result {
	s := &simulation{variant: v, random: newRandom(seed), now: -warmup, busy: -warmup}
	s.result.variant = v
	for i := range s.budgets {
		s.budgets[i] = newBucket()
	}
	for i := range s.clients {
		s.after(s.uniform(0, (minPause+maxPause)/2), i, begin)
		s.after(warmup+s.uniform(0, noticeTime), i, reconnect)
	}
	for {
		e, ok := s.queue.next(horizon)
		if !ok {
			return s.result
		}
		s.now = e.at
		s.happen(e)
	}
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func (s *simulation) happen(e event) {
	c := &s.clients[e.client]
	switch {
	case e.kind == reconnect:
		if c.attempts == 0 { // there is an operation to make now
			s.begin(e.client)
		}
	case e.turn != c.turn:
	case e.kind == begin:
		s.begin(e.client)
	case e.kind == again:
		s.attempt(e.client)
	case e.kind == served:
		s.end(e.client, true)
	}
}

// begin starts an operation.
func (s *simulation) begin(i int) {
	c := &s.clients[i]
	c.turn++
	c.hit = s.isDown()
	if c.hit {
		s.result.operations++
	}
	s.budgets[i%processes].earn()
	s.attempt(i)
}

// attempt makes one attempt, and decides what follows if it is refused.
func (s *simulation) attempt(i int) {
	c := &s.clients[i]
	c.attempts++
	s.result.count(s.now, c.hit)
	switch {
	case s.accepts():
		s.after(s.busy-s.now, i, served)
	case c.attempts == s.maxAttempts, s.budgeted && !s.budgets[i%processes].spend():
		s.end(i, false)
	default:
		s.after(s.wait(c.attempts), i, again)
	}
}

// accepts decides whether the server takes on the work of an attempt. While it
// is down, a gateway refuses all of them.
func (s *simulation) accepts() bool {
	if s.isDown() {
		return false
	}
	s.busy = max(s.busy, s.now)
	if s.busy-s.now >= maxQueue {
		s.busy += refusalTime
		return false
	}
	s.busy += serviceTime
	return true
}

func (s *simulation) isDown() bool { return s.now >= 0 && s.now < outage }

// wait draws the wait after the n-th attempt as the client does: the server's
// Retry-After is a floor, with up to the base on top.
func (s *simulation) wait(n int) time.Duration {
	d := s.policy(s, n)
	if s.told {
		d = max(d, retryAfter+s.uniform(0, waitBase))
	}
	return d
}

// end ends the operation. After a pause the client makes another.
func (s *simulation) end(i int, ok bool) {
	c := &s.clients[i]
	if c.hit && !ok {
		s.result.failed++
	}
	if ok && !c.reached && s.now >= outage {
		c.reached = true
		s.result.reached++
		s.result.lastReached = s.now - outage
	}
	c.turn++
	c.attempts = 0
	s.after(s.uniform(minPause, maxPause), i, begin)
}

// uniform draws from [from, to].
func (s *simulation) uniform(from, to time.Duration) time.Duration {
	return from + time.Duration(s.random.Int64N(int64(to-from)+1))
}

func (s *simulation) after(d time.Duration, client int, kind eventKind) {
	s.queue.add(event{at: s.now + d, client: client, turn: s.clients[client].turn, kind: kind})
}
