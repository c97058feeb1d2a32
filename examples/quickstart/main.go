// Command quickstart charges a customer nine times over connections that break
// in every way, then counts the charges that the server holds.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

func main() {
	server, err := testserver.Start(testserver.WithLease(400*time.Millisecond), testserver.WithLatency(20*time.Millisecond))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer server.Close()

	operations := 0
	for _, c := range []struct {
		name   string
		atOnce int
		faults []testserver.Fault
	}{
		{"no fault", 1, nil},
		{"NeverSaw", 1, []testserver.Fault{testserver.NeverSaw()}},
		{"CrashBeforeWrite", 1, []testserver.Fault{testserver.CrashBeforeWrite()}},
		{"CrashAfterWrite", 1, []testserver.Fault{testserver.CrashAfterWrite()}},
		{"DropResponse", 1, []testserver.Fault{testserver.DropResponse(20)}},
		{"503 twice", 1, []testserver.Fault{testserver.Answer(503), testserver.Answer(503)}},
		{"429, Retry-After: 1", 1, []testserver.Fault{testserver.Answer(429, "Retry-After", "1")}},
		{"Stall past timeout", 1, []testserver.Fault{testserver.Stall(600 * time.Millisecond)}},
		{"two at once, one key", 2, nil},
	} {
		operations++
		server.Script(c.faults...)
		key := saferetry.NewKey()
		ctx := saferetry.WithKey(context.Background(), key)
		results := make([]result, c.atOnce)
		var calls sync.WaitGroup
		for i := range results {
			calls.Go(func() { results[i] = charge(ctx, server.URL) })
		}
		calls.Wait()
		for _, r := range results {
			fmt.Printf("%-21s %s\n%21s └ %s, charges under this key: %d\n", c.name, r.timeline, "", r.outcome, server.Executions(key))
			c.name = ""
		}
	}

	charges := len(server.Charges())
	fmt.Printf("%d operations, %d charges\n", operations, charges)
	if charges != operations {
		os.Exit(1)
	}
}
