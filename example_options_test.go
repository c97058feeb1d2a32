package saferetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/saferetry/saferetry"
)

func ExampleWithMaxAttempts() {
	server := unsteady("Idempotency-Key", 503)
	defer server.Close()

	client := saferetry.NewClient(nil, quick, saferetry.WithMaxAttempts(2))
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status) // the last answer, its body unread
	// Output:
	// GET /, Idempotency-Key : 503
	// GET /, Idempotency-Key : 503
	// 503 Service Unavailable
}

func ExampleWithBackOff() {
	server := unsteady("Idempotency-Key", 503, 503, 200)
	defer server.Close()

	client := saferetry.NewClient(nil,
		saferetry.WithBackOff(func() backoff.BackOff { return backoff.NewConstantBackOff(10 * time.Millisecond) }),
		saferetry.WithHooks(saferetry.Hooks{Wait: func(a saferetry.Attempt, d time.Duration) {
			fmt.Println("wait", d, "after attempt", a.Number)
		}}))
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	// Output:
	// GET /, Idempotency-Key : 503
	// wait 10ms after attempt 1
	// GET /, Idempotency-Key : 503
	// wait 10ms after attempt 2
	// GET /, Idempotency-Key : 200
}

func ExampleFullJitter() {
	policy := saferetry.NewFullJitter(100*time.Millisecond, time.Second)
	for _, limit := range []time.Duration{100, 200, 400, 800, 1000} {
		wait := policy.NextBackOff()
		fmt.Println(wait >= 0 && wait <= limit*time.Millisecond)
	}
	// Output:
	// true
	// true
	// true
	// true
	// true
}

func ExampleWithHooks() {
	server := unsteady("Idempotency-Key", 503, 201)
	defer server.Close()

	client := saferetry.NewClient(nil, quick, saferetry.WithHooks(saferetry.Hooks{
		Attempt: func(a saferetry.Attempt) { fmt.Println("attempt", a.Number, a.Response.StatusCode) },
		Done:    func(_ *http.Request, r saferetry.Report) { fmt.Println("done", r.Attempts, r.Outcome) },
	}))
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	// Output:
	// GET /, Idempotency-Key : 503
	// attempt 1 503
	// GET /, Idempotency-Key : 201
	// attempt 2 201
	// done 2 performed
}

func ExampleWithLogger() {
	server := unsteady("Idempotency-Key", 503, 201)
	defer server.Close()

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "time" || a.Key == "url" || a.Key == "wait" || a.Key == "waited" {
			return slog.Attr{} // what differs from run to run
		}
		return a
	}}))
	client := saferetry.NewClient(nil, quick, saferetry.WithLogger(logger))
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	// Output:
	// GET /, Idempotency-Key : 503
	// level=WARN msg="saferetry: attempt failed, trying again" method=GET attempt=1 status=503
	// GET /, Idempotency-Key : 201
	// level=INFO msg="saferetry: operation ended" method=GET attempt=2 status=201 reason=answered outcome=performed
}

func ExampleWithMaxRetryAfter() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()

	client := saferetry.NewClient(nil, saferetry.WithMaxRetryAfter(10*time.Second))
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	report, _ := saferetry.ReportOf(resp, err)
	fmt.Println(report.Reason, resp.Header.Get("Retry-After"))
	// Output: retry-after too long 3600
}

func ExampleWithAttemptTimeout() {
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			<-r.Context().Done() // hangs
		}
	}))
	defer server.Close()

	client := saferetry.NewClient(nil, quick, saferetry.WithAttemptTimeout(100*time.Millisecond))
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	report, _ := saferetry.ReportOf(resp, err)
	fmt.Println(resp.Status, "at attempt", report.Attempts)
	fmt.Println(report.Failed[0].Err)
	// Output:
	// 200 OK at attempt 2
	// saferetry: no response headers within the attempt timeout
}

func ExampleWithAttemptHeader() {
	server := unsteady("X-Attempt", 503, 200)
	defer server.Close()

	client := saferetry.NewClient(nil, quick, saferetry.WithAttemptHeader("X-Attempt"))
	resp, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	// Output:
	// GET /, X-Attempt 1: 503
	// GET /, X-Attempt 2: 200
}

