package idempotency_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/saferetry/saferetry/idempotency"
)

func TestAWrongOptionPanics(t *testing.T) {
	for want, opt := range map[string]idempotency.Option{
		`idempotency: WithMethods: "post": want a method in upper case`: idempotency.WithMethods("PUT", "post"),
		`idempotency: WithMethods: "": want a method in upper case`:     idempotency.WithMethods(""),
		`idempotency: WithBodyLimit: -1: want 0 or more`:                idempotency.WithBodyLimit(-1),
		`idempotency: WithAnswerLimit: -1: want 0 or more`:              idempotency.WithAnswerLimit(-1),
		`idempotency: WithRetention: 0s: want more than 0`:              idempotency.WithRetention(0),
		`idempotency: WithLease: 0s: want more than 0`:                  idempotency.WithLease(0),
		`idempotency: WithHold: -1s: want 0 or more`:                    idempotency.WithHold(-time.Second),
		`idempotency: WithStoredStatus: <nil>: want a function`:         idempotency.WithStoredStatus(nil),
		`idempotency: WithFingerprint: <nil>: want a function`:          idempotency.WithFingerprint(nil),
		`idempotency: WithReplayHeader: "": want a header name`:         idempotency.WithReplayHeader(""),
		`idempotency: WithReplayHeader: "a b": want a header name`:      idempotency.WithReplayHeader("a b"),
		`idempotency: WithReplayHeader: "ä": want a header name`:        idempotency.WithReplayHeader("ä"),
	} {
		assert.PanicsWithValue(t, want, func() { idempotency.Middleware(newStore(t), oneTenant, opt) })
	}
	assert.PanicsWithValue(t, "idempotency: Middleware: <nil>: want a Store", func() { idempotency.Middleware(nil, oneTenant) })
	assert.PanicsWithValue(t, "idempotency: Middleware: <nil>: want a scope function", func() { idempotency.Middleware(newStore(t), nil) })
}

func TestOptionsAtTheirEdges(t *testing.T) {
	none := serve(t, protect(t, create, idempotency.WithMethods(), idempotency.WithLogger(nil), idempotency.WithObserver(nil)))
	assert.Equal(t, 201, none.do(t.Context(), "POST", "/", "").status, "no method needs a key")

	empty := serve(t, protect(t, create, idempotency.WithBodyLimit(0), idempotency.WithAnswerLimit(0)))
	wantProblem(t, empty.post("k", "x"), 413, "request_too_large")
	wantCreated(t, empty.post("k", ""), "", false)
	wantCreated(t, empty.post("k", ""), "", true)

	methods := []string{"PUT"}
	opt := idempotency.WithMethods(methods...)
	s := serve(t, protect(t, create, opt))
	methods[0] = "GET"
	wantProblem(t, s.do(t.Context(), http.MethodPut, "/", ""), 400, "idempotency_key_missing")
}
