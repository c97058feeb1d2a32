package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency"
)

// An operation is one run of a handler under a claim. It has a connection, and a transaction on it, from the first
// statement that the handler sends through Tx.
type operation struct {
	store *Store
	claim idempotency.Claim

	mu   sync.Mutex
	conn *pgxpool.Conn // nil while there is no transaction
	tx   pgx.Tx        // nil while there is none; closed when the operation has ended
}

type operationKey struct{}

func operationOf(ctx context.Context) *operation {
	op, _ := ctx.Value(operationKey{}).(*operation)
	return op
}

// closedTx refuses every statement with pgx.ErrTxClosed.
var closedTx = func() pgx.Tx {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(b, pgx.ErrTxClosed).Tx()
}()

// Begin implements [idempotency.Store]. It sends nothing: the transaction begins with the first statement through [Tx], in
// the same round trip. A handler that calls out first, or never writes, holds no connection meanwhile.
func (s *Store) Begin(ctx context.Context, c idempotency.Claim) (context.Context, error) {
	op := &operation{store: s, claim: c}
	s.running.Store(c.Token, op)
	return context.WithValue(ctx, operationKey{}, op), nil
}

// end ends the operation of c for its handler, and returns its connection and transaction, if it has one.
func (s *Store) end(c idempotency.Claim) (*pgxpool.Conn, pgx.Tx) {
	v, ok := s.running.LoadAndDelete(c.Token)
	if !ok {
		return nil, nil
	}
	op := v.(*operation)
	op.mu.Lock()
	defer op.mu.Unlock()
	conn, tx := op.conn, op.tx
	op.conn, op.tx = nil, closedTx
	return conn, tx
}

// Complete implements [idempotency.Store]: one round trip has the record and COMMIT. If the handler sent nothing through
// [Tx], the record is committed by itself.
//
// An error that leaves open whether the server committed (the connection broke) is looked into over another
// connection: Complete returns nil if the record is there. If instead the transaction is certain to be rolled back, the
// key is freed, for a retry to run at once, and [ErrRolledBack] is in the error's chain. Any other error leaves it
// unknown until the lease has ended.
func (s *Store) Complete(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
	conn, tx := s.end(c)
	args := []any{recordID(c.ID), c.Token, a.Status, a.NotStored, headerText(a.Header), a.Body}
	if tx == nil {
		return s.finish(ctx, c, args)
	}
	err := errNotOpen
	if conn != nil {
		err = s.commit(ctx, conn.Conn(), args)
	}
	s.rollback(ctx, conn)
	if err == nil || errors.Is(err, idempotency.ErrLost) {
		return err
	}
	return s.settle(ctx, c, err)
}

// errNotOpen is of a transaction that could not begin, or that the handler rolled back.
var errNotOpen = errors.New("it was not open when the handler ended")

// commit completes the record and commits, or fails with the transaction still open.
func (s *Store) commit(ctx context.Context, conn *pgx.Conn, args []any) error {
	if err := committable(conn); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(s.sql.complete, args...)
	b.Queue("commit")
	results := conn.SendBatch(ctx, b)
	_, err := results.Exec()
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == divisionByZero {
		err = idempotency.ErrLost
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// committable tells what the handler did to its transaction that leaves nothing to commit.
func committable(conn *pgx.Conn) error {
	switch conn.PgConn().TxStatus() {
	case 'T':
		return nil
	case 'E':
		return errors.New("a statement in it failed, and the handler went on: where one may fail, put it behind a savepoint (Tx.Begin)")
	}
	return errNotOpen
}

// rollback ends whatever transaction there is on conn, and gives the connection back. The pool closes one that is in any
// doubt.
func (s *Store) rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn == nil {
		return
	}
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		conn.Exec(ctx, "rollback")
	}
	conn.Release()
}

// finish completes c without a transaction. The connection may break, and then the record be there or not: it is
// completed once more.
func (s *Store) finish(ctx context.Context, c idempotency.Claim, args []any) error {
	tag, err := exec(ctx, s.pool, s.sql.finish, args...)
	if err == nil || !wasCutOff(err) || ctx.Err() != nil {
		return lostUnless(tag, err)
	}
	cause := err
	if tag, err = exec(ctx, s.pool, s.sql.finish, args...); err != nil || tag.RowsAffected() > 0 {
		return err
	}
	return s.completed(ctx, c, cause)
}

// settle finds out what became of the transaction of c that failed to commit for cause. Freeing the key waits for the
// transaction, if it has got so far as to complete the record; and one that has not can do so no more.
func (s *Store) settle(ctx context.Context, c idempotency.Claim, cause error) error {
	pool, err := s.reserve.get(ctx)
	if err != nil || ctx.Err() != nil {
		return cause
	}
	tag, err := exec(ctx, pool, s.sql.free, recordID(c.ID), c.Token)
	switch {
	case err != nil:
		return fmt.Errorf("postgres: whether the transaction was committed is unknown: %w", cause)
	case tag.RowsAffected() > 0:
		return fmt.Errorf("%w: %w", ErrRolledBack, cause)
	}
	return s.completed(ctx, c, cause)
}

// completed returns nil if the record of c is completed under its token. cause is why that was in doubt.
func (s *Store) completed(ctx context.Context, c idempotency.Claim, cause error) error {
	pool, err := s.reserve.get(ctx)
	if err != nil {
		return cause
	}
	tag, err := exec(ctx, pool, s.sql.state, recordID(c.ID), c.Token)
	if err != nil {
		return fmt.Errorf("postgres: whether the transaction was committed is unknown: %w", cause)
	}
	return lostUnless(tag, err)
}

// Release implements [idempotency.Store].
func (s *Store) Release(ctx context.Context, c idempotency.Claim) error {
	conn, _ := s.end(c)
	s.rollback(ctx, conn)
	tag, err := exec(ctx, s.pool, s.sql.free, recordID(c.ID), c.Token)
	return lostUnless(tag, err)
}
