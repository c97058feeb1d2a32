// Command wrap makes the http.Client that an API consumer already has safe to
// retry, and logs what it does through slog.
package main

import (
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

func main() {
	server, err := testserver.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	server.Script(testserver.CrashAfterWrite(), testserver.Answer(503, "Retry-After", "1"))

	// The client that the program had before, with its own timeout and transport.
	own := &http.Client{Timeout: 30 * time.Second}
	client := saferetry.NewClient(own,
		saferetry.WithFullJitter(50*time.Millisecond, time.Second),
		saferetry.WithLogger(slog.New(slog.NewTextHandler(os.Stdout, nil))))

	resp, err := client.Post(server.URL+"/v1/charges", "application/json",
		strings.NewReader(`{"amount":2500,"currency":"usd","customer":"cus_9182"}`))
	if err != nil {
		log.Fatal(err) // names the outcome, and the key to ask again under
	}
	defer resp.Body.Close()

	report, _ := saferetry.ReportOf(resp, err)
	fmt.Printf("%s after %d attempts: %s, replayed: %v, charges: %d\n",
		resp.Status, report.Attempts, report.Outcome, report.Replayed, len(server.Charges()))
}
