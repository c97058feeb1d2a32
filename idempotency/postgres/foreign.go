package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/idempotency"
)

// Errors of [Foreign], beside those of its call and of the database.
var (
	// ErrNoOperation: the context is not that of a request that the middleware handles with a [Store].
	ErrNoOperation = errors.New("postgres: Foreign: want the context of a request under the idempotency middleware with this package's store")

	// ErrReused: under the same key, the step was sent for another request before. That one failed and freed the key; the
	// processor has what it was sent all the same.
	ErrReused = errors.New("postgres: Foreign: the step was sent for a request with another fingerprint under this key")
)

// settleTimeout bounds how long the answer of a processor is tried to be recorded, also when the client is gone.
const settleTimeout = 10 * time.Second

// Foreign has an effect that cannot join the handler's transaction, such as a charge by a payment processor, take place
// once for each operation and step. step names the call among those of one handler, and is the same in every run of it.
//
// Before call is called, an intent is committed: which operation is about to send what, and under which key. That key
// is derived from the operation's scope, method, path and key, and step, by a hash that tells nothing of them
// ([WithKeyLimit] is its length). It is call's argument, and in call's context, so that a client of the saferetry
// package sends it. If call succeeds, its answer is recorded, as JSON. A handler that runs again, because its process
// died or its transaction was rolled back, is given the recorded answer without a call; if there is none, call is called
// again, under the same key.
//
// If call fails, the effect may have taken place, or may yet do so. The intent stays pending, for the handler's next run,
// or for [Store.Pending] and [Store.Resolve]. Two kinds of errors say that there was no effect, and leave nothing
// pending: those marked by [Refused], and those of saferetry's client whose outcome over all attempts of a first run is
// NotSent or Refused. A processor's refusal that is to be remembered is an answer like any other: put it into T.
//
// The intent does not wait for the handler's transaction, nor it for the intent. Yet a transaction should not be open
// while a processor takes its time: call Foreign before the first statement through [Tx].
//
// Errors are [ErrNoOperation], [ErrReused], [idempotency.ErrLost] if another request has the key by now (then call is not
// called), those of the database, and those of call, as they are. After an error the handler should end with a status
// that frees the key.
func Foreign[T any](ctx context.Context, step string, call func(ctx context.Context, key string) (T, error)) (T, error) {
	var zero T
	op := operationOf(ctx)
	if op == nil {
		return zero, ErrNoOperation
	}
	in, err := op.intend(ctx, step)
	if err != nil {
		return zero, foreignError(step, err)
	}
	if in.answer == nil {
		answer, err := call(saferetry.WithKey(ctx, in.key), in.key)
		if err != nil {
			op.failed(ctx, in, err)
			return zero, err
		}
		if in.answer, err = op.record(ctx, in, answer); err != nil {
			return zero, foreignError(step, err)
		}
	}
	var answer T
	if err := json.Unmarshal(in.answer, &answer); err != nil {
		return zero, foreignError(step, err)
	}
	return answer, nil
}

func foreignError(step string, err error) error {
	if err == ErrReused || err == idempotency.ErrLost {
		return err
	}
	return fmt.Errorf("postgres: Foreign: step %q: %w", step, err)
}

// Refused marks err, for a call of [Foreign] to return, as the processor's word that there is no effect under the key, and
// that none is under way. The error is err to errors.Is and errors.As, and has its text. Of nil it is nil.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err}
}

type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// An intent is what was committed before a call.
type intent struct {
	id       []byte
	key      string
	attempts int
	answer   []byte // nil: none is known
}

// intend commits that step is about to be sent, or finds the answer it had.
func (op *operation) intend(ctx context.Context, step string) (*intent, error) {
	pool, err := op.aside(ctx)
	if err != nil {
		return nil, err
	}
	c := op.claim
	id := digest(c.ID.Scope, c.ID.Method, c.ID.Path, c.ID.Key, step)
	key := hex.EncodeToString(id)
	key = key[:min(len(key), op.store.keyLimit)]
	for {
		b := &pgx.Batch{}
		b.Queue(op.store.sql.expireIntent, id)
		b.Queue(op.store.sql.intend, recordID(c.ID), c.Token, id, key, readable(step))
		in, err := readIntent(pool.SendBatch(ctx, b))
		switch {
		case wasRaced(err) && ctx.Err() == nil:
		case errors.Is(err, pgx.ErrNoRows):
			return nil, op.refused(ctx, pool)
		default:
			in.id = id
			return in, err
		}
	}
}

// readIntent reads what expireIntentSQL and intendSQL found.
func readIntent(results pgx.BatchResults) (*intent, error) {
	in := &intent{}
	_, err := results.Exec()
	if err == nil {
		err = results.QueryRow().Scan(&in.key, &in.attempts, &in.answer)
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return in, err
}

// refused tells why there is no intent: the claim is lost, or the step was sent for another request.
func (op *operation) refused(ctx context.Context, pool *pgxpool.Pool) error {
	tag, err := exec(ctx, pool, op.store.sql.held, recordID(op.claim.ID), op.claim.Token)
	if err == nil && tag.RowsAffected() > 0 {
		return ErrReused
	}
	return lostUnless(tag, err)
}

// aside returns a pool whose connection can be waited for: the handler may hold one of the store's.
func (op *operation) aside(ctx context.Context) (*pgxpool.Pool, error) {
	op.mu.Lock()
	open := op.conn != nil
	op.mu.Unlock()
	if open {
		return op.store.reserve.get(ctx)
	}
	return op.store.pool, nil
}

// record keeps answer, unless there is one already, and returns the one that is kept.
func (op *operation) record(ctx context.Context, in *intent, answer any) ([]byte, error) {
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	pool, err := op.aside(ctx)
	if err != nil {
		return nil, err
	}
	tag, err := exec(ctx, pool, op.store.sql.record, in.id, string(text))
	if err == nil && tag.RowsAffected() == 0 {
		err = pool.QueryRow(ctx, op.store.sql.recorded, in.id).Scan(&text)
	}
	return text, err
}

// failed settles the intent if err says that there was no effect. If that cannot be written down, the intent stays
// pending, which is safe.
func (op *operation) failed(ctx context.Context, in *intent, err error) {
	var marked *refusal
	report, _ := saferetry.ReportOf(nil, err)
	harmless := report.Outcome == saferetry.NotSent || report.Outcome == saferetry.Refused
	if !errors.As(err, &marked) && !(harmless && in.attempts == 1) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if pool, err := op.aside(ctx); err == nil {
		exec(ctx, pool, op.store.sql.refuse, in.id, in.attempts)
	}
}
