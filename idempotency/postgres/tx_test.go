package postgres_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/require"
)

func TestAHandlerThatSucceedsLeavesItsWritesAndItsRecord(t *testing.T) {
	store, pool := newStore(t)
	srv := serve(t, store, insertCharge)
	require.Equal(t, created, post(t, srv, "k"))
	require.Equal(t, replayed, post(t, srv, "k"))
	require.Equal(t, 1, charges(t, pool))
	noneOpen(t, pool)
}

func TestAHandlerThatEndsWithoutSuccessLeavesNeitherWritesNorRecord(t *testing.T) {
	for name, end := range map[string]func(http.ResponseWriter){
		"4xx":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusPaymentRequired) },
		"5xx":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"panic": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			store, pool := newStore(t)
			runs := 0
			srv := serve(t, store, func(w http.ResponseWriter, r *http.Request) {
				if runs++; runs > 1 {
					insertCharge(w, r)
					return
				}
				tx, _ := postgres.Tx(r.Context())
				_, err := tx.Exec(r.Context(), "INSERT INTO charges (amount) VALUES (1)")
				require.NoError(t, err)
				end(w)
			})
			post(t, srv, "k")
			completed, inProgress := records(t, pool)
			require.Zero(t, charges(t, pool)+completed+inProgress)
			noneOpen(t, pool)
			require.Equal(t, created, post(t, srv, "k"), "the key is free at once")
			require.Equal(t, 1, charges(t, pool))
		})
	}
}

func TestTxIsThereForRequestsUnderTheMiddlewareAlone(t *testing.T) {
	tx, ok := postgres.Tx(context.Background())
	require.Nil(t, tx)
	require.False(t, ok)
}

// inTx runs f as a handler, which answers 500 if f fails, and returns what the client is told.
func inTx(t *testing.T, f func(ctx context.Context, tx pgx.Tx) error) outcome {
	store, pool := newStore(t)
	srv := serve(t, store, func(w http.ResponseWriter, r *http.Request) {
		tx, _ := postgres.Tx(r.Context())
		answer(w, f(r.Context(), tx))
	})
	got := post(t, srv, "k")
	noneOpen(t, pool)
	if got.status == http.StatusCreated {
		require.Equal(t, 1, charges(t, pool))
	} else {
		require.Zero(t, charges(t, pool))
	}
	return got
}

const insert = "INSERT INTO charges (amount) VALUES ($1) RETURNING amount"

// Every way to send a first statement begins the transaction, and a second statement finds it.
func TestTheTransactionBeginsWithAnyStatement(t *testing.T) {
	for name, first := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"Exec": func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, insert, 1)
			require.EqualValues(t, 1, tag.RowsAffected())
			return err
		},
		"Exec with named arguments": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO charges (amount) VALUES (@amount)", pgx.NamedArgs{"amount": 1})
			return err
		},
		"Exec with an option of pgx": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert, pgx.QueryExecModeExec, 1)
			return err
		},
		"Query to its end": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, insert, 7)
			require.NoError(t, err)
			amounts, err := pgx.CollectRows(rows, pgx.RowTo[int])
			require.Equal(t, []int{7}, amounts)
			return err
		},
		"Query by Next alone": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, insert, 7)
			require.NoError(t, err)
			for rows.Next() {
				values, err := rows.Values()
				require.NoError(t, err)
				require.Equal(t, []any{int64(7)}, values)
			}
			return rows.Err()
		},
		"Query closed early": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, insert, 7)
			rows.Close()
			return errors.Join(err, rows.Err())
		},
		"Query with an option of pgx": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, insert, pgx.QueryResultFormats{pgx.TextFormatCode}, 7)
			rows.Close()
			return err
		},
		"QueryRow": func(ctx context.Context, tx pgx.Tx) error {
			var amount int
			err := tx.QueryRow(ctx, insert, 7).Scan(&amount)
			require.Equal(t, 7, amount)
			return err
		},
		"QueryRow with an option of pgx": func(ctx context.Context, tx pgx.Tx) error {
			var amount int
			return tx.QueryRow(ctx, insert, pgx.QueryExecModeExec, 7).Scan(&amount)
		},
		"SendBatch": func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(insert, 1)
			return tx.SendBatch(ctx, b).Close()
		},
		"CopyFrom": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"charges"}, []string{"amount"}, pgx.CopyFromRows([][]any{{1}}))
			return err
		},
		"Prepare": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Prepare(ctx, "insert_charge", insert)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, "insert_charge", 1)
			return err
		},
		"LargeObjects": func(ctx context.Context, tx pgx.Tx) error {
			objects := tx.LargeObjects()
			id, err := objects.Create(ctx, 0)
			require.NoError(t, err)
			require.NoError(t, objects.Unlink(ctx, id))
			_, err = tx.Exec(ctx, insert, 1)
			return err
		},
		"Conn": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, insert, 1)
			return err
		},
		"Begin": func(ctx context.Context, tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, insert, 1)
				return err
			})
		},
		"SET TRANSACTION": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
			require.NoError(t, err)
			var level string
			require.NoError(t, tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&level))
			require.Equal(t, "serializable", level)
			_, err = tx.Exec(ctx, insert, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, created, inTx(t, func(ctx context.Context, tx pgx.Tx) error {
				err := first(ctx, tx)
				var one int
				require.NoError(t, tx.QueryRow(ctx, "SELECT count(*) FROM charges").Scan(&one))
				require.Equal(t, 1, one, "the same transaction")
				return err
			}))
		})
	}
}

