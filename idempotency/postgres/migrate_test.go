package postgres_test

import (
	"context"
	"crypto/rand"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMigrateIsSafeFromManyProcessesAtOnceAndAgain(t *testing.T) {
	schema := newSchema(t)
	var starts sync.WaitGroup
	for range 8 {
		store := postgres.New(newPool(t, schema, nil))
		starts.Go(func() {
			for range 2 {
				assert.NoError(t, store.Migrate(context.Background()))
			}
		})
	}
	starts.Wait()
	pool := newPool(t, schema, nil)
	require.Equal(t, 1, count(t, pool, "SELECT count(*) FROM idempotency_keys_version"))
	srv := serve(t, postgres.New(pool), insertCharge)
	require.Equal(t, created, post(t, srv, "k"))
}

func TestTablesAreWhereTheOptionsSay(t *testing.T) {
	pool := newPool(t, newSchema(t), nil)
	schema := `Of "Payments" ` + rand.Text()[:8]
	t.Cleanup(func() { execute(t, pool, `DROP SCHEMA "`+strings.ReplaceAll(schema, `"`, `""`)+`" CASCADE`) })
	const table = `the "keys", order of 44 bytes ______________`
	store := openStore(t, pool, postgres.WithSchema(schema), postgres.WithTable(table))
	other := openStore(t, pool, postgres.WithSchema(schema))
	require.NoError(t, store.Migrate(context.Background()))

	require.Equal(t, created, post(t, serve(t, store, insertCharge), "k"))
	require.Equal(t, created, post(t, serve(t, other, insertCharge), "k"), "a table of its own")
	require.Equal(t, 3, count(t, pool, "SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename LIKE $2", schema, table+"%"))
	require.Zero(t, count(t, pool, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'idem%'"))
	under(t, store, "foreign", func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge", func(context.Context, string) (int, error) { return 1, nil })
		require.NoError(t, err)
		return nil
	})
	n, err := store.Sweep(context.Background())
	require.NoError(t, err)
	require.Zero(t, n)
}

// A team with a migration tool of its own runs the files as they are; Migrate then finds nothing to do, and needs no right
// to create anything.
func TestMigrateLeavesTablesThatTheFilesMade(t *testing.T) {
	schema := newSchema(t)
	pool := newPool(t, schema, nil)
	files, err := fs.Glob(postgres.Migrations, "*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		text, err := fs.ReadFile(postgres.Migrations, name)
		require.NoError(t, err)
		execute(t, pool, string(text))
	}
	reader := newPool(t, schema, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	require.NoError(t, postgres.New(reader).Migrate(context.Background()))
	require.NoError(t, postgres.New(reader, postgres.WithSchema(schema)).Migrate(context.Background()))
}

func TestMigrateLeavesTablesOfALaterVersion(t *testing.T) {
	store, pool := newStore(t)
	execute(t, pool, "INSERT INTO idempotency_keys_version (version) VALUES (1000)")
	require.NoError(t, store.Migrate(context.Background()))
}

func TestMigrateThatFailsSaysWhereAndLeavesNothing(t *testing.T) {
	pool := newPool(t, newSchema(t), nil)
	execute(t, pool, "CREATE TABLE idempotency_keys_intents ()")
	err := postgres.New(pool).Migrate(context.Background())
	require.ErrorContains(t, err, "postgres: Migrate: 0001_create.sql: ")
	require.Zero(t, count(t, pool, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'idempotency_keys'"))

	network, pool := newNetwork(t, newSchema(t))
	network.setDown(true)
	require.ErrorContains(t, postgres.New(pool).Migrate(context.Background()), "postgres: Migrate: ")

	readOnly := newPool(t, newSchema(t), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	err = postgres.New(readOnly, postgres.WithSchema("missing_"+strings.ToLower(rand.Text()))).Migrate(context.Background())
	require.ErrorContains(t, err, "CREATE SCHEMA")
}
