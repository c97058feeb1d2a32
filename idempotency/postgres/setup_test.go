package postgres_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must come. It is reached only by a test that fails.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if schema := os.Getenv(victimSchema); schema != "" {
		serveUntilKilled(schema)
	}
	os.Exit(m.Run())
}

// databaseURL is where the tests find a server. Without one they fail.
func databaseURL() string {
	if url := os.Getenv("SAFERETRY_POSTGRES_URL"); url != "" {
		return url
	}
	return "postgres://postgres@127.0.0.1:5432/postgres"
}

// newSchema makes a schema with a table of charges, which is dropped when the test ends, and returns its name.
func newSchema(t testing.TB) string {
	name := "saferetry_test_" + strings.ToLower(rand.Text()[:12])
	pool := newPool(t, "", nil)
	execute(t, pool, "CREATE SCHEMA "+name)
	t.Cleanup(func() { execute(t, pool, "DROP SCHEMA "+name+" CASCADE") })
	execute(t, pool, "CREATE TABLE "+name+".charges (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL, key text)")
	return name
}

// newPool returns a pool whose connections have schema as their search_path and name. It is closed when the test ends.
func newPool(t testing.TB, schema string, change func(*pgxpool.Config)) *pgxpool.Pool {
	c, err := poolConfig(schema)
	require.NoError(t, err)
	if change != nil {
		change(c)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func poolConfig(schema string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(databaseURL())
	if err == nil {
		c.MaxConns = 8
		c.ConnConfig.RuntimeParams["application_name"] = schema
		if schema != "" {
			c.ConnConfig.RuntimeParams["search_path"] = schema
		}
	}
	return c, err
}

// newStore returns a store with its tables, and its pool.
func newStore(t testing.TB, opts ...postgres.Option) (*postgres.Store, *pgxpool.Pool) {
	pool := newPool(t, newSchema(t), nil)
	return openStore(t, pool, opts...), pool
}

// openStore returns a store on pool, with its tables. It is closed when the test ends.
func openStore(t testing.TB, pool *pgxpool.Pool, opts ...postgres.Option) *postgres.Store {
	store := postgres.New(pool, opts...)
	t.Cleanup(store.Close)
	require.NoError(t, store.Migrate(context.Background()))
	return store
}

func execute(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(context.Background(), sql, args...)
	require.NoError(t, err)
}

// count returns what a query for one number gives.
func count(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

func charges(t testing.TB, pool *pgxpool.Pool) int {
	return count(t, pool, "SELECT count(*) FROM charges")
}

// records returns how many records there are that are completed, and that are in progress.
func records(t testing.TB, pool *pgxpool.Pool) (completed, inProgress int) {
	return count(t, pool, "SELECT count(*) FROM idempotency_keys WHERE status IS NOT NULL"),
		count(t, pool, "SELECT count(*) FROM idempotency_keys WHERE status IS NULL")
}

// noneOpen waits until no connection of pool's schema has a transaction open, or is at work, but for the one that asks.
func noneOpen(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		return count(t, pool, `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = current_setting('application_name') AND state <> 'idle' AND pid <> pg_backend_pid()`) == 0
	}, patience, 10*time.Millisecond, "a transaction is left open")
}

func tenant(*http.Request) (string, error) { return "tenant", nil }

// serve returns a server whose handler runs behind the middleware with store.
func serve(t testing.TB, store idempotency.Store, h http.HandlerFunc, opts ...idempotency.Option) *httptest.Server {
	srv := httptest.NewServer(idempotency.Middleware(store, tenant, opts...)(h))
	t.Cleanup(srv.Close)
	return srv
}

// insertCharge writes through the request's transaction and answers 201, or 500 if that fails.
func insertCharge(w http.ResponseWriter, r *http.Request) {
	tx, _ := postgres.Tx(r.Context())
	_, err := tx.Exec(r.Context(), "INSERT INTO charges (amount, key) VALUES (2500, $1)", idempotency.Key(r.Context()))
	answer(w, err)
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Location", "/charges/1")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, `{"amount":2500}`)
}

// An outcome is what a client was told.
type outcome struct {
	status   int
	replayed bool
	body     string
}

// post sends one request under key, without retries.
func post(t testing.TB, srv *httptest.Server, key string) outcome {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), "POST", srv.URL+"/charges", strings.NewReader(`{"amount":2500}`))
	require.NoError(t, err)
	r.Header.Set("Idempotency-Key", key)
	resp, err := srv.Client().Do(r)
	if err != nil {
		return outcome{body: err.Error()}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return outcome{resp.StatusCode, resp.Header.Get("Idempotent-Replayed") == "true", string(body)}
}

// created is what the client of a handler like insertCharge is told.
var created = outcome{status: http.StatusCreated, body: `{"amount":2500}`}

var replayed = outcome{status: http.StatusCreated, replayed: true, body: `{"amount":2500}`}
