// Package express checks express-idempotency, a middleware for Node.js, with its
// defaults. It needs node and npm, which installs what package-lock.json pins.
package express

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/saferetry/saferetry/conformance/internal/peertest"
)

func TestExpress(t *testing.T) {
	if _, err := os.Stat("node_modules"); err != nil {
		if out, err := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v: %s", err, out)
		}
	}
	server := exec.CommandContext(t.Context(), "node", "server.cjs")
	server.Stderr = os.Stderr
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // the test's context has ended it
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := "http://127.0.0.1:" + strings.TrimSpace(port)
	effects := func(ctx context.Context) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/sales", nil)
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		var count struct{ Sales int }
		err = json.NewDecoder(resp.Body).Decode(&count)
		return count.Sales, err
	}
	peertest.Check(t, "express-idempotency 1.0.6 (npm)", address+"/orders", "Idempotency-Key", effects)
}
