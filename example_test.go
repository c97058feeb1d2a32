package saferetry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/saferetry/saferetry"
)

// unsteady is a server that answers with one status after another, the last
// over and over. It prints the key of each request, by the name of its header.
func unsteady(keyHeader string, statuses ...int) *httptest.Server {
	var n atomic.Int32
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := statuses[min(int(n.Add(1)), len(statuses))-1]
		fmt.Printf("%s %s, %s %s: %d\n", r.Method, r.URL.Path, keyHeader, r.Header.Get(keyHeader), status)
		w.WriteHeader(status)
	}))
}

// quick keeps the waits of the examples short.
var quick = saferetry.WithFullJitter(0, time.Millisecond)

func ExampleNewClient() {
	server := unsteady("Idempotency-Key", 503, 503, 201)
	defer server.Close()

	client := saferetry.NewClient(http.DefaultClient, quick)
	ctx := saferetry.WithKey(context.Background(), "order-4711") // else a random one is made
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/charges", strings.NewReader(`{"amount":2500}`))
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// POST /v1/charges, Idempotency-Key order-4711: 503
	// POST /v1/charges, Idempotency-Key order-4711: 503
	// POST /v1/charges, Idempotency-Key order-4711: 201
	// 201 Created
}

func ExampleNewTransport() {
	server := unsteady("Idempotency-Key", 503, 200)
	defer server.Close()

	// Under a Transport belongs what has to be done for each attempt, such as
	// signing it; over it what is done once per operation.
	transport := saferetry.NewTransport(http.DefaultTransport, quick)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	resp, err := client.Get(server.URL + "/v1/charges")
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// GET /v1/charges, Idempotency-Key : 503
	// GET /v1/charges, Idempotency-Key : 200
	// 200 OK
}

func ExampleReportOf() {
	server := unsteady("Idempotency-Key", 503, 401)
	defer server.Close()

	client := saferetry.NewClient(nil, quick, saferetry.WithKeyFunc(func(*http.Request) (string, error) { return "order-4711", nil }))
	resp, err := client.Post(server.URL+"/v1/charges", "application/json", strings.NewReader(`{"amount":2500}`))
	report, ok := saferetry.ReportOf(resp, err)
	if err == nil {
		resp.Body.Close()
	}
	fmt.Println(ok, report.Attempts, report.Reason)
	if report.Outcome == saferetry.Unknown { // the first attempt, answered 503, may have charged
		fmt.Println("ask again under", report.Key)
	}
	// Output:
	// POST /v1/charges, Idempotency-Key order-4711: 503
	// POST /v1/charges, Idempotency-Key order-4711: 401
	// true 2 answered
	// ask again under order-4711
}

func ExampleError() {
	server := unsteady("Idempotency-Key", 200)
	server.Close() // nobody listens

	client := saferetry.NewClient(nil, quick, saferetry.WithMaxAttempts(2))
	_, err := client.Get(server.URL)
	var ended *saferetry.Error
	if errors.As(err, &ended) {
		fmt.Println(ended.Report.Attempts, ended.Report.Reason, ended.Report.Outcome, ended.Timeout())
	}
	// Output: 2 exhausted not sent false
}

func ExampleWithKey() {
	server := unsteady("Idempotency-Key", 201)
	defer server.Close()

	client := saferetry.NewClient(nil)
	ctx := saferetry.WithKey(context.Background(), "order-4711")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, nil)
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Request.Header.Get(saferetry.KeyHeader))
	// Output:
	// POST /, Idempotency-Key order-4711: 201
	// order-4711
}

func ExampleKeyFromContext() {
	ctx := saferetry.WithKey(context.Background(), "order-4711")
	fmt.Println(saferetry.KeyFromContext(ctx))
	// Output: order-4711 true
}

func ExampleDeriveKey() {
	// A program that was stopped halfway makes the same key again.
	fmt.Println(saferetry.DeriveKey("charges", "order-4711"))
	fmt.Println(saferetry.DeriveKey("ab", "c") == saferetry.DeriveKey("a", "bc"))
	// Output:
	// 705308ca-69e1-8437-8191-6795b4f581f5
	// false
}

