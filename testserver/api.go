package testserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/saferetry/saferetry/idempotency"
)

// An api is the service behind the middleware: it charges customers.
type api struct {
	ledger  *ledger
	tenant  func(*http.Request) (string, error)
	latency time.Duration
}

func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", a.create)
	mux.HandleFunc("GET /v1/charges", a.list)
	mux.HandleFunc("GET /v1/charges/{id}", a.show)
	mux.HandleFunc("PATCH /v1/charges/{id}", a.change)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch ctx := r.Context(); {
		case sleep(ctx, a.latency):
			mux.ServeHTTP(w, r)
		case context.Cause(ctx) != idempotency.ErrLost: // which the middleware answers
			panic(http.ErrAbortHandler) // Close
		}
	})
}

// create is POST /v1/charges. Members it does not know are ignored.
func (a *api) create(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Amount   int64  `json:"amount"`
		Currency string `json:"currency"`
		Customer string `json:"customer"`
	}
	switch err := decode(r.Body, &c); {
	case err != nil:
		jsonInvalid.write(w, "want an object with an integer amount, a currency and a customer")
	case c.Amount <= 0:
		amountInvalid.write(w, "want an amount of 1 or more, in the currency's smallest unit")
	case !isCurrency(c.Currency):
		currencyUnknown.write(w, "want an ISO 4217 code in lower case, such as usd")
	default:
		made := txOf(r.Context()).insert(Charge{Amount: c.Amount, Currency: c.Currency, Customer: c.Customer})
		w.Header().Set("Location", "/v1/charges/"+made.ID)
		writeJSON(w, http.StatusCreated, made)
	}
}

// list is GET /v1/charges.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	if tenant, ok := a.tenantOf(w, r); ok {
		writeJSON(w, http.StatusOK, listOf[Charge]{a.ledger.list(tenant)})
	}
}

// show is GET /v1/charges/{id}.
func (a *api) show(w http.ResponseWriter, r *http.Request) {
	if row := a.find(w, r); row != nil {
		writeJSON(w, http.StatusOK, a.ledger.read(row))
	}
}

// change is PATCH /v1/charges/{id}. Not an absolute value but an increment: what
// must not be done twice.
func (a *api) change(w http.ResponseWriter, r *http.Request) {
	var p struct{ Op, Field string }
	if err := decode(r.Body, &p); err != nil {
		jsonInvalid.write(w, "want an object with an op and a field")
		return
	}
	if p.Op != "increment" || p.Field != "retries" {
		changeUnknown.write(w, "want the op increment and the field retries")
		return
	}
	if row := a.find(w, r); row != nil {
		writeJSON(w, http.StatusOK, txOf(r.Context()).increment(row))
	}
}

// find returns the charge the path names, or answers why not.
func (a *api) find(w http.ResponseWriter, r *http.Request) *row {
	tenant, ok := a.tenantOf(w, r)
	if !ok {
		return nil
	}
	row := a.ledger.find(tenant, r.PathValue("id"))
	if row == nil {
		chargeNotFound.write(w, "there is no charge "+r.PathValue("id"))
	}
	return row
}

// tenantOf returns whose charges the request is about, or answers why not. One
// that was claimed has told already.
func (a *api) tenantOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	if tx := txOf(r.Context()); tx != nil {
		return tx.id.Scope, true
	}
	tenant, err := a.tenant(r)
	if err != nil {
		tenantUnresolved.write(w, "the caller of this request could not be told")
	}
	return tenant, err == nil
}

// decode reads one JSON value, and nothing after it.
func decode(body io.Reader, v any) error {
	d := json.NewDecoder(body)
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more follows the value")
	}
	return nil
}

// sleep waits for d and reports whether ctx lives.
func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
