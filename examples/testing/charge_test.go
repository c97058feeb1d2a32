package main

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

// quick keeps the waits of a test short.
var quick = saferetry.WithFullJitter(time.Millisecond, time.Millisecond)

func TestChargeIsMadeOnceWhenTheAnswerIsLost(t *testing.T) {
	server := testserver.New(t)
	server.Script(testserver.CrashAfterWrite())
	biller := &Biller{Client: saferetry.NewClient(server.Client(), quick), URL: server.URL}

	id, err := biller.Charge("cus_9182", 2500)

	require.NoError(t, err)
	require.Len(t, server.Requests(), 2)
	require.Len(t, server.Charges(), 1)
	require.Equal(t, id, server.Charges()[0].ID)
}

func TestChargeSurvivesAMockThatFailsOnce(t *testing.T) {
	mock := httpmock.NewMockTransport()
	created := httpmock.NewStringResponder(http.StatusCreated, `{"id":"ch_1"}`)
	mock.RegisterResponder(http.MethodPost, "https://api.example/v1/charges",
		httpmock.NewErrorResponder(errors.New("connection lost")).Then(created))
	biller := &Biller{
		Client: saferetry.NewClient(&http.Client{Transport: mock}, quick),
		URL:    "https://api.example",
	}

	id, err := biller.Charge("cus_9182", 2500)

	require.NoError(t, err)
	require.Equal(t, "ch_1", id)
	require.Equal(t, 2, mock.GetTotalCallCount())
}
