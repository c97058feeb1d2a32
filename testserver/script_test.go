package testserver

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// statuses sends n requests and returns what they were answered with.
func statuses(t *testing.T, s *Server, n int, header ...string) (got []int) {
	t.Helper()
	for range n {
		got = append(got, do(t, s, s.Client(), http.MethodGet, "/v1/charges", "", header...).status)
	}
	return got
}

func TestScriptGivesOneFaultToEachRequestInOrder(t *testing.T) {
	s := New(t)
	s.Script(Answer(501), Answer(502))
	s.Script(None(), NeverSaw(), Answer(503))
	assert.Equal(t, []int{501, 502, 200, 0, 503, 200, 200}, statuses(t, s, 7))
	assert.Equal(t, "[answer=501 answer=502 none never-saw answer=503 none none]", fmt.Sprint(s.Faults()))
}

func TestAFaultInFrontOfAReplayStrikesToo(t *testing.T) {
	s := New(t)
	require.Equal(t, 201, charge(t, s, "k").status)
	for _, f := range []Fault{NeverSaw(), CrashBeforeWrite(), CrashAfterWrite()} {
		s.Script(f)
		assert.Error(t, charge(t, s, "k").err, f)
		assert.True(t, charge(t, s, "k").replayed(), f)
	}
	s.Script(DropResponse(10), FailAfterWrite(502), Answer(503))
	got := charge(t, s, "k")
	assert.True(t, got.replayed())
	assert.Equal(t, created[:10], got.body)
	assert.Equal(t, 502, charge(t, s, "k").status)
	assert.Equal(t, 503, charge(t, s, "k").status)
	assert.Equal(t, 1, s.Executions("k"))
}

func TestScriptKeyGoesBeforeTheServersScript(t *testing.T) {
	s := New(t)
	s.Script(Answer(501), Answer(502))
	s.ScriptKey("mine", None(), Answer(511))
	s.ScriptKey("mine", Answer(512))
	s.ScriptKey("", Answer(521))
	mine := []string{"Idempotency-Key", `"mine"`} // quoted: the same key
	assert.Equal(t, []int{200, 511}, statuses(t, s, 2, mine...))
	assert.Equal(t, []int{521, 501}, statuses(t, s, 2), "a request without a key")
	assert.Equal(t, []int{512, 502, 200}, statuses(t, s, 3, mine...), "then the server's")
}

func TestARequestBringsItsOwnFault(t *testing.T) {
	s := New(t)
	s.Script(Answer(501))
	s.ScriptKey("k", Answer(502))
	assert.Equal(t, []int{503, 503}, statuses(t, s, 2, "X-Fault", "answer=503"))
	assert.Equal(t, []int{200}, statuses(t, s, 1, "X-Fault", "none"), "takes nothing from the scripts")
	assert.Equal(t, []int{501, 200}, statuses(t, s, 2, "X-Fault", ""), "an empty one is none")

	got := do(t, s, s.Client(), http.MethodGet, "/v1/charges", "", "X-Fault", "crash")
	got.requireError(t, 400, "fault_invalid")
	assert.Contains(t, got.body, "want one of none, never-saw")
	assert.Len(t, s.Requests(), 6)
}

// A client that retries by itself sends the same header with every attempt.
func TestTheAttemptsUnderAKeyTakeTheFaultsTheyBringInTurn(t *testing.T) {
	s := New(t)
	a := []string{"X-Fault", "answer=501, answer=502", "X-Fault", "none", "Idempotency-Key", "a"}
	b := []string{"X-Fault", "answer=503,none", "Idempotency-Key", "b"}
	assert.Equal(t, []int{501, 502}, statuses(t, s, 2, a...))
	assert.Equal(t, []int{503, 200}, statuses(t, s, 2, b...))
	assert.Equal(t, []int{200, 200}, statuses(t, s, 2, a...), "the last stays")
	assert.Equal(t, []int{501, 501}, statuses(t, s, 2, "X-Fault", "answer=501,none"), "nothing ties requests without a key")
}

var mix = map[Fault]float64{
	NeverSaw():          0.1,
	CrashAfterWrite():   0.2,
	Answer(503):         0.3,
	FailAfterWrite(502): 0,
}

func TestChaosIsTheSameForTheSameSeed(t *testing.T) {
	draw := func(seed uint64) (faults []Fault) {
		c := newChaos(seed, mix)
		for range 1000 {
			faults = append(faults, c.draw())
		}
		return faults
	}
	assert.Equal(t, draw(1), draw(1))
	assert.NotEqual(t, draw(1), draw(2))
}

func TestChaosDrawsEachFaultWithItsProbability(t *testing.T) {
	const n = 100_000
	c := newChaos(7, mix)
	counts := make(map[Fault]int)
	for range n {
		counts[c.draw()]++
	}
	for f, p := range mix {
		assert.InDelta(t, p*n, counts[f], 0.01*n, f)
	}
	assert.InDelta(t, 0.4*n, counts[None()], 0.01*n)
}

func TestChaosReachesTheProbabilityOne(t *testing.T) {
	tenths := make(map[Fault]float64)
	for i := range 10 {
		tenths[Answer(500+i)] = 0.1
	}
	c := newChaos(7, tenths)
	for range 10_000 {
		require.NotEqual(t, None(), c.draw())
	}
}

func TestChaosComesAfterTheScriptsUntilItIsEnded(t *testing.T) {
	s := New(t)
	s.Chaos(1, map[Fault]float64{Answer(503): 1})
	s.Script(Answer(501))
	s.ScriptKey("k", Answer(502))
	assert.Equal(t, []int{502, 501, 503, 503}, statuses(t, s, 4, "Idempotency-Key", "k"))
	s.Chaos(1, map[Fault]float64{Answer(504): 1})
	assert.Equal(t, []int{504}, statuses(t, s, 1))
	s.Chaos(1, nil)
	assert.Equal(t, []int{200}, statuses(t, s, 1))
}

func TestAWrongMixPanics(t *testing.T) {
	s := New(t, WithoutListener())
	for want, mix := range map[string]map[Fault]float64{
		"testserver: Chaos: never-saw: -0.1: want a probability from 0 to 1": {NeverSaw(): -0.1},
		"testserver: Chaos: never-saw: 1.1: want a probability from 0 to 1":  {NeverSaw(): 1.1},
		"testserver: Chaos: never-saw: NaN: want a probability from 0 to 1":  {NeverSaw(): math.NaN()},
		"testserver: Chaos: 1.5: want probabilities of at most 1 in all":     {NeverSaw(): 0.75, None(): 0.75},
	} {
		assert.PanicsWithValue(t, want, func() { s.Chaos(1, mix) })
	}
}

// Each fault strikes exactly one request, also when they come all at once.
func TestConcurrentRequestsTakeEachFaultOnce(t *testing.T) {
	s := New(t, WithoutListener())
	const n = 200
	for i := range n {
		s.Script(Answer(300 + i))
	}
	got := make([]int, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { got[i] = do(t, s, s.Client(), http.MethodGet, "/v1/charges", "").status })
	}
	all.Wait()
	seen := make(map[int]bool)
	for _, status := range got {
		seen[status] = true
	}
	assert.Len(t, seen, n)
}
