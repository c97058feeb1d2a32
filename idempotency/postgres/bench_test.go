package postgres_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/assert"
)

// BenchmarkBesideBare measures the throughput of an API whose handler does one INSERT, bare, in a transaction of its own,
// and behind the middleware. The two take turns, so that whatever else the machine does is shared. The pool is as large as pgx
// makes it on a small machine.
func BenchmarkBesideBare(b *testing.B) {
	pool := newPool(b, newSchema(b), func(c *pgxpool.Config) { c.MaxConns = 4 })
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(r.Context(), "INSERT INTO charges (amount) VALUES ($1)", 2500)
			return err
		})
		answer(w, err)
	})
	store := openStore(b, pool)
	kept := idempotency.Middleware(store, tenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, _ := postgres.Tx(r.Context())
		_, err := tx.Exec(r.Context(), "INSERT INTO charges (amount) VALUES ($1)", 2500)
		answer(w, err)
	}))
	servers := []*httptest.Server{httptest.NewServer(bare), httptest.NewServer(kept)}
	var spent [2]time.Duration
	const turn = 320
	for left := b.N; left > 0; left -= turn {
		for i, srv := range servers {
			start := time.Now()
			postMany(b, srv, min(turn, left))
			spent[i] += time.Since(start)
		}
	}
	b.ReportMetric(float64(b.N)/spent[0].Seconds(), "bare-op/s")
	b.ReportMetric(float64(b.N)/spent[1].Seconds(), "op/s")
	b.ReportMetric(100*spent[0].Seconds()/spent[1].Seconds(), "%-of-bare")
	for _, srv := range servers {
		srv.Close()
	}
}

const benchClients = 8

// postMany sends srv n requests, benchClients at a time, each under a key of its own.
func postMany(b *testing.B, srv *httptest.Server, n int) {
	client := srv.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = benchClients
	var clients sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	for range benchClients {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				r, err := http.NewRequest("POST", srv.URL+"/charges", strings.NewReader(`{"amount":2500}`))
				assert.NoError(b, err)
				r.Header.Set("Idempotency-Key", saferetry.NewKey())
				resp, err := client.Do(r)
				if assert.NoError(b, err) {
					assert.Equal(b, http.StatusCreated, resp.StatusCode)
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	clients.Wait()
}