// What the handler makes of an error is its own affair; but it cannot commit a part of what it wanted to write.
func TestAStatementThatFailedLeavesNothingToCommit(t *testing.T) {
	const bad = "INSERT INTO charges (amount) VALUES (1 / $1::int)"
	for name, first := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"first Exec":         func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, bad, 0); return err },
		"first Exec, no SQL": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, "INSERT"); return err },
		"first Query": func(ctx context.Context, tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, bad, 0)
			rows.Close()
			return rows.Err()
		},
		"first Query, no SQL": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Query(ctx, "INSERT"); return err },
		"first QueryRow": func(ctx context.Context, tx pgx.Tx) error {
			var n int
			return tx.QueryRow(ctx, bad, 0).Scan(&n)
		},
		"second": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert, 1)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, bad, 0)
			return err
		},
		"rows left open": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, "SELECT generate_series(1, 100000)")
			require.NoError(t, err)
			return errors.New("the handler forgot to close them")
		},
		"a value that does not fit": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, insert, 1)
			require.NoError(t, err)
			require.True(t, rows.Next())
			var not bool
			require.Error(t, rows.Scan(&not))
			_, err = tx.Exec(ctx, bad, 0)
			return err
		},
		"a context that is done": func(ctx context.Context, tx pgx.Tx) error {
			done, cancel := context.WithCancel(ctx)
			cancel()
			_, err := tx.Exec(done, insert, 1)
			require.ErrorIs(t, err, context.Canceled)
			require.Nil(t, tx.Conn())
			objects := tx.LargeObjects()
			_, err = objects.Create(ctx, 0)
			require.ErrorIs(t, err, pgx.ErrTxClosed)
			return err
		},
		"COMMIT in SQL": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1")
			require.NoError(t, err)
			_, err = tx.Exec(ctx, "COMMIT")
			require.NoError(t, err)
			return errors.New("it had its way")
		},
		"Rollback": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert, 1)
			require.NoError(t, err)
			require.NoError(t, tx.Rollback(ctx))
			_, err = tx.Exec(ctx, insert, 1)
			require.ErrorIs(t, err, pgx.ErrTxClosed)
			return err
		},
		"Rollback at once": func(ctx context.Context, tx pgx.Tx) error {
			require.NoError(t, tx.Rollback(ctx))
			require.ErrorIs(t, tx.Rollback(ctx), pgx.ErrTxClosed)
			return pgx.ErrTxClosed
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := inTx(t, func(ctx context.Context, tx pgx.Tx) error {
				require.Error(t, first(ctx, tx))
				return nil // as if nothing had happened
			})
			require.Equal(t, http.StatusInternalServerError, got.status)
			require.Contains(t, got.body, "idempotency_store_failed")
		})
	}
}