func ExampleNewKey() {
	key := saferetry.NewKey() // to be stored with the order before anything is sent
	fmt.Println(len(key), saferetry.ValidateKey(key))
	// Output: 36 <nil>
}

func ExampleValidateKey() {
	fmt.Println(saferetry.ValidateKey("order-4711"))
	fmt.Println(saferetry.ValidateKey("order 4711"))
	// Output:
	// <nil>
	// saferetry: key has byte 0x20 at index 5: want visible ASCII characters only
}

func ExampleWithKeyHeader() {
	server := unsteady("PayPal-Request-Id", 201)
	defer server.Close()

	client := saferetry.NewClient(nil, saferetry.WithKeyHeader("PayPal-Request-Id"))
	req, err := http.NewRequest(http.MethodPost, server.URL+"/v2/payments", nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("PayPal-Request-Id", "order-4711")
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	// Output: POST /v2/payments, PayPal-Request-Id order-4711: 201
}

func ExampleWithQuotedKey() {
	server := unsteady("Idempotency-Key", 201)
	defer server.Close()

	client := saferetry.NewClient(nil, saferetry.WithQuotedKey(), saferetry.WithKeyFunc(func(*http.Request) (string, error) {
		return "order-4711", nil
	}))
	resp, err := client.Post(server.URL, "", nil)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	report, _ := saferetry.ReportOf(resp, err)
	fmt.Println(report.Key)
	// Output:
	// POST /, Idempotency-Key "order-4711": 201
	// order-4711
}

func ExampleWithKeyFunc() {
	server := unsteady("Idempotency-Key", 201)
	defer server.Close()

	client := saferetry.NewClient(nil, saferetry.WithKeyFunc(func(r *http.Request) (string, error) {
		order := r.Header.Get("X-Order")
		if order == "" {
			return "", errors.New("no X-Order header to make a key of")
		}
		return saferetry.DeriveKey("charges", order), nil
	}))
	req, err := http.NewRequest(http.MethodPost, server.URL, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Order", "order-4711")
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	// Output: POST /, Idempotency-Key 705308ca-69e1-8437-8191-6795b4f581f5: 201
}

func ExampleWithKeyedMethods() {
	server := unsteady("Idempotency-Key", 503)
	defer server.Close()

	// No keys for a server that does not know them: a POST that may have
	// reached it is not repeated.
	client := saferetry.NewClient(nil, quick, saferetry.WithKeyedMethods())
	resp, err := client.Post(server.URL, "", nil)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	report, _ := saferetry.ReportOf(resp, err)
	fmt.Println(report.Reason)
	// Output:
	// POST /, Idempotency-Key : 503
	// not repeatable
}

func ExampleWithClassifier() {
	server := unsteady("Idempotency-Key", 404, 200)
	defer server.Close()

	// What was just created may take a moment to be found.
	client := saferetry.NewClient(nil, quick, saferetry.WithClassifier(func(a saferetry.Attempt) saferetry.Decision {
		if a.Response != nil && a.Response.StatusCode == http.StatusNotFound {
			return saferetry.Retry
		}
		return saferetry.DefaultClassifier(a)
	}))
	resp, err := client.Get(server.URL + "/v1/charges/1")
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// GET /v1/charges/1, Idempotency-Key : 404
	// GET /v1/charges/1, Idempotency-Key : 200
	// 200 OK
}

func ExampleDefaultClassifier() {
	judge := func(status int, header ...string) saferetry.Decision {
		h := make(http.Header)
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return saferetry.DefaultClassifier(saferetry.Attempt{Number: 1, Response: &http.Response{StatusCode: status, Header: h}})
	}
	fmt.Println(judge(503) == saferetry.Retry)
	fmt.Println(judge(422) == saferetry.Retry)
	fmt.Println(judge(503, "X-Should-Retry", "false") == saferetry.Retry)
	fmt.Println(judge(500, "Idempotent-Replayed", "true") == saferetry.Retry)
	// Output:
	// true
	// false
	// false
	// false
}
