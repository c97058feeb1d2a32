package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

const (
	attemptTimeout = 500 * time.Millisecond
	lease          = 300 * time.Millisecond // of a claim that a crash has left
	meanUptime     = time.Second
	meanDowntime   = 50 * time.Millisecond
)

// mix makes attempts fail in every way that testserver knows. With those that
// meet a server which is down, or an operation still in progress, it is half of
// all.
var mix = map[testserver.Fault]float64{
	testserver.NeverSaw():                             0.07,
	testserver.CrashBeforeWrite():                     0.03,
	testserver.CrashAfterWrite():                      0.10,
	testserver.DropResponse(10):                       0.04,
	testserver.DropResponse(1000):                     0.02,
	testserver.Answer(503):                            0.09,
	testserver.Answer(429, "Retry-After-Ms", "20"):    0.06,
	testserver.Answer(400):                            0.01,
	testserver.FailAfterWrite(502):                    0.07,
	testserver.Stall(10 * time.Millisecond):           0.02,
	testserver.Stall(2 * attemptTimeout):              0.01,
	testserver.StallAfterWrite(10 * time.Millisecond): 0.02,
	testserver.StallAfterWrite(2 * attemptTimeout):    0.01,
}

// A round is a set of servers and their clients.
type round struct {
	seed     uint64
	stations []*station
	clients  []*client

	attempts, failed, kills atomic.Int64
}

// A station is a server and what all its clients share.
type station struct {
	server *testserver.Server
	client *http.Client
	asker  *http.Client // which is not in a hurry
}

func newRound(clients int, seed uint64) (*round, error) {
	r := &round{seed: seed}
	for i, opts := range [][]testserver.Option{nil, {testserver.WithTLS()}, {testserver.WithHTTP2()}} {
		server, err := testserver.Start(append(opts, testserver.WithLease(lease))...)
		if err != nil {
			return nil, err
		}
		server.Chaos(seed+uint64(i), mix)
		base := server.Client().Transport.(*http.Transport)
		base.DisableKeepAlives = false // as clients do
		base.MaxIdleConnsPerHost = clients
		client := &http.Client{Transport: base}
		r.stations = append(r.stations, &station{server, saferetry.NewClient(client,
			saferetry.WithMaxAttempts(6),
			saferetry.WithFullJitter(20*time.Millisecond, 200*time.Millisecond),
			saferetry.WithAttemptTimeout(attemptTimeout),
			saferetry.WithHooks(saferetry.Hooks{Attempt: r.count})), saferetry.NewClient(client)})
	}
	for i := range clients {
		r.clients = append(r.clients, &client{
			name:    fmt.Sprintf("cus_%d", i),
			station: r.stations[i%len(r.stations)],
			random:  rand.New(rand.NewPCG(seed, uint64(i))),
		})
	}
	return r, nil
}

func (r *round) count(a saferetry.Attempt) {
	r.attempts.Add(1)
	if a.Err != nil || a.Response.StatusCode >= 400 {
		r.failed.Add(1)
	}
}

// run lets the clients work for as long as length, and the servers fail. Then
// it clears up what is unknown, and adds to t what came of it all.
func (r *round) run(length time.Duration, t *tally) error {
	stop := make(chan struct{})
	time.AfterFunc(length, func() { close(stop) })
	errs := make(chan error, len(r.stations))
	var working sync.WaitGroup
	for i, s := range r.stations {
		working.Go(func() { errs <- r.kill(s.server, rand.New(rand.NewPCG(^r.seed, uint64(i))), stop) })
	}
	for _, c := range r.clients {
		working.Go(func() { c.work(stop) })
	}
	working.Wait()
	for range r.stations {
		if err := <-errs; err != nil {
			return err
		}
	}
	t.attempts += int(r.attempts.Load())
	t.failed += int(r.failed.Load())
	t.kills += int(r.kills.Load())
	for _, s := range r.stations {
		s.server.Chaos(0, nil)
	}
	for _, c := range r.clients {
		working.Go(c.askAgain)
	}
	working.Wait()
	for _, s := range r.stations {
		s.client.CloseIdleConnections()
		s.server.Close() // which waits for the requests that are still stalled
	}
	r.judge(t)
	return nil
}

// kill takes the server off the network and brings it back, again and again, and
// leaves it up.
func (r *round) kill(server *testserver.Server, random *rand.Rand, stop <-chan struct{}) error {
	for {
		if !pause(random, meanUptime, stop) {
			return nil
		}
		server.Down()
		r.kills.Add(1)
		goOn := pause(random, meanDowntime, stop)
		if err := server.Up(); err != nil || !goOn {
			return err
		}
	}
}

// pause takes between half of mean and twice as long as that; it is false when
// stopped.
func pause(random *rand.Rand, mean time.Duration, stop <-chan struct{}) bool {
	timer := time.NewTimer(mean/2 + time.Duration(random.Int64N(int64(mean))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}
