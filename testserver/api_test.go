package testserver

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChargesAreMadeShownListedAndChanged(t *testing.T) {
	s := New(t)
	assert.Equal(t, `{"data":[]}`+"\n", do(t, s, s.Client(), http.MethodGet, "/v1/charges", "").body)

	got := charge(t, s, "k")
	require.NoError(t, got.err)
	assert.Equal(t, 201, got.status)
	assert.Equal(t, "/v1/charges/ch_1", got.location())
	assert.Equal(t, "application/json", got.header.Get("Content-Type"))
	assert.Equal(t, created, got.body)

	changed := do(t, s, s.Client(), http.MethodPatch, got.location(), `{"op":"increment","field":"retries"}`, "Idempotency-Key", "k")
	assert.Equal(t, 200, changed.status)
	want := `{"id":"ch_1","amount":2500,"currency":"usd","customer":"cus_9182","retries":1}` + "\n"
	assert.Equal(t, want, changed.body)
	assert.Equal(t, want, do(t, s, s.Client(), http.MethodGet, got.location(), "").body)
	assert.Equal(t, `{"data":[`+want[:len(want)-1]+"]}\n", do(t, s, s.Client(), http.MethodGet, "/v1/charges", "").body)

	assert.Equal(t, []Charge{{ID: "ch_1", Key: "k", Amount: 2500, Currency: "usd", Customer: "cus_9182", Retries: 1}}, s.Charges())
	assert.Equal(t, 2, s.Executions("k"), "one key, two paths")
}

func TestBadInputIsRefusedAndFreesTheKey(t *testing.T) {
	s := New(t)
	require.Equal(t, 201, charge(t, s, "first").status)
	const charges, change = "/v1/charges", "/v1/charges/ch_1"
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", charges, ``, 400, "json_invalid"},
		{"POST", charges, `{"amount":2500,`, 400, "json_invalid"},
		{"POST", charges, `[]`, 400, "json_invalid"},
		{"POST", charges, `{"amount":"2500","currency":"usd"}`, 400, "json_invalid"},
		{"POST", charges, `{"amount":25.5,"currency":"usd"}`, 400, "json_invalid"},
		{"POST", charges, `{"amount":9223372036854775808,"currency":"usd"}`, 400, "json_invalid"},
		{"POST", charges, chargeBody + chargeBody, 400, "json_invalid"},
		{"POST", charges, chargeBody + "]", 400, "json_invalid"},
		{"POST", charges, `null`, 400, "amount_invalid"},
		{"POST", charges, `{"amount":0,"currency":"usd"}`, 400, "amount_invalid"},
		{"POST", charges, `{"amount":-1,"currency":"usd"}`, 400, "amount_invalid"},
		{"POST", charges, `{"amount":1}`, 400, "currency_unknown"},
		{"POST", charges, `{"amount":1,"currency":"xxx"}`, 400, "currency_unknown"},
		{"POST", charges, `{"amount":1,"currency":"USD"}`, 400, "currency_unknown"},
		{"POST", charges, `{"amount":1,"currency":" us"}`, 400, "currency_unknown"},
		{"PATCH", change, `{`, 400, "json_invalid"},
		{"PATCH", change, `{"op":"decrement","field":"retries"}`, 400, "change_unknown"},
		{"PATCH", change, `{"op":"increment","field":"amount"}`, 400, "change_unknown"},
		{"PATCH", "/v1/charges/ch_9", `{"op":"increment","field":"retries"}`, 404, "charge_not_found"},
		{"GET", "/v1/charges/ch_9", ``, 404, "charge_not_found"},
	} {
		do(t, s, s.Client(), c.method, c.path, c.body, "Idempotency-Key", "k").requireError(t, c.status, c.code)
	}
	do(t, s, s.Client(), "POST", charges, chargeBody).requireError(t, 400, "idempotency_key_missing")
	assert.Equal(t, 404, do(t, s, s.Client(), "GET", "/v1/refunds", "").status)
	assert.Equal(t, 405, do(t, s, s.Client(), "DELETE", charges, "").status)
	assert.Len(t, s.Charges(), 1)
	assert.Zero(t, s.Executions("k"))

	got := do(t, s, s.Client(), "POST", charges, ` {"note":"ignored","amount":1,"currency":"eur"} `+"\n", "Idempotency-Key", "k")
	assert.Equal(t, 201, got.status, "the key is free, unknown members and white space do no harm")
}

func TestTenantsShareNeitherKeysNorCharges(t *testing.T) {
	s := New(t, WithTenant(func(r *http.Request) (string, error) {
		if user, _, ok := r.BasicAuth(); ok {
			return user, nil
		}
		return "", errors.New("who is there?")
	}))
	const ada, bob = "Basic YWRhOg==", "Basic Ym9iOg=="
	as := func(user, method, path, body string) outcome {
		return do(t, s, s.Client(), method, path, body, "Authorization", user, "Idempotency-Key", "k")
	}
	require.Equal(t, "/v1/charges/ch_1", as(ada, "POST", "/v1/charges", chargeBody).location())
	require.Equal(t, "/v1/charges/ch_2", as(bob, "POST", "/v1/charges", chargeBody).location())
	assert.True(t, as(bob, "POST", "/v1/charges", chargeBody).replayed())
	assert.Equal(t, 2, s.Executions("k"))

	assert.NotContains(t, as(bob, "GET", "/v1/charges", "").body, "ch_1")
	assert.Equal(t, 404, as(bob, "GET", "/v1/charges/ch_1", "").status)
	assert.Equal(t, 404, as(bob, "PATCH", "/v1/charges/ch_1", `{"op":"increment","field":"retries"}`).status)
	assert.Equal(t, 200, as(ada, "PATCH", "/v1/charges/ch_1", `{"op":"increment","field":"retries"}`).status)
	assert.Len(t, s.Charges(), 2)

	for _, path := range []string{"/v1/charges", "/v1/charges/ch_1"} {
		do(t, s, s.Client(), "GET", path, "").requireError(t, 401, "scope_unresolved")
	}
	do(t, s, s.Client(), "POST", "/v1/charges", chargeBody, "Idempotency-Key", "k").requireError(t, 401, "scope_unresolved")
}
