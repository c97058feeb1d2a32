package saferetry_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/idempotency"
)

// The Go code of the README is compiled, so that it cannot go stale: here, or as
// the example of the module that it needs.
func TestReadmeShowsCodeThatCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	here, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	example, err := os.ReadFile("idempotency/postgres/example_test.go")
	require.NoError(t, err)
	compiled := withoutIndent(string(here) + string(example))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, blocks, 4)
	for _, block := range blocks {
		require.Contains(t, compiled, withoutIndent(block[1]))
	}
}

func withoutIndent(code string) string {
	return regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(code, "")
}

func readmeClient(url, charge string) error {
	client := saferetry.NewClient(http.DefaultClient)
	resp, err := client.Post(url, "application/json", strings.NewReader(charge))
	if err == nil {
		defer resp.Body.Close()
	}
	report, _ := saferetry.ReportOf(resp, err)
	if report.Outcome != saferetry.Performed {
		return fmt.Errorf("charge %s after %d attempts, key %s: %v", report.Outcome, report.Attempts, report.Key, err)
	}
	return nil
}

// Order and otherSDK stand for another SDK's.
type (
	Order    struct{}
	otherSDK struct{}
)

func (otherSDK) CreateOrder(context.Context, string, int) (*Order, error) { return &Order{}, nil }

func readmeDo(ctx context.Context, sdk otherSDK) (*Order, error) {
	order, err := saferetry.Do(ctx, func(ctx context.Context, key string) (*Order, error) {
		return sdk.CreateOrder(ctx, key, 2500)
	})
	return order, err
}

func readmeServer(mux *http.ServeMux, charges http.Handler, accountOf func(*http.Request) (string, error)) {
	store := idempotency.NewMemoryStore()
	defer store.Close()
	scope := func(r *http.Request) (string, error) { // whose key is it?
		return accountOf(r)
	}
	mux.Handle("POST /v1/charges", idempotency.Middleware(store, scope)(charges))
}

var _, _, _ = readmeClient, readmeDo, readmeServer
