package testserver

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/saferetry/saferetry/idempotency"
)

// A Server is a running reference server. Its methods may be called by many
// goroutines at once. Use New or Start; the zero value is not ready.
type Server struct {
	// URL is where the server is reached, without a final slash:
	// http://127.0.0.1:41234, or http://testserver without a listener; https
	// with TLS.
	URL string

	config     config
	ledger     *ledger
	store      *store
	operations http.Handler // the API behind the middleware
	control    http.Handler // what is under /_/
	network    *network
	advanced   atomic.Int64 // by how much, a time.Duration

	mu       sync.Mutex
	script   script
	arrivals []*arrival

	ctx      context.Context // done once Close has begun
	cancel   context.CancelFunc
	entry    sync.Mutex // orders enter and Close
	inFlight sync.WaitGroup
}

// New starts a server that is closed when the test ends. If it cannot, the test
// fails at once.
func New(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s, err := Start(opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Start starts a server that the caller closes. It fails if it cannot listen on
// its address.
func Start(opts ...Option) (*Server, error) {
	s := &Server{config: newConfig(opts), ledger: newLedger()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.control = s.controlHandler()
	s.store = &store{MemoryStore: idempotency.NewMemoryStore(idempotency.WithClock(s.now)), ledger: s.ledger}
	protect := idempotency.Middleware(s.store, s.config.tenant,
		idempotency.WithRetention(s.config.retention), idempotency.WithLease(s.config.lease))
	s.operations = protect((&api{ledger: s.ledger, tenant: s.config.tenant, latency: s.config.latency}).handler())

	var err error
	if s.network, err = newNetwork(s.config, s.Handler()); err != nil {
		s.Close()
		return nil, err
	}
	s.URL = s.network.url
	return s, nil
}

// Handler returns what the server serves: the API, its faults, and the control
// under /_/. It can be mounted in another net/http server, or called directly.
// A fault that ends the connection takes it over if it can be hijacked, and
// panics with http.ErrAbortHandler, which net/http servers expect.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Advance moves the server's clock, on which leases end and records expire, by d;
// a negative d moves it back. It is the real clock until then. Stalls, latency
// and Request.At stay on the real clock.
func (s *Server) Advance(d time.Duration) { s.advanced.Add(int64(d)) }

func (s *Server) now() time.Time { return time.Now().Add(time.Duration(s.advanced.Load())) }

// enter reports whether the server is open. If so the caller has inFlight.Done to
// call.
func (s *Server) enter() bool {
	s.entry.Lock()
	defer s.entry.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.inFlight.Add(1)
	return true
}

// Close ends the server: its listeners, its connections, and the requests being
// handled, stalled ones at once. When it returns nothing of the server is running
// any more. What it recorded can still be asked for. Closing twice is fine.
func (s *Server) Close() {
	s.entry.Lock()
	s.cancel()
	s.entry.Unlock()
	if s.network != nil {
		s.network.close()
	}
	s.inFlight.Wait()
	s.store.Close()
}
