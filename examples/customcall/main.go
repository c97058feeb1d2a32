// Command customcall gives a key to a call that goes through another SDK: the
// key is made once, by Do, and handed to every attempt.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/saferetry/saferetry"
)

func main() {
	api := newPayPal()
	defer api.Close()
	sdk := &paypal{url: api.URL}

	id, err := saferetry.Do(context.Background(), func(ctx context.Context, key string) (string, error) {
		return sdk.CreateOrder(ctx, key, 2500)
	}, saferetry.WithFullJitter(20*time.Millisecond, time.Second))
	if err != nil {
		report, _ := saferetry.ReportOf(nil, err)
		log.Fatalf("%v: ask again under %s", err, report.Key)
	}
	fmt.Println("order", id)
}

// paypal stands for the SDK of somebody's API, with its own way to pass a key.
type paypal struct{ url string }

// statusError is how that SDK reports what the server answered. Do tells by
// its StatusCode what may be retried.
type statusError int

func (e statusError) Error() string   { return fmt.Sprint("paypal: status ", int(e)) }
func (e statusError) StatusCode() int { return int(e) }

func (p *paypal) CreateOrder(ctx context.Context, requestID string, amount int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/v2/orders?amount=%d", p.url, amount), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("PayPal-Request-Id", requestID)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return "", statusError(resp.StatusCode)
	}
	return resp.Header.Get("Order-Id"), nil
}

// newPayPal is a server that is overloaded at first and then makes one order
// for each request id.
func newPayPal() *httptest.Server {
	attempts := 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempts++
		fmt.Printf("attempt %d, a PayPal-Request-Id of %d characters\n", attempts, len(r.Header.Get("PayPal-Request-Id")))
		if attempts < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Order-Id", "5O190127TN364715T")
		w.WriteHeader(http.StatusCreated)
	}))
}
