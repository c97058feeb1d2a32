package testserver_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"time"

	"github.com/saferetry/saferetry/testserver"
)

// charge sends one attempt, without retries, and says what came of it.
func charge(client *http.Client, url, key string) string {
	body := strings.NewReader(`{"amount":2500,"currency":"usd","customer":"cus_9182"}`)
	req, err := http.NewRequest(http.MethodPost, url+"/v1/charges", body)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Idempotency-Key", key)
	return send(client, req)
}

func send(client *http.Client, req *http.Request) string {
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case err != nil:
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Sprintf("%s, then %q and %v", resp.Status, body, err)
	}
	if resp.Header.Get("Idempotent-Replayed") == "true" {
		return resp.Status + ", replayed"
	}
	return resp.Status
}

func start(opts ...testserver.Option) *testserver.Server {
	server, err := testserver.Start(opts...)
	if err != nil {
		panic(err)
	}
	return server
}

func Example() {
	server, err := testserver.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()

	server.Script(testserver.CrashAfterWrite())
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	fmt.Println(server.Executions("order-1"), "charge")
	// Output:
	// connection reset
	// 201 Created, replayed
	// 1 charge
}

func ExampleServer_Script() {
	server := start()
	defer server.Close()
	server.Script(
		testserver.NeverSaw(),
		testserver.DropResponse(10),
		testserver.FailAfterWrite(http.StatusBadGateway),
		testserver.Answer(http.StatusTooManyRequests, "Retry-After", "1"),
	)
	for range 5 {
		fmt.Println(charge(server.Client(), server.URL, "order-1"))
	}
	fmt.Println(len(server.Charges()), "charge")
	// Output:
	// connection reset
	// 201 Created, then "{\"id\":\"ch_" and unexpected EOF
	// 502 Bad Gateway
	// 429 Too Many Requests
	// 201 Created, replayed
	// 1 charge
}

func ExampleServer_ScriptKey() {
	server := start()
	defer server.Close()
	server.ScriptKey("order-2", testserver.NeverSaw())
	for _, key := range []string{"order-1", "order-2", "order-3"} {
		fmt.Println(key, charge(server.Client(), server.URL, key))
	}
	// Output:
	// order-1 201 Created
	// order-2 connection reset
	// order-3 201 Created
}

func ExampleServer_Chaos() {
	server := start()
	defer server.Close()
	server.Chaos(42, map[testserver.Fault]float64{
		testserver.NeverSaw():        0.2,
		testserver.CrashAfterWrite(): 0.2,
		testserver.Answer(503):       0.2,
	})
	for i := range 100 {
		key := fmt.Sprint("order-", i)
		for answer := ""; !strings.HasPrefix(answer, "201"); {
			answer = charge(server.Client(), server.URL, key)
		}
	}
	fmt.Println(len(server.Faults()) > 150, len(server.Charges()))
	// Output: true 100
}

// What a failed test logs runs it again.
func ExampleServer_Faults() {
	server := start()
	defer server.Close()
	server.Chaos(42, map[testserver.Fault]float64{
		testserver.NeverSaw():                      0.5,
		testserver.Answer(503, "Retry-After", "1"): 0.5,
	})
	for range 3 {
		charge(server.Client(), server.URL, "order-1")
	}
	line := fmt.Sprint(server.Faults())

	again := start()
	defer again.Close()
	script, err := testserver.ParseScript(line)
	if err != nil {
		panic(err)
	}
	again.Script(script...)
	for range 3 {
		charge(again.Client(), again.URL, "order-1")
	}
	fmt.Println(fmt.Sprint(again.Faults()) == line)
	// Output: true
}

func ExampleServer_Down() {
	server := start()
	defer server.Close()
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	server.Down()
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	if err := server.Up(); err != nil {
		panic(err)
	}
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	// Output:
	// 201 Created
	// connection refused
	// 201 Created, replayed
}

func ExampleServer_Advance() {
	server := start(testserver.WithLease(time.Minute), testserver.WithRetention(24*time.Hour))
	defer server.Close()
	server.Script(testserver.CrashBeforeWrite())
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	server.Advance(time.Minute) // the dead server's claim ends
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	server.Advance(24 * time.Hour) // the operation is forgotten
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	fmt.Println(server.Executions("order-1"), "charges")
	// Output:
	// connection reset
	// 409 Conflict
	// 201 Created
	// 201 Created
	// 2 charges
}

