package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/saferetry/saferetry/internal/memconn"
)

// A shop is a handler to be protected: it sells to those who are known, and does
// on demand what the checks need. Its effects are counted.
type shop struct {
	mu    sync.Mutex
	sales int
}

func (s *shop) count(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sales, nil
}

func (s *shop) sell() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sales++
	return s.sales
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var order map[string]any
	switch {
	case r.Method == http.MethodGet:
		n, _ := s.count(r.Context())
		fmt.Fprintf(w, `{"sales":%d}`, n)
		return
	case r.URL.Path != "/orders" || r.Method != http.MethodPost:
		http.Error(w, "no such thing", http.StatusNotFound)
		return
	case json.NewDecoder(r.Body).Decode(&order) != nil:
		http.Error(w, "not an order", http.StatusBadRequest)
		return
	case r.Header.Get("X-Fail") != "":
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	work(r.Context(), r.Header.Get("X-Slow"))
	n := s.sell()
	w.Header().Set("Location", fmt.Sprintf("/orders/order_%04d", n))
	w.Header().Set("Content-Type", "application/json")
	text := fmt.Appendf(nil, `{"id":"order_%04d","amount":%v}`, n, order["amount"])
	switch r.Header.Get("X-Answer") {
	case "large":
		text = fmt.Appendf(nil, `{"id":"order_%04d","note":"%s"}`, n, strings.Repeat("x", 100<<10))
	case "binary":
		text = append(text, 0, 0xff, 0xfe, 0x80)
	case "cookie":
		w.Header().Set("Set-Cookie", "session=secret")
	case "hop":
		w.Header().Set("Keep-Alive", "timeout=5")
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		text = zipped(text)
	}
	w.WriteHeader(http.StatusCreated)
	w.Write(text)
}

// work takes the time it is told, whatever the client does meanwhile.
func work(_ context.Context, d string) {
	if d, err := time.ParseDuration(d); err == nil {
		time.Sleep(d)
	}
}

func zipped(text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(text)
	z.Close()
	return b.Bytes()
}

// guard lets those through who are known.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer one", "Bearer two":
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "who are you?", http.StatusUnauthorized)
		}
	})
}

// limiter lets those through who do not ask to be too many.
func limiter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Limited") != "" {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func tenant(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }

// A clockwork is a clock that can be moved.
type clockwork struct {
	mu    sync.Mutex
	moved time.Duration
}

func (c *clockwork) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.moved)
}

func (c *clockwork) advance(_ context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved += d
	return nil
}

// serve serves h on connections in memory, and returns what reaches it.
func serve(t *testing.T, h http.Handler) *http.Transport {
	l := memconn.Listen()
	var running sync.WaitGroup // the server itself, and its handlers
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		h.ServeHTTP(w, r)
	})}
	running.Go(func() { server.Serve(l) })
	t.Cleanup(func() { server.Close(); running.Wait() })
	transport := NewTransport()
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) }
	return transport
}

func header(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func way(pairs ...string) *Way { return &Way{Header: header(pairs...)} }

// everything is a target of which all is known: a shop behind what build puts
// around it.
func everything(t *testing.T, profile Profile, clock *clockwork, build func(http.Handler) http.Handler) Target {
	s := &shop{}
	return Target{
		URL:         "http://localhost/orders",
		Header:      header("Authorization", "Bearer one", "X-Tenant", "1"),
		Body:        `{"amount":{{n}},"currency":"usd"}`,
		Profile:     profile,
		OtherCaller: header("Authorization", "Bearer two", "X-Tenant", "2"),
		Ways: Ways{
			Slow: way("X-Slow", "1s"), Error: way("X-Fail", "1"), Limited: way("X-Limited", "1"),
			Refused: way("Authorization", "Bearer nobody"), Large: way("X-Answer", "large"),
			Binary: way("X-Answer", "binary"), Cookie: way("X-Answer", "cookie"), HopByHop: way("X-Answer", "hop"),
		},
		Effects:   s.count,
		Advance:   clock.advance,
		Transport: serve(t, build(s)),
	}
}
