package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNotYours is the error of Commit on the transaction that [Tx] returned.
var ErrNotYours = errors.New("postgres: the transaction is committed with the key's record when the handler ends: Begin one within it to commit by yourself")

// Tx returns the transaction that the writes of the request being handled belong in: they are committed together with
// the key's record, in one step, or neither is. It is false if ctx is not the context of a request that the
// middleware handles with a [Store].
//
//	tx, ok := postgres.Tx(r.Context())
//	tx.Exec(ctx, "INSERT INTO charges …")
//
// The transaction begins with the first statement sent through it, on a connection of the pool. It is at the
// connection's default isolation level; a first statement SET TRANSACTION sets another. At REPEATABLE READ and above
// a handler must end before its lease is first renewed, in a third of the lease, or its commit fails.
//
// The store commits it when the handler has answered, or rolls it back if the handler answers with an error or panics.
// So Commit fails with [ErrNotYours]. Rollback does roll back, and then a handler that answers with success all the same
// has its client told 500: do not defer it. Where a part may fail, or code wants to commit, Begin gives a transaction
// within (a savepoint), with Commit and Rollback as usual.
//
// As with any [pgx.Tx], it is for one goroutine at a time, and for the time the handler runs; after that every method
// fails with [pgx.ErrTxClosed]. Put net/http's TimeoutHandler around the middleware, not within it: it returns while the
// handler is still at work.
func Tx(ctx context.Context) (pgx.Tx, bool) {
	op := operationOf(ctx)
	if op == nil {
		return nil, false
	}
	return &tx{op: op, base: ctx}, true
}

// A tx is the handler's view of the operation's transaction, or of one within it.
type tx struct {
	op    *operation
	base  context.Context // for the methods that take none
	inner pgx.Tx          // nil: the operation's own
}

// begun returns the transaction, which it begins if there is none.
func (t *tx) begun(ctx context.Context) (pgx.Tx, error) {
	t.op.mu.Lock()
	defer t.op.mu.Unlock()
	if t.op.tx == nil {
		err := t.op.begin(ctx, "").Close()
		return t.op.tx, err
	}
	if t.inner != nil && t.op.tx != closedTx {
		return t.inner, nil
	}
	return t.op.tx, nil
}

// begin begins the operation's transaction and sends sql, if there is any, in the same round trip. The results left are
// those of sql. op.tx is set afterwards; it is closed if there is no transaction. op.mu is held.
func (op *operation) begin(ctx context.Context, sql string, args ...any) pgx.BatchResults {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	if sql != "" {
		b.Queue(sql, args...)
	}
	var results pgx.BatchResults
	if conn, err := op.store.pool.Acquire(ctx); err != nil {
		results = pgx.FailedBatchResults(b, err)
	} else {
		results = conn.SendBatch(ctx, b)
		op.conn = conn
	}
	op.tx = results.Tx()
	results.Exec() // an error is that of everything after it, too
	return results
}

// first sends sql with the beginning of the transaction, if it has not begun.
func (t *tx) first(ctx context.Context, sql string, args []any) (pgx.BatchResults, bool) {
	t.op.mu.Lock()
	defer t.op.mu.Unlock()
	if t.op.tx != nil || !batchable(args) {
		return nil, false
	}
	return t.op.begin(ctx, sql, args...), true
}

// batchable reports whether pgx takes args in a batch: not the options of a single query.
func batchable(args []any) bool {
	for _, arg := range args {
		switch arg.(type) {
		case pgx.QueryRewriter:
			continue
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return false
		}
		break
	}
	return true
}

func (t *tx) Begin(ctx context.Context) (pgx.Tx, error) {
	outer, err := t.begun(ctx)
	if err != nil {
		return nil, err
	}
	inner, err := outer.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &tx{op: t.op, base: t.base, inner: inner}, nil
}

func (t *tx) Commit(ctx context.Context) error {
	if t.inner == nil {
		return ErrNotYours
	}
	inner, err := t.begun(ctx)
	if err != nil {
		return err
	}
	return inner.Commit(ctx)
}

func (t *tx) Rollback(ctx context.Context) error {
	if t.refuse() {
		return nil
	}
	tx, err := t.begun(ctx)
	if err != nil {
		return err
	}
	return tx.Rollback(ctx)
}

// refuse rolls back a transaction that has not begun: it is not going to, and the operation cannot complete.
func (t *tx) refuse() bool {
	t.op.mu.Lock()
	defer t.op.mu.Unlock()
	if t.op.tx != nil {
		return false
	}
	t.op.tx = closedTx
	return true
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if results, ok := t.first(ctx, sql, args); ok {
		tag, err := results.Exec()
		if closed := results.Close(); err == nil {
			err = closed
		}
		return tag, err
	}
	tx, err := t.begun(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.Exec(ctx, sql, args...)
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if results, ok := t.first(ctx, sql, args); ok {
		rows, err := results.Query()
		if err != nil {
			results.Close()
		}
		return &firstRows{rows, results}, err
	}
	tx, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
	}
	return tx.Query(ctx, sql, args...)
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if results, ok := t.first(ctx, sql, args); ok {
		return &firstRow{results.QueryRow(), results}
	}
	tx, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(&pgx.Batch{}, err).QueryRow()
	}
	return tx.QueryRow(ctx, sql, args...)
}

func (t *tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	tx, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return tx.SendBatch(ctx, b)
}

func (t *tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return 0, err
	}
	return tx.CopyFrom(ctx, table, columns, src)
}

func (t *tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Prepare(ctx, name, sql)
}

// LargeObjects has no error to return: its methods fail if the transaction did not begin.
func (t *tx) LargeObjects() pgx.LargeObjects {
	tx, _ := t.begun(t.base)
	return tx.LargeObjects()
}

// Conn is nil if the transaction did not begin.
func (t *tx) Conn() *pgx.Conn {
	tx, _ := t.begun(t.base)
	return tx.Conn()
}

// firstRows are the rows of the statement that the transaction began with. The batch ends when they do.
type firstRows struct {
	pgx.Rows
	batch pgx.BatchResults
}

func (r *firstRows) Close() {
	r.Rows.Close()
	r.batch.Close()
}

func (r *firstRows) Next() bool {
	more := r.Rows.Next()
	if !more {
		r.batch.Close()
	}
	return more
}

func (r *firstRows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.batch.Close()
	}
	return err
}

func (r *firstRows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.batch.Close()
	}
	return values, err
}

type firstRow struct {
	pgx.Row
	batch pgx.BatchResults
}

func (r *firstRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if closed := r.batch.Close(); err == nil {
		err = closed
	}
	return err
}