func TestATransactionThatCannotBeginFailsInEveryMethod(t *testing.T) {
	store, pool := newStore(t)
	srv := serve(t, store, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		tx, _ := postgres.Tx(r.Context())
		errs := map[string]error{}
		_, errs["Begin"] = tx.Begin(ctx)
		_, errs["Exec"] = tx.Exec(ctx, insert, 1)
		_, errs["Query"] = tx.Query(ctx, insert, 1)
		errs["QueryRow"] = tx.QueryRow(ctx, insert, 1).Scan(new(int))
		errs["SendBatch"] = tx.SendBatch(ctx, &pgx.Batch{}).Close()
		_, errs["CopyFrom"] = tx.CopyFrom(ctx, pgx.Identifier{"charges"}, []string{"amount"}, pgx.CopyFromRows([][]any{{1}}))
		_, errs["Prepare"] = tx.Prepare(ctx, "name", insert)
		errs["Rollback"] = tx.Rollback(ctx)
		for name, err := range errs {
			require.Error(t, err, name)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	require.Equal(t, http.StatusTeapot, post(t, srv, "k").status)
	require.Zero(t, charges(t, pool))
}

func TestCommitIsTheStoresAndBeginGivesOneOfTheHandlersOwn(t *testing.T) {
	require.Equal(t, created, inTx(t, func(ctx context.Context, tx pgx.Tx) error {
		require.ErrorIs(t, tx.Commit(ctx), postgres.ErrNotYours)
		err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, insert, 1)
			require.NoError(t, err)
			return errors.New("not this one")
		})
		require.ErrorContains(t, err, "not this one")
		inner, err := tx.Begin(ctx)
		require.NoError(t, err)
		_, err = inner.Exec(ctx, insert, 1)
		require.NoError(t, err)
		require.NoError(t, inner.Commit(ctx))
		require.ErrorIs(t, inner.Commit(ctx), pgx.ErrTxClosed)
		require.ErrorIs(t, inner.Rollback(ctx), pgx.ErrTxClosed)
		return nil
	}))
}

func TestATransactionIsClosedWhenTheHandlerHasEnded(t *testing.T) {
	store, pool := newStore(t)
	var kept []pgx.Tx
	srv := serve(t, store, func(w http.ResponseWriter, r *http.Request) {
		if tx, _ := postgres.Tx(r.Context()); r.Header.Get("Idempotency-Key") == "written" {
			inner, err := tx.Begin(r.Context())
			require.NoError(t, err)
			kept = append(kept, tx, inner)
		} else {
			kept = append(kept, tx)
		}
		w.WriteHeader(http.StatusCreated)
	})
	post(t, srv, "written")
	post(t, srv, "unwritten")
	require.Len(t, kept, 3)
	for _, tx := range kept {
		_, err := tx.Exec(context.Background(), insert, 1)
		require.ErrorIs(t, err, pgx.ErrTxClosed)
	}
	noneOpen(t, pool)
	require.Zero(t, charges(t, pool))
}

func TestALateOwnersWritesAreRolledBack(t *testing.T) {
	store, pool := newStore(t)
	ctx := context.Background()
	id := idempotency.ID{Scope: "tenant", Method: "POST", Path: "/charges", Key: "k"}
	late, err := store.Claim(ctx, id, [32]byte{}, patience, patience)
	require.NoError(t, err)
	begun, err := store.Begin(ctx, late)
	require.NoError(t, err)
	tx, _ := postgres.Tx(begun)
	_, err = tx.Exec(ctx, insert, 1)
	require.NoError(t, err)

	advance(t, pool, patience)
	next, err := store.Claim(ctx, id, [32]byte{}, patience, patience)
	require.NoError(t, err)
	require.Equal(t, idempotency.Claimed, next.State)
	require.ErrorIs(t, store.Complete(begun, late, idempotency.Answer{Status: 201}), idempotency.ErrLost)
	require.Zero(t, charges(t, pool))
	noneOpen(t, pool)
	require.NoError(t, store.Renew(ctx, next, patience), "the key is the next owner's")
}

// If the next owner has come and gone there is no record left that would tell the late one.
func TestALateOwnersWritesAreRolledBackWithoutARecord(t *testing.T) {
	store, pool := newStore(t)
	ctx := context.Background()
	c, err := store.Claim(ctx, idempotency.ID{Key: "k"}, [32]byte{}, patience, patience)
	require.NoError(t, err)
	begun, err := store.Begin(ctx, c)
	require.NoError(t, err)
	tx, _ := postgres.Tx(begun)
	_, err = tx.Exec(ctx, insert, 1)
	require.NoError(t, err)
	execute(t, pool, "DELETE FROM idempotency_keys")
	require.ErrorIs(t, store.Complete(begun, c, idempotency.Answer{Status: 201}), idempotency.ErrLost)
	require.Zero(t, charges(t, pool))
}
