package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/saferetry/saferetry"
)

// pay asks the API for a charge under the key of ctx, and tells how that went.
func pay(ctx context.Context, url string) string {
	var steps []string
	base := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // a connection for each attempt, to see them all
	client := saferetry.NewClient(base,
		saferetry.WithMaxAttempts(6),
		saferetry.WithFullJitter(50*time.Millisecond, time.Second),
		saferetry.WithAttemptTimeout(500*time.Millisecond),
		saferetry.WithHooks(saferetry.Hooks{Attempt: func(a saferetry.Attempt) {
			if a.Err != nil {
				steps = append(steps, "lost")
			} else {
				steps = append(steps, fmt.Sprint(a.Response.StatusCode))
			}
		}}))
	body := strings.NewReader(`{"amount":2500,"currency":"usd","customer":"cus_9182"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges", body)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body) // goes on with the replay if it breaks off
	}
	report, _ := saferetry.ReportOf(resp, err)
	told := strings.Join(steps, ", ") + ": " + report.Outcome.String()
	if report.Replayed {
		told += ", replayed"
	}
	if err != nil {
		told += ", " + err.Error()
	}
	return told
}
