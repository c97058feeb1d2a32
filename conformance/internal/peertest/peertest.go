// Package peertest checks idempotency middlewares that others wrote, each in a
// module of its own beside this package's users, and keeps what was found.
package peertest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/saferetry/saferetry/conformance"
)

var update = flag.Bool("update", false, "write what is found to found.txt")

// An Order is what a peer's handler is asked to do, read from a request by its
// header fields.
type Order struct {
	Status int           // other than 0: fail with it
	Slow   time.Duration // take so long
	Answer string        // large, binary, cookie, hop, or ""
}

// Known reports whether the caller may use the shop: a guard in front of the
// middleware asks.
func Known(authorization string) bool { return strings.HasPrefix(authorization, "Bearer caller-") }

// Read reads an order. get returns a header field of the request.
func Read(get func(name string) string) Order {
	o := Order{Answer: get("X-Answer")}
	if get("X-Fail") != "" {
		o.Status = http.StatusInternalServerError
	}
	o.Slow, _ = time.ParseDuration(get("X-Slow")) // none: 0
	return o
}

// A Shop counts what was sold.
type Shop struct{ sales atomic.Int64 }

// Sell makes an effect and returns its answer.
func (s *Shop) Sell(o Order) (id string, body []byte) {
	time.Sleep(o.Slow) // a slow handler
	id = fmt.Sprintf("order_%04d", s.sales.Add(1))
	switch o.Answer {
	case "large":
		return id, []byte(id + strings.Repeat("x", 100<<10))
	case "binary":
		return id, append([]byte(id), 0, 0xff, 0xfe)
	}
	return id, fmt.Appendf(nil, `{"id":%q}`, id)
}

// Count returns how often something was sold.
func (s *Shop) Count(context.Context) (int, error) { return int(s.sales.Load()), nil }

// Check checks a peer's endpoint by the profile draft, and wants to find what
// found.txt in the test's directory says. With -update it writes that file, which
// begins with the peer's name and version.
func Check(t *testing.T, peer, endpoint, keyHeader string, effects func(context.Context) (int, error)) {
	t.Helper()
	way := func(name, value string) *conformance.Way { return &conformance.Way{Header: http.Header{name: {value}}} }
	report, err := conformance.Run(t.Context(), conformance.Target{
		URL:         endpoint,
		KeyHeader:   keyHeader,
		Header:      http.Header{"Authorization": {"Bearer caller-1"}},
		OtherCaller: http.Header{"Authorization": {"Bearer caller-2"}},
		Body:        `{"amount":{{n}},"currency":"usd"}`,
		Ways: conformance.Ways{
			Slow: way("X-Slow", "300ms"), Error: way("X-Fail", "1"), Limited: way("X-Limited", "1"),
			Refused: way("Authorization", "Bearer nobody"), Large: way("X-Answer", "large"),
			Binary: way("X-Answer", "binary"), Cookie: way("X-Answer", "cookie"), HopByHop: way("X-Answer", "hop"),
		},
		Effects: effects,
	})
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for _, res := range report.Results {
		fmt.Fprintf(&found, "%s %s\n", res.Outcome, res.ID)
		if res.Outcome != conformance.Pass {
			t.Logf("%s %s: %s", res.Outcome, res.ID, res.Why)
		}
	}
	if *update {
		head := fmt.Sprintf("%s, checked %s\n", peer, time.Now().UTC().Format(time.DateOnly))
		if err := os.WriteFile("found.txt", []byte(head+found.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile("found.txt")
	if err != nil {
		t.Fatal(err)
	}
	head, want, _ := strings.Cut(string(kept), "\n")
	if !strings.HasPrefix(head, peer+", ") {
		t.Errorf("found.txt is of %s: want %s; go test -update writes it", head, peer)
	}
	if found.String() != want {
		t.Errorf("found\n%s\nfound.txt has\n%s", found.String(), want)
	}
}
