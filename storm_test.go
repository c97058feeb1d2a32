package saferetry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// Keys must not mix, get lost or be made twice, however many operations share
// the client.
func TestManyOperationsThroughOneClientKeepTheirKeysApart(t *testing.T) {
	const goroutines, operations = 64, 50
	var mu sync.Mutex
	bodies := map[string][]string{} // of each key, as they arrived
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key := r.Header.Get(saferetry.KeyHeader)
		mu.Lock()
		bodies[key] = append(bodies[key], string(body))
		made := len(bodies[key])
		mu.Unlock()
		w.WriteHeader([]int{503, 429, 201, 400}[min(made, 4)-1])
		_, _ = io.WriteString(w, key)
	}))
	t.Cleanup(server.Close)
	base := ownTransport(t)
	base.MaxIdleConnsPerHost = goroutines
	client := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...)

	call := func() {
		sent := saferetry.NewKey() // something that only this operation says
		resp, err := client.Post(server.URL, "", strings.NewReader(sent))
		if !assert.NoError(t, err) {
			return
		}
		defer resp.Body.Close()
		answered, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		report, _ := saferetry.ReportOf(resp, err)
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 201, resp.StatusCode)
		assert.Equal(t, 3, report.Attempts)
		assert.Equal(t, report.Key, string(answered))
		assert.Equal(t, []string{sent, sent, sent}, bodies[report.Key])
	}
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for range operations {
				call()
			}
		})
	}
	running.Wait()

	require.Len(t, bodies, goroutines*operations)
	requests := 0
	for _, made := range bodies {
		requests += len(made)
	}
	assert.Equal(t, 3*goroutines*operations, requests)
}
