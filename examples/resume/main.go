// Command resume derives its key from an order number, so that a program that
// died after its first attempt, and is started again, gets the charge that it
// had already made.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

const order = "order-10423"

func main() {
	if len(os.Args) == 3 {
		pay(os.Args[1], os.Args[2])
		return
	}
	server, err := testserver.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	for _, run := range []string{"dies", "again"} {
		program := exec.Command(os.Args[0], server.URL, run)
		program.Stdout, program.Stderr = os.Stdout, os.Stderr
		if err := program.Run(); err != nil && run == "again" {
			log.Fatal(err)
		}
	}
	fmt.Println("charges:", len(server.Charges()))
	if len(server.Charges()) != 1 {
		os.Exit(1)
	}
}

// pay charges for the order. In the run that dies it never sees the answer.
func pay(url, run string) {
	var opts []saferetry.Option
	if run == "dies" {
		opts = append(opts, saferetry.WithHooks(saferetry.Hooks{Attempt: func(a saferetry.Attempt) {
			fmt.Println("first start: the server has the request, the program dies")
			os.Exit(3)
		}}))
	}
	key := saferetry.DeriveKey("charge", order) // the same in every start
	ctx := saferetry.WithKey(context.Background(), key)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges",
		strings.NewReader(`{"amount":2500,"currency":"usd","customer":"cus_9182"}`))
	if err != nil {
		log.Fatal(err)
	}
	resp, err := saferetry.NewClient(nil, opts...).Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	charge, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	report, _ := saferetry.ReportOf(resp, err)
	fmt.Printf("second start: %s, replayed: %v, %s\n", resp.Status, report.Replayed, bytes.TrimSpace(charge))
}
