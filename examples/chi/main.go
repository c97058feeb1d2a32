// Command chi has the idempotency middleware in a chi router. It sends itself two requests under one key: the second
// gets the stored answer of the first.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/go-chi/chi/v5"

	"github.com/saferetry/saferetry/idempotency"
)

func main() {
	store := idempotency.NewMemoryStore()
	defer store.Close()

	r := chi.NewRouter()
	r.Use(idempotency.Middleware(store, tenant))
	r.Post("/v1/accounts/{account}/charges", charge)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: r}
	go server.Serve(listener)
	defer server.Close()

	for range 2 {
		if err := send("http://" + listener.Addr().String() + "/v1/accounts/acct_1/charges"); err != nil {
			log.Fatal(err)
		}
	}
}

// tenant is the scope: whose keys these are.
func tenant(r *http.Request) (string, error) {
	if name, _, ok := r.BasicAuth(); ok {
		return name, nil
	}
	return "", errors.New("no credentials")
}

var charges atomic.Int64

// charge is a handler as it would be without the middleware.
func charge(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", fmt.Sprintf("/v1/accounts/%s/charges/%d", chi.URLParam(r, "account"), charges.Add(1)))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":%d}`, charges.Load())
}

func send(url string) error {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"amount":2500}`))
	if err != nil {
		return err
	}
	req.SetBasicAuth("acme", "")
	req.Header.Set("Idempotency-Key", "order-17")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, resp.Header.Get("Location"), string(body), "replayed:", resp.Header.Get("Idempotent-Replayed") == "true")
	return err
}
