package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/saferetry/saferetry"
)

// result is how one call of charge went, for a person to read.
type result struct {
	timeline string
	outcome  string
}

// charge makes one charge under the key of ctx. Should the answer break off
// while it is read, it asks again under the key of the request as sent, which
// brings the replay. The SDK does so by itself (WithBodyResume); here it is
// switched off, to show the key at work.
func charge(ctx context.Context, url string) result {
	var steps []string
	// A connection for each attempt: when a reused one dies, net/http sends the
	// request again by itself, under the same key, and no step would show it.
	base := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	client := saferetry.NewClient(base,
		saferetry.WithFullJitter(100*time.Millisecond, time.Second),
		saferetry.WithAttemptTimeout(300*time.Millisecond),
		saferetry.WithBodyResume(false),
		saferetry.WithHooks(saferetry.Hooks{
			Attempt: func(a saferetry.Attempt) { steps = append(steps, cameBack(a)) },
			Wait: func(_ saferetry.Attempt, wait time.Duration) {
				steps = append(steps, fmt.Sprintf("(waited %v)", wait.Round(time.Millisecond)))
			},
		}))
	for range 3 {
		resp, err := post(ctx, client, url)
		report, _ := saferetry.ReportOf(resp, err)
		if resp != nil && err != nil {
			steps = append(steps, "(broke off, asked again)")
			ctx = saferetry.WithKey(ctx, resp.Request.Header.Get(saferetry.KeyHeader))
			continue
		}
		outcome := report.Outcome.String()
		if err != nil {
			outcome += ", " + err.Error()
		}
		if report.Replayed {
			outcome += ", replayed"
		}
		return result{strings.Join(steps, " "), outcome}
	}
	return result{strings.Join(steps, " "), "no whole answer"}
}

// post sends the charge and reads the answer to its end. With both a response
// and an error, the answer broke off.
func post(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	body := strings.NewReader(`{"amount":2500,"currency":"usd","customer":"cus_9182"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges", body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// cameBack says in a word what an attempt brought.
func cameBack(a saferetry.Attempt) string {
	var timeout net.Error
	switch {
	case a.Err == nil:
		return fmt.Sprint(a.Response.StatusCode)
	case errors.Is(a.Err, syscall.ECONNRESET):
		return "reset"
	case errors.As(a.Err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "connection lost"
}
