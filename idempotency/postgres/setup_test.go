package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/require"
)

// databaseURL is where the tests find a server. Without one they fail.
func databaseURL() string {
	if url := os.Getenv("SAFERETRY_POSTGRES_URL"); url != "" {
		return url
	}
	return "postgres://postgres@127.0.0.1:5432/postgres"
}

// newSchema makes a schema that is dropped when the test ends, and returns its name.
func newSchema(t testing.TB) string {
	name := "saferetry_test_" + strings.ToLower(rand.Text()[:12])
	pool := newPool(t, "", nil)
	execute(t, pool, "CREATE SCHEMA "+name)
	t.Cleanup(func() { execute(t, pool, "DROP SCHEMA "+name+" CASCADE") })
	return name
}

// newPool returns a pool whose connections have schema as their search_path. It is closed when the test ends.
func newPool(t testing.TB, schema string, change func(*pgxpool.Config)) *pgxpool.Pool {
	c, err := pgxpool.ParseConfig(databaseURL())
	require.NoError(t, err)
	c.MaxConns = 8
	if schema != "" {
		c.ConnConfig.RuntimeParams["search_path"] = schema
	}
	if change != nil {
		change(c)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
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

type executor interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func execute(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(context.Background(), sql, args...)
	require.NoError(t, err)
}

// count returns what a query for one number gives.
func count(t testing.TB, db executor, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

func tenant(*http.Request) (string, error) { return "tenant", nil }

var _ = net.Dial
var _ = fmt.Sprint
var _ = time.Now
var _ idempotency.ID
