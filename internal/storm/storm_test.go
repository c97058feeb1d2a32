package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// simulated runs all simulations, once for all tests.
var simulated = sync.OnceValues(simulateBoth)

func TestTheDocumentsAreWhatThisCodeMakes(t *testing.T) {
	for name, made := range documents(simulated()) {
		kept, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		require.NoError(t, err)
		assert.True(t, string(made) == string(kept), "docs/%s is not what go run ./internal/storm makes", name)
	}
}

func TestTheChartIsWellFormed(t *testing.T) {
	_, few := simulated()
	d := xml.NewDecoder(strings.NewReader(string(chart(few))))
	for {
		_, err := d.Token()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
	}
}

func TestWhatHoldsInEverySimulation(t *testing.T) {
	many, few := simulated()
	for _, r := range append(many, few...) {
		name := fmt.Sprintf("%s, told %v, %d attempts", r.name, r.told, r.maxAttempts)
		assert.Equal(t, clients, r.reached, "%s: all clients are served in the end", name)
		assert.GreaterOrEqual(t, r.lastReached, clients*serviceTime, "%s: no faster than the server can", name)
		assert.LessOrEqual(t, r.attempts, r.maxAttempts*r.operations, name)
		assert.LessOrEqual(t, r.failed, r.operations, name)
		if r.budgeted {
			assert.LessOrEqual(t, r.attempts-r.operations, r.operations/10+processes*budgetBurst, "%s: retries earned or saved", name)
		}
	}
}

func TestTheServerDoesNoMoreThanItsCapacity(t *testing.T) {
	s := &simulation{now: outage, busy: outage}
	accepted := 0
	for ; s.now < outage+10*time.Second; s.now += serviceTime / 4 { // four times what it can do
		if s.accepts() {
			accepted++
		}
	}
	assert.Less(t, accepted, 11*capacity, "ten seconds of work, and the queue")
	assert.Greater(t, accepted, 7*capacity, "refusing three of four costs three tenths")
}

// The model's policies and budget stand for the client's. Here the client
// itself makes the operations of one process in an outage, in a synctest
// bubble, and the model the same.
func TestTheModelDoesWhatTheClientDoes(t *testing.T) {
	const operations = 300
	for _, v := range []variant{
		{"no jitter", noJitter, false, false, fewAttempts},
		{"full jitter", fullJitter, false, false, manyAttempts},
		{"full jitter", fullJitter, false, true, manyAttempts},
		{"full jitter, budget", fullJitter, true, false, manyAttempts},
	} {
		var real, waited int
		synctest.Test(t, func(t *testing.T) { real, waited = clientInOutage(t, v, operations) })
		model, modelWaited := modelInOutage(v, operations)
		assert.Equal(t, model, real, "attempts, %s, told %v", v.name, v.told)
		switch {
		case v.name == "no jitter":
			assert.Equal(t, modelWaited, waited, "milliseconds waited, %s", v.name)
		case !v.budgeted: // too few waits to compare their mean
			assert.InEpsilon(t, modelWaited, waited, 0.1, "milliseconds waited, %s, told %v", v.name, v.told)
		}
	}
}

// clientInOutage makes operations, one after the other, with a client set up as
// v says, for a server that refuses all, and returns the attempts and the
// milliseconds waited.
func clientInOutage(t *testing.T, v variant, operations int) (attempts, waited int) {
	opts := []saferetry.Option{saferetry.WithMaxAttempts(v.maxAttempts), saferetry.WithFullJitter(waitBase, waitMax)}
	if v.name == "no jitter" {
		opts = append(opts, saferetry.WithBackOff(func() backoff.BackOff {
			return backoff.NewExponentialBackOff(backoff.WithInitialInterval(waitBase), backoff.WithMaxInterval(waitMax),
				backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0))
		}))
	}
	if v.budgeted {
		opts = append(opts, saferetry.WithBudget(saferetry.NewBudget(budgetRatio, budgetBurst)))
	}
	transport := saferetry.NewTransport(refusing(v.told), opts...)
	for range operations {
		req, err := http.NewRequest(http.MethodPost, "http://server/", nil)
		require.NoError(t, err)
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		report, ok := saferetry.ReportOf(resp, err)
		require.True(t, ok)
		attempts += report.Attempts
		waited += int(report.Waited.Milliseconds())
	}
	return attempts, waited
}

// refusing is a base transport to a server that is down.
type refusing bool

func (told refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get(saferetry.KeyHeader) == "" {
		return nil, errors.New("no key")
	}
	h := make(http.Header)
	if told {
		h.Set("Retry-After", "2")
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: h, Body: http.NoBody}, nil
}

// modelInOutage is clientInOutage by the model's rules.
func modelInOutage(v variant, operations int) (attempts, waited int) {
	s := &simulation{variant: v, random: newRandom(seed)}
	s.budgets[0] = newBucket()
	for range operations {
		c := &s.clients[0]
		s.now = 0
		s.begin(0)
		for c.attempts > 0 {
			e, _ := s.queue.next(horizon)
			waited += int((e.at - s.now).Milliseconds())
			s.now = 0 // the outage lasts
			s.attempt(0)
		}
		s.queue = queue{}
	}
	return s.result.attempts, waited
}
