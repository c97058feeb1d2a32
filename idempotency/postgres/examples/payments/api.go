package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
)

// serve runs one process of the API, on the listener that it was started with.
func serve(schema string) error {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	pool, err := openPool(context.Background(), schema)
	if err != nil {
		return err
	}
	a := &api{processorURL: os.Getenv("PROCESSOR_URL"), client: saferetry.NewClient(nil)}
	scope := func(*http.Request) (string, error) { return "the only tenant", nil }
	wrap := idempotency.Middleware(postgres.New(pool), scope, idempotency.WithLease(time.Second))
	mux := http.NewServeMux()
	mux.Handle("POST /v1/charges", dieAfterwards(wrap(http.HandlerFunc(a.createCharge))))
	return http.Serve(listener, mux)
}

type api struct {
	processorURL string
	client       *http.Client // saferetry's: sends the derived key
}

type entry struct {
	ID     string `json:"id"` // the processor's
	Amount int64  `json:"amount"`
}

// createCharge has the processor charge the customer, and enters the charge in the books.
func (a *api) createCharge(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var want json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	made, err := postgres.Foreign(ctx, "charge", func(ctx context.Context, _ string) (entry, error) {
		return a.callProcessor(ctx, string(want))
	})
	if err != nil {
		http.Error(w, "the processor gave no answer", http.StatusBadGateway)
		return
	}
	if r.Header.Get(faultHeader) == string(crashBeforeWrite) {
		die()
	}
	tx, _ := postgres.Tx(ctx)
	if _, err := tx.Exec(ctx, "INSERT INTO charges (id, amount) VALUES ($1, $2)", made.ID, made.Amount); err != nil {
		http.Error(w, "the charge could not be entered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Location", "/v1/charges/"+made.ID)
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(made)
}

// callProcessor sends the charge under the key of ctx, which is the derived one.
func (a *api) callProcessor(ctx context.Context, body string) (made entry, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.processorURL+"/v1/charges", strings.NewReader(body))
	if err != nil {
		return made, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return made, err // unknown: the intent stays pending, unless nothing was sent
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		err := fmt.Errorf("the processor answered %s", resp.Status)
		if resp.StatusCode < 500 {
			err = postgres.Refused(err)
		}
		return made, err
	}
	return made, json.NewDecoder(resp.Body).Decode(&made)
}

// dieAfterwards dies, if the front wants so, after the operation is committed and before its answer leaves.
func dieAfterwards(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if r.Header.Get(faultHeader) == string(crashAfterWrite) {
			die()
		}
	})
}

// die is kill -9.
func die() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
