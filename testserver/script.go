package testserver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// A script decides which fault the next request gets. It is not safe for
// concurrent use.
type script struct {
	faults []Fault            // for whichever request comes
	byKey  map[string][]Fault // for the requests under one key
	turns  map[turn]int       // how many requests have brought these faults of their own
	chaos  *chaos             // once the scripts are done
	taken  []Fault
}

// A turn is what numbers the requests that bring faults along.
type turn struct{ key, faults string }

// next returns the fault for the request that has arrived under key ("" for
// none), and which brought the faults own. Faults come from the first of these
// that has any: the request itself, its key's script, the script, chaos.
func (s *script) next(key string, own []Fault) Fault {
	f := s.choose(key, own)
	s.taken = append(s.taken, f)
	return f
}

func (s *script) choose(key string, own []Fault) Fault {
	switch {
	case len(own) > 0:
		return s.turn(key, own)
	case len(s.byKey[key]) > 0:
		f := s.byKey[key][0]
		s.byKey[key] = s.byKey[key][1:]
		return f
	case len(s.faults) > 0:
		f := s.faults[0]
		s.faults = s.faults[1:]
		return f
	case s.chaos != nil:
		return s.chaos.draw()
	}
	return None()
}

// turn returns the fault of own whose turn it is under key. The last stays.
func (s *script) turn(key string, own []Fault) Fault {
	if key == "" {
		return own[0]
	}
	if s.turns == nil {
		s.turns = make(map[turn]int)
	}
	t := turn{key, fmt.Sprint(own)}
	n := s.turns[t]
	s.turns[t]++
	return own[min(n, len(own)-1)]
}

func (s *script) appendTo(key string, faults []Fault) {
	if s.byKey == nil {
		s.byKey = make(map[string][]Fault)
	}
	s.byKey[key] = append(s.byKey[key], faults...)
}

// chaos draws faults at random, each with its probability.
type chaos struct {
	random *rand.Rand
	faults []Fault
	upTo   []float64 // the sum of the probabilities up to and with this fault's
}

// newChaos panics if a probability is not from 0 to 1, or their sum is over 1.
func newChaos(seed uint64, mix map[Fault]float64) *chaos {
	c := &chaos{random: rand.New(rand.NewPCG(seed, 0))}
	// In a fixed order, which a map has not: the same seed draws the same.
	c.faults = slices.SortedFunc(maps.Keys(mix), func(a, b Fault) int {
		return strings.Compare(a.String(), b.String())
	})
	sum := 0.0
	for _, f := range c.faults {
		p := mix[f]
		if !(p >= 0 && p <= 1) { // NaN is not
			panic(fmt.Sprintf("testserver: Chaos: %s: %v: want a probability from 0 to 1", f, p))
		}
		sum += p
		c.upTo = append(c.upTo, sum)
	}
	if sum > 1+1e-9 { // ten times 0.1 is a little off
		panic(fmt.Sprintf("testserver: Chaos: %v: want probabilities of at most 1 in all", sum))
	}
	return c
}

// draw takes one random number, whatever comes of it.
func (c *chaos) draw() Fault {
	x := c.random.Float64()
	for i, f := range c.faults {
		if x < c.upTo[i] {
			return f
		}
	}
	return None()
}

// Script appends faults to the server's script: each request to come, in the
// order they arrive, takes the next one. After the last there are no faults.
//
// Every request takes one: a GET, a retry, one that is answered by a replay, and
// those that net/http repeats on its own when a reused connection dies.
func (s *Server) Script(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script.faults = append(s.script.faults, faults...)
}

// ScriptKey appends faults to the script of the requests under key (bare,
// without quotes), whatever their path. It goes before the server's own script:
// while it lasts, requests under key take nothing from that one. The empty key
// stands for requests without one.
func (s *Server) ScriptKey(key string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script.appendTo(key, faults)
}

// Chaos gives each request that no script has a fault for, a random one of mix,
// which has the probability of each; what is left to 1 is None. The n-th such
// request to arrive gets the same fault whenever seed and mix are the same. An
// empty mix ends the chaos, another one replaces it.
//
//	server.Chaos(42, map[testserver.Fault]float64{
//		testserver.NeverSaw():        0.05,
//		testserver.CrashAfterWrite(): 0.05,
//		testserver.Answer(503):       0.10,
//	})
//
// It panics if a probability is not from 0 to 1, or if their sum is over 1.
func (s *Server) Chaos(seed uint64, mix map[Fault]float64) {
	var c *chaos
	if len(mix) > 0 {
		c = newChaos(seed, mix)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script.chaos = c
}

// Faults returns what each request that has arrived was given, in order, those
// that NeverSaw kept out of Requests among them. Printed with %v it is a line
// that ParseScript reads.
func (s *Server) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.script.taken)
}