func ExampleServer_Requests() {
	server := start()
	defer server.Close()
	server.Script(testserver.CrashAfterWrite())
	charge(server.Client(), server.URL, "order-1")
	charge(server.Client(), server.URL, "order-1")
	for _, r := range server.Requests() {
		fmt.Println(r.Method, r.Path, r.Key, len(r.Body), "bytes")
	}
	// Output:
	// POST /v1/charges order-1 54 bytes
	// POST /v1/charges order-1 54 bytes
}

func ExampleServer_Charges() {
	server := start()
	defer server.Close()
	charge(server.Client(), server.URL, "order-1")
	fmt.Printf("%+v\n", server.Charges()[0])
	// Output: {ID:ch_1 Key:order-1 Amount:2500 Currency:usd Customer:cus_9182 Retries:0}
}

// No socket is opened: the connections are in memory, and fail as sockets do.
func ExampleServer_Transport() {
	server := start(testserver.WithoutListener())
	defer server.Close()
	server.Script(testserver.CrashAfterWrite())
	client := &http.Client{Transport: server.Transport()}
	fmt.Println(charge(client, server.URL, "order-1"))
	fmt.Println(charge(client, server.URL, "order-1"))
	// Output:
	// connection reset
	// 201 Created, replayed
}

// The faults are the handler's: it can be mounted in a server of your own.
func ExampleServer_Handler() {
	server := start(testserver.WithoutListener())
	defer server.Close()
	own := httptest.NewServer(http.StripPrefix("/payments", server.Handler()))
	defer own.Close()
	server.Script(testserver.Answer(503))
	fmt.Println(charge(own.Client(), own.URL+"/payments", "order-1"))
	fmt.Println(charge(own.Client(), own.URL+"/payments", "order-1"))
	// Output:
	// 503 Service Unavailable
	// 201 Created
}

// A request may bring its fault along. A client that repeats the header with every
// attempt gives a list.
func ExampleParseFault() {
	server := start()
	defer server.Close()
	for range 2 {
		body := strings.NewReader(`{"amount":2500,"currency":"usd","customer":"cus_9182"}`)
		req, err := http.NewRequest(http.MethodPost, server.URL+"/v1/charges", body)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Idempotency-Key", "order-1")
		req.Header.Set("X-Fault", "crash-after-write, none")
		fmt.Println(send(server.Client(), req))
	}

	fault, err := testserver.ParseFault("answer=429;retry-after=1")
	fmt.Println(fault == testserver.Answer(429, "Retry-After", "1"), err)
	// Output:
	// connection reset
	// 201 Created, replayed
	// true <nil>
}

func ExampleWithTenant() {
	server := start(testserver.WithTenant(func(r *http.Request) (string, error) {
		if tenant := r.Header.Get("X-Tenant"); tenant != "" {
			return tenant, nil
		}
		return "", errors.New("no tenant")
	}))
	defer server.Close()
	for _, tenant := range []string{"ada", "bob", "bob", ""} {
		body := strings.NewReader(`{"amount":2500,"currency":"usd","customer":"cus_9182"}`)
		req, err := http.NewRequest(http.MethodPost, server.URL+"/v1/charges", body)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Idempotency-Key", "order-1")
		req.Header.Set("X-Tenant", tenant)
		fmt.Println(send(server.Client(), req))
	}
	// Output:
	// 201 Created
	// 201 Created
	// 201 Created, replayed
	// 401 Unauthorized
}

func ExampleWithHTTP2() {
	server := start(testserver.WithHTTP2())
	defer server.Close()
	server.Script(testserver.CrashAfterWrite())
	fmt.Println(charge(server.Client(), server.URL, "order-1") != "201 Created")
	fmt.Println(charge(server.Client(), server.URL, "order-1"))
	// Output:
	// true
	// 201 Created, replayed
}

func ExampleWithLatency() {
	server := start(testserver.WithLatency(200 * time.Millisecond))
	defer server.Close()
	answers := make(chan string)
	for range 2 {
		go func() { answers <- charge(server.Client(), server.URL, "order-1") }()
	}
	fmt.Println(<-answers) // the second is told at once
	fmt.Println(<-answers)
	// Output:
	// 409 Conflict
	// 201 Created
}
