package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency/storetest"
	"github.com/stretchr/testify/require"
)

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Fixture { return fixture(t, nil) })
}

// A pooler in between may not know prepared statements.
func TestStoreKeepsTheContractWithoutPreparedStatements(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Fixture {
				return fixture(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			})
		})
	}
}

func TestStoreKeepsTheContractWhereTransactionsAreSerializable(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		return fixture(t, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		})
	})
}

func fixture(t *testing.T, change func(*pgxpool.Config)) storetest.Fixture {
	pool := newPool(t, newSchema(t), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // faster, and no test of this kind crashes the server
		if change != nil {
			change(c)
		}
	})
	store := openStore(t, pool)
	return storetest.Fixture{
		Store:   store,
		Advance: func(d time.Duration) { advance(t, pool, d) },
		Slack:   10 * time.Second,
		Sweep: func() {
			_, err := store.Sweep(context.Background())
			require.NoError(t, err)
		},
		Len:   func() int { return count(t, pool, "SELECT count(*) FROM idempotency_keys") },
		Close: store.Close,
	}
}

// advance has the effect of d going by: it takes d from all times.
func advance(t testing.TB, pool *pgxpool.Pool, d time.Duration) {
	t.Helper()
	us := d.Microseconds()
	execute(t, pool, `UPDATE idempotency_keys SET claimed_at = claimed_at - $1::bigint * interval '1 microsecond',
		lease_ends_at = lease_ends_at - $1::bigint * interval '1 microsecond', expires_at = expires_at - $1::bigint * interval '1 microsecond'`, us)
	execute(t, pool, `UPDATE idempotency_keys_intents SET first_sent_at = first_sent_at - $1::bigint * interval '1 microsecond',
		last_sent_at = last_sent_at - $1::bigint * interval '1 microsecond', expires_at = expires_at - $1::bigint * interval '1 microsecond'`, us)
}
