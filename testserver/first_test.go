package testserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALostAnswerIsReplayed(t *testing.T) {
	s := New(t)
	s.Script(CrashAfterWrite())
	charge := func() (*http.Response, error) {
		req, err := http.NewRequest(http.MethodPost, s.URL+"/v1/charges",
			strings.NewReader(`{"amount":2500,"currency":"usd","customer":"cus_9182"}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "order-1")
		return s.Client().Do(req)
	}
	_, err := charge()
	require.Error(t, err)
	resp, err := charge()
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "true", resp.Header.Get("Idempotent-Replayed"))
	assert.Equal(t, 1, s.Executions("order-1"))
}