func ExampleWithBodyBuffer() {
	server := unsteady("Idempotency-Key", 503)
	defer server.Close()

	// A pipe can be read once. It is remembered up to the bound, and past that
	// there is one attempt.
	r, w := io.Pipe()
	go func() {
		io.WriteString(w, strings.Repeat("x", 2000))
		w.Close()
	}()
	client := saferetry.NewClient(nil, quick, saferetry.WithBodyBuffer(1000))
	req, err := http.NewRequest(http.MethodPut, server.URL+"/v1/files/1", r)
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	report, _ := saferetry.ReportOf(resp, err)
	fmt.Println(report.Reason)
	// Output:
	// PUT /v1/files/1, Idempotency-Key : 503
	// not replayable
}

func ExampleWithBudget() {
	server := unsteady("Idempotency-Key", 503)
	defer server.Close()

	// One retry for ten operations, and two saved to begin with.
	client := saferetry.NewClient(nil, quick, saferetry.WithBudget(saferetry.NewBudget(0.1, 2)))
	for range 2 {
		resp, err := client.Get(server.URL)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		report, _ := saferetry.ReportOf(resp, err)
		fmt.Println(report.Attempts, report.Reason)
	}
	// Output:
	// GET /, Idempotency-Key : 503
	// GET /, Idempotency-Key : 503
	// GET /, Idempotency-Key : 503
	// 3 budget spent
	// GET /, Idempotency-Key : 503
	// 1 budget spent
}

func ExampleWithBodyResume() {
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 { // the answer breaks off
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "a char")
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
		io.WriteString(w, "a charge\n")
	}))
	defer server.Close()

	for _, resume := range []bool{true, false} {
		n.Store(0)
		client := saferetry.NewClient(nil, quick, saferetry.WithBodyResume(resume)) // true is the default
		resp, err := client.Post(server.URL, "", nil)
		if err != nil {
			panic(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Printf("%q %v\n", body, err)
	}
	// Output:
	// "a charge\n" <nil>
	// "a char" unexpected EOF
}

// paymentSDK stands for another package that makes calls of its own.
type paymentSDK struct{ calls int }

func (s *paymentSDK) Charge(_ context.Context, key string, amount int) (string, error) {
	s.calls++
	fmt.Println("charge", amount, "under", key)
	if s.calls < 3 {
		return "", io.ErrUnexpectedEOF // the connection broke
	}
	return "ch_1", nil
}

func ExampleDo() {
	var sdk paymentSDK
	ctx := saferetry.WithKey(context.Background(), "order-4711") // else a random one is made
	charge, err := saferetry.Do(ctx, func(ctx context.Context, key string) (string, error) {
		return sdk.Charge(ctx, key, 2500)
	}, quick)
	fmt.Println(charge, err)
	// Output:
	// charge 2500 under order-4711
	// charge 2500 under order-4711
	// charge 2500 under order-4711
	// ch_1 <nil>
}

func ExampleDo_permanent() {
	_, err := saferetry.Do(context.Background(), func(context.Context, string) (string, error) {
		return "", backoff.Permanent(errors.New("card declined"))
	})
	report, _ := saferetry.ReportOf(nil, err)
	fmt.Println(report.Attempts, report.Reason, errors.Unwrap(err))
	// Output: 1 permanent card declined
}

func ExampleRetryable() {
	settled := false
	result, err := saferetry.Do(context.Background(), func(context.Context, string) (string, error) {
		if !settled {
			settled = true
			return "", saferetry.Retryable(errors.New("still settling"), 20*time.Millisecond) // no sooner than that
		}
		return "settled", nil
	}, saferetry.WithHooks(saferetry.Hooks{Wait: func(a saferetry.Attempt, d time.Duration) {
		fmt.Println(a.Err, d >= 20*time.Millisecond)
	}}))
	fmt.Println(result, err)
	// Output:
	// still settling true
	// settled <nil>
}
