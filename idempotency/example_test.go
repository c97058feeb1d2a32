package idempotency_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/saferetry/saferetry/idempotency"
)

// byTenant is a scope function. Behind authentication it would ask the request's context.
func byTenant(r *http.Request) (string, error) {
	tenant := r.Header.Get("X-Tenant")
	if tenant == "" {
		return "", fmt.Errorf("no tenant")
	}
	return tenant, nil
}

// ask sends a POST to h and prints the answer.
func ask(h http.Handler, key, body string) {
	r := httptest.NewRequest(http.MethodPost, "/v1/charges", strings.NewReader(body))
	r.Header.Set("X-Tenant", "acme")
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Header().Get("Content-Type") == "application/problem+json" {
		_, code, _ := strings.Cut(w.Body.String(), `"error":"`)
		fmt.Println(w.Code, strings.TrimSuffix(code, `"}`))
		return
	}
	replayed := w.Header().Get("Idempotent-Replayed") == "true"
	fmt.Printf("%d %s replayed: %v\n", w.Code, strings.TrimSpace(w.Body.String()), replayed)
}

func Example() {
	store := idempotency.NewMemoryStore()
	defer store.Close()

	charges := 0
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", charges)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /v1/charges", idempotency.Middleware(store, byTenant)(charge))

	ask(mux, "order-17", `{"amount":2500}`)
	ask(mux, "order-17", `{"amount":2500}`) // the answer was lost; the client asks again
	ask(mux, "order-17", `{"amount":9900}`)
	ask(mux, "order-18", `{"amount":9900}`)
	// Output:
	// 201 charge 1 replayed: false
	// 201 charge 1 replayed: true
	// 422 idempotency_key_reuse
	// 201 charge 2 replayed: false
}

func ExampleKey() {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	charge := func(w http.ResponseWriter, r *http.Request) {
		// For a call of one's own under the same key, or for the log.
		fmt.Fprint(w, "handled under ", idempotency.Key(r.Context()))
	}
	h := idempotency.Middleware(store, byTenant)(http.HandlerFunc(charge))

	ask(h, `"order-17"`, "")
	// Output: 200 handled under order-17 replayed: false
}

func ExamplePerformed() {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	charge := func(w http.ResponseWriter, r *http.Request) {
		// The charge is made here. It must not be made again, whatever comes after it.
		idempotency.Performed(r.Context())
		http.Error(w, "charged, but the receipt could not be sent", http.StatusBadGateway)
	}
	h := idempotency.Middleware(store, byTenant)(http.HandlerFunc(charge))

	ask(h, "order-17", "")
	ask(h, "order-17", "")
	// Output:
	// 502 charged, but the receipt could not be sent replayed: false
	// 502 charged, but the receipt could not be sent replayed: true
}

func ExampleJSONFingerprint() {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	charge := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "charged") }
	h := idempotency.Middleware(store, byTenant,
		idempotency.WithFingerprint(idempotency.JSONFingerprint))(http.HandlerFunc(charge))

	ask(h, "order-17", `{"amount":2500,"currency":"usd"}`)
	ask(h, "order-17", `{ "currency": "usd", "amount": 2500.0 }`)
	ask(h, "order-17", `{"amount":2501,"currency":"usd"}`)
	// Output:
	// 200 charged replayed: false
	// 200 charged replayed: true
	// 422 idempotency_key_reuse
}

func ExampleWithHold() {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	entered, finish := make(chan struct{}), make(chan struct{})
	charge := func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-finish
		io.WriteString(w, "charged")
	}
	h := idempotency.Middleware(store, byTenant, idempotency.WithHold(10*time.Second))(http.HandlerFunc(charge))

	first := make(chan struct{})
	go func() {
		ask(h, "order-17", "")
		close(first)
	}()
	<-entered
	time.AfterFunc(20*time.Millisecond, func() { close(finish) })
	ask(h, "order-17", "") // waits for the answer to the first
	<-first
	// Unordered output:
	// 200 charged replayed: false
	// 200 charged replayed: true
}

func ExampleWithObserver() {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	counts := make(map[string]int) // a real one is a metric, and safe for concurrent use
	observe := func(e idempotency.Event) { counts[e.Kind.String()] += e.N }
	charge := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "charged") }
	h := idempotency.Middleware(store, byTenant, idempotency.WithObserver(observe))(http.HandlerFunc(charge))

	ask(h, "order-17", "")
	ask(h, "order-17", "")
	fmt.Println(counts)
	// Output:
	// 200 charged replayed: false
	// 200 charged replayed: true
	// map[claimed:1 replayed:1]
}

func ExampleWithStoredStatus() {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	charge := func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "card declined", http.StatusPaymentRequired)
	}
	h := idempotency.Middleware(store, byTenant,
		idempotency.WithStoredStatus(func(status int) bool { return status < 500 }))(http.HandlerFunc(charge))

	ask(h, "order-17", "")
	ask(h, "order-17", "")
	// Output:
	// 402 card declined replayed: false
	// 402 card declined replayed: true
}

func ExampleMemoryStore() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	store := idempotency.NewMemoryStore(
		idempotency.WithMaxRecords(1_000_000),
		idempotency.WithClock(func() time.Time { return now }))
	defer store.Close()
	charge := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "charged") }
	h := idempotency.Middleware(store, byTenant)(http.HandlerFunc(charge))

	ask(h, "order-17", "")
	now = now.Add(24 * time.Hour)
	fmt.Println(store.Sweep(), "swept")
	ask(h, "order-17", "")
	// Output:
	// 200 charged replayed: false
	// 1 swept
	// 200 charged replayed: false
}
