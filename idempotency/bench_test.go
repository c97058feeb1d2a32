package idempotency_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/saferetry/saferetry/idempotency"
)

// A discard is a ResponseWriter that costs next to nothing.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// oneKiB answers 201 and 1 KiB.
var oneKiB = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = []string{"application/octet-stream"}
	w.WriteHeader(http.StatusCreated)
	w.Write(kib)
})

var kib = bytes.Repeat([]byte{'x'}, 1024)

// serveEach has h serve a POST with a small body under the key that keyOf names for each round.
func serveEach(b *testing.B, h http.Handler, wantStatus int, keyOf func(i int) string) {
	body := bytes.NewReader([]byte(`{"amount":2500,"currency":"usd"}`))
	r := httptest.NewRequest(http.MethodPost, "/v1/charges", io.NopCloser(body))
	r.ContentLength = body.Size()
	w := &discard{header: make(http.Header)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		body.Seek(0, io.SeekStart)
		r.Header["Idempotency-Key"] = []string{keyOf(i)}
		clear(w.header)
		h.ServeHTTP(w, r)
		if w.status != wantStatus {
			b.Fatalf("status %d", w.status)
		}
	}
}

func BenchmarkBareHandler(b *testing.B) {
	serveEach(b, oneKiB, 201, func(i int) string { return "key-" + strconv.Itoa(i) })
}

// BenchmarkFirstRequest has the service in its steady state: 10,000 records live, and as many expire as are made. Sweeping
// them is part of what is measured.
func BenchmarkFirstRequest(b *testing.B) {
	const live = 10_000
	var seconds atomic.Int64 // one for each request
	store := idempotency.NewMemoryStore(idempotency.WithClock(func() time.Time { return time.Unix(seconds.Load(), 0) }))
	defer store.Close()
	h := idempotency.Middleware(store, oneTenant, idempotency.WithRetention(live*time.Second))(oneKiB)
	serveEach(b, h, 201, func(i int) string {
		if seconds.Add(1)%1000 == 0 {
			store.Sweep()
		}
		return "key-" + strconv.Itoa(i)
	})
}

func BenchmarkReplay(b *testing.B) {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	h := idempotency.Middleware(store, oneTenant)(oneKiB)
	serveEach(b, h, 201, func(int) string { return "one-key" })
}

// BenchmarkClaimParallel shows, with -cpu 1,2,4, how claims on different keys scale with the cores.
func BenchmarkClaimParallel(b *testing.B) {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	var workers atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		id := idempotency.ID{Scope: "tenant", Method: "POST", Path: "/v1/charges"}
		prefix := strconv.FormatInt(workers.Add(1), 10) + "-"
		for i := 0; pb.Next(); i++ {
			id.Key = prefix + strconv.Itoa(i)
			c, err := store.Claim(context.Background(), id, [32]byte{}, time.Minute, time.Hour)
			if err != nil || c.State != idempotency.Claimed {
				b.Fatal(c.State, err)
			}
			if err := store.Release(context.Background(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
