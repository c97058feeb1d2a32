package testserver

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestControlShowsRequestsAndCharges(t *testing.T) {
	s := New(t)
	assert.Equal(t, `{"data":[]}`+"\n", do(t, s, s.Client(), "GET", "/_/requests", "").body)
	assert.Equal(t, `{"data":[]}`+"\n", do(t, s, s.Client(), "GET", "/_/charges", "").body)
	s.Script(CrashAfterWrite(), None())
	require.Error(t, charge(t, s, "k").err)
	require.True(t, charge(t, s, "k").replayed())

	assert.JSONEq(t, `{"data":[{"id":"ch_1","amount":2500,"currency":"usd","customer":"cus_9182","retries":0,"key":"k","executions":1}]}`,
		do(t, s, s.Client(), "GET", "/_/charges", "").body)

	var shown struct {
		Data []struct {
			Method, Path, Key, Body string
			Header                  map[string][]string
			At                      time.Time
		}
	}
	got := do(t, s, s.Client(), "GET", "/_/requests", "")
	require.NoError(t, json.Unmarshal([]byte(got.body), &shown))
	require.Len(t, shown.Data, 2, "of the control nothing is logged")
	r := shown.Data[1]
	assert.Equal(t, []string{"POST", "/v1/charges", "k", chargeBody}, []string{r.Method, r.Path, r.Key, r.Body})
	assert.Equal(t, []string{"k"}, r.Header["Idempotency-Key"])
	assert.WithinDuration(t, time.Now(), r.At, time.Minute)
}

func TestControlAdvancesTheClock(t *testing.T) {
	s := New(t)
	require.Equal(t, 201, charge(t, s, "k").status)
	got := do(t, s, s.Client(), "POST", "/_/advance?by=25h", "")
	assert.Equal(t, 200, got.status)
	var now struct{ Now time.Time }
	require.NoError(t, json.Unmarshal([]byte(got.body), &now))
	assert.WithinDuration(t, time.Now().Add(25*time.Hour), now.Now, time.Minute)
	assert.False(t, charge(t, s, "k").replayed())
	assert.Equal(t, 2, s.Executions("k"))
}

func TestControlRefusesWhatItDoesNotKnow(t *testing.T) {
	s := New(t)
	for _, query := range []string{"", "?by=", "?by=25", "?by=tomorrow", "?to=25h"} {
		do(t, s, s.Client(), "POST", "/_/advance"+query, "").requireError(t, 400, "duration_invalid")
	}
	assert.Equal(t, 405, do(t, s, s.Client(), "GET", "/_/advance?by=25h", "").status)
	assert.Equal(t, 404, do(t, s, s.Client(), "GET", "/_/", "").status)
}

func TestNoFaultStrikesTheControl(t *testing.T) {
	s := New(t)
	s.Script(Answer(503))
	assert.Equal(t, 200, do(t, s, s.Client(), "GET", "/_/charges", "", "X-Fault", "never-saw").status)
	assert.Equal(t, 503, charge(t, s, "k").status)
}
