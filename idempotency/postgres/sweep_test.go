package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fillTable makes n records that are completed, and expired.
func fillTable(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	execute(t, pool, `INSERT INTO idempotency_keys
		(id, scope, method, path, key, fingerprint, token, claimed_at, lease_ends_at, expires_at, status, not_stored)
		SELECT int4send(i), '', '', '', '', '', i::text, now(), now(), now(), 201, true FROM generate_series(1, $1::int) AS i`, n)
}

func TestSweepsOfManyProcessesShareTheWork(t *testing.T) {
	store, pool := newStore(t)
	fillTable(t, pool, 5000)
	var removed atomic.Int64
	var sweeps sync.WaitGroup
	for range 4 {
		other := openStore(t, pool)
		sweeps.Go(func() {
			n, err := other.Sweep(context.Background())
			assert.NoError(t, err)
			removed.Add(int64(n))
		})
	}
	sweeps.Wait()
	n, err := store.Sweep(context.Background()) // what one left out as locked, and another then kept
	require.NoError(t, err)
	require.EqualValues(t, 5000, removed.Load()+int64(n))
	require.Zero(t, count(t, pool, "SELECT count(*) FROM idempotency_keys"))
}

func TestASweepLeavesOutWhatIsLocked(t *testing.T) {
	store, pool := newStore(t)
	fillTable(t, pool, 10)
	ctx := context.Background()
	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	defer tx.Rollback(ctx)
	_, err = tx.Exec(ctx, "SELECT FROM idempotency_keys WHERE id = int4send(1) FOR UPDATE")
	require.NoError(t, err)
	n, err := store.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, 9, n)
}

func TestASweepFindsTheExpiredByTheIndex(t *testing.T) {
	_, pool := newStore(t)
	fillTable(t, pool, 5000)
	execute(t, pool, "UPDATE idempotency_keys SET expires_at = now() + interval '1 day' WHERE id > int4send(20)")
	execute(t, pool, "ANALYZE idempotency_keys")
	rows, err := pool.Query(context.Background(), `EXPLAIN SELECT id FROM idempotency_keys
		WHERE expires_at <= now() AND (status IS NOT NULL OR lease_ends_at <= now()) LIMIT 500 FOR UPDATE SKIP LOCKED`)
	require.NoError(t, err)
	var plan bytes.Buffer
	for rows.Next() {
		values, err := rows.Values()
		require.NoError(t, err)
		plan.WriteString(values[0].(string) + "\n")
	}
	require.NoError(t, rows.Err())
	require.Contains(t, plan.String(), "idempotency_keys_expires_at")
}

func TestTheStoreSweepsByItselfFromItsFirstClaimUntilItIsClosed(t *testing.T) {
	_, pool := newStore(t)
	store := openStore(t, pool, postgres.WithSweepInterval(time.Millisecond))
	swept := make(chan int, 100)
	store.OnSweep(func(n int) { swept <- n })
	fillTable(t, pool, 700)
	_, err := store.Claim(context.Background(), idempotency.ID{Key: "k"}, [32]byte{}, patience, patience)
	require.NoError(t, err)
	require.Equal(t, 700, <-swept)
	fillTable(t, pool, 1)
	require.Equal(t, 1, <-swept, "and goes on")
	store.Close()
	store.Close()
	fillTable(t, pool, 1)
	require.Equal(t, 2, count(t, pool, "SELECT count(*) FROM idempotency_keys"))
}

func TestAStoreWithoutAnIntervalDoesNotSweep(t *testing.T) {
	_, pool := newStore(t)
	store := openStore(t, pool, postgres.WithSweepInterval(0))
	fillTable(t, pool, 1)
	_, err := store.Claim(context.Background(), idempotency.ID{Key: "k"}, [32]byte{}, patience, patience)
	require.NoError(t, err)
	require.Equal(t, 2, count(t, pool, "SELECT count(*) FROM idempotency_keys"))
}

func TestSettledIntentsAreSwept(t *testing.T) {
	store, pool := newStore(t)
	under(t, store, "k", func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge", func(context.Context, string) (int, error) { return 1, nil })
		return err
	})
	advance(t, pool, time.Hour)
	n, err := store.Sweep(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Zero(t, count(t, pool, "SELECT count(*) FROM idempotency_keys_intents"))
}

func TestASweepThatFailsIsLogged(t *testing.T) {
	network, pool := newNetwork(t, newSchema(t))
	lines := make(chan []byte, 100)
	store := openStore(t, pool, postgres.WithSweepInterval(time.Millisecond),
		postgres.WithLogger(slog.New(slog.NewTextHandler(lineWriter(lines), nil))))
	_, err := store.Claim(context.Background(), idempotency.ID{Key: "k"}, [32]byte{}, patience, patience)
	require.NoError(t, err)
	network.setDown(true)
	require.Contains(t, string(<-lines), "postgres: a sweep failed")
}

type lineWriter chan []byte

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- bytes.Clone(p):
	default:
	}
	return len(p), nil
}
