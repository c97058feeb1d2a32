package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency/postgres"
)

// books are the API's tables, in a schema of their own that is dropped at the end.
type books struct {
	schema string
	pool   *pgxpool.Pool
	store  *postgres.Store
}

// openBooks makes the tables: the API's own, and the store's beside it.
func openBooks(ctx context.Context) (*books, error) {
	b := &books{schema: "payments_" + strings.ToLower(rand.Text()[:10])}
	pool, err := openPool(ctx, b.schema)
	if err != nil {
		return nil, err
	}
	b.pool, b.store = pool, postgres.New(pool)
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+b.schema); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE charges (id text NOT NULL, amount bigint NOT NULL)"); err != nil {
		return nil, err
	}
	return b, b.store.Migrate(ctx)
}

// openPool returns a pool on the database of DATABASE_URL.
func openPool(ctx context.Context, schema string) (*pgxpool.Pool, error) {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return nil, errors.New("want a PostgreSQL database's URL in DATABASE_URL, such as postgres://postgres@127.0.0.1:5432/postgres")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = schema
	return pgxpool.NewWithConfig(ctx, config)
}

// close counts what is there, and drops it.
func (b *books) close(ctx context.Context) (rows, completed, pending int, err error) {
	defer b.pool.Close()
	defer b.store.Close()
	calls, err := b.store.Pending(ctx, 0)
	if err != nil {
		return 0, 0, 0, err
	}
	count := &pgx.Batch{}
	count.Queue("SELECT count(*) FROM charges").QueryRow(func(r pgx.Row) error { return r.Scan(&rows) })
	count.Queue("SELECT count(*) FROM idempotency_keys WHERE status = 201").QueryRow(func(r pgx.Row) error { return r.Scan(&completed) })
	if err := b.pool.SendBatch(ctx, count).Close(); err != nil {
		return 0, 0, 0, err
	}
	_, err = b.pool.Exec(ctx, "DROP SCHEMA "+b.schema+" CASCADE")
	return rows, completed, len(calls), err
}
