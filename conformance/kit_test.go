package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
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

// door lets those through who are known and not too many.
func door(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := caller(r); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if r.Header.Get("X-Limited") != "" {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func caller(r *http.Request) (string, error) {
	switch who := r.Header.Get("Authorization"); who {
	case "Bearer one", "Bearer two":
		return who, nil
	}
	return "", errors.New("who are you?")
}

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
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
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

// everything is a target of which all is known, behind protect.
func everything(t *testing.T, profile Profile, clock *clockwork, protect func(http.Handler) http.Handler) Target {
	s := &shop{}
	return Target{
		URL:         "http://localhost/orders",
		Header:      header("Authorization", "Bearer one"),
		Body:        `{"amount":{{n}},"currency":"usd"}`,
		Profile:     profile,
		OtherCaller: header("Authorization", "Bearer two"),
		Ways: Ways{
			Slow: way("X-Slow", "1s"), Error: way("X-Fail", "1"), Limited: way("X-Limited", "1"),
			Refused: way("Authorization", "Bearer nobody"), Large: way("X-Answer", "large"),
			Binary: way("X-Answer", "binary"), Cookie: way("X-Answer", "cookie"), HopByHop: way("X-Answer", "hop"),
		},
		Effects:   s.count,
		Advance:   clock.advance,
		Transport: serve(t, door(protect(s))),
	}
}
