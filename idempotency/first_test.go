package idempotency_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/saferetry/saferetry/idempotency"
	"github.com/stretchr/testify/require"
)

func TestASecondRequestIsAnsweredFromTheStore(t *testing.T) {
	store := idempotency.NewMemoryStore()
	t.Cleanup(store.Close)
	runs := 0
	scope := func(*http.Request) (string, error) { return "tenant", nil }
	srv := httptest.NewServer(idempotency.Middleware(store, scope)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		w.Header().Set("Location", "/charges/1")
		w.WriteHeader(http.StatusCreated)
		io.Copy(w, r.Body)
	})))
	t.Cleanup(srv.Close)
	post := func(key, body string) (*http.Response, string) {
		req, err := http.NewRequest("POST", srv.URL+"/charges", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", key)
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(b)
	}
	first, body := post("k", "hello")
	require.Equal(t, 201, first.StatusCode)
	require.Equal(t, "hello", body)
	again, body := post(`"k"`, "hello")
	require.Equal(t, 201, again.StatusCode)
	require.Equal(t, "hello", body)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.Equal(t, "/charges/1", again.Header.Get("Location"))
	other, body := post("k", "other")
	require.Equal(t, 422, other.StatusCode)
	require.Contains(t, body, "idempotency_key_reuse")
	require.Equal(t, 1, runs)
}
