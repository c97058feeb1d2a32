// Package postgres keeps the records of package idempotency in PostgreSQL, beside what handlers write: a handler's writes
// and the record of its key are committed in one transaction, together or not at all. It is the store for an API that runs
// as more than one process, or whose effects must not happen twice when one dies.
//
//	store := postgres.New(pool)
//	if err := store.Migrate(ctx); err != nil { … }
//	defer store.Close()
//	mux.Handle("POST /v1/charges", idempotency.Middleware(store, scope)(charges))
//
// and in the handler:
//
//	tx, _ := postgres.Tx(r.Context())
//	_, err := tx.Exec(r.Context(), "INSERT INTO charges …")
//
// # What an operation costs
//
// Three round trips, of which one waits for the disk: the claim; BEGIN with the first statement; the record with COMMIT.
// Each further statement is one more. A handler that sends nothing through Tx costs two, and a duplicate two, which
// lock and write nothing. (The first time on a connection, each is prepared in one more.)
//
// # How it holds
//
// The claim is one INSERT, which the primary key lets one request win, and which takes over a record whose lease has ended
// or which has expired. It is committed before the handler runs. The handler's transaction begins with the first
// statement sent through it, so a handler that calls out first, or never writes, holds no connection. Its last
// statement completes the record if the claim's token is still there, and fails otherwise, which the COMMIT sent along does
// not survive: a late owner writes nothing.
//
// If the handler fails, its process dies, or its connection is killed before COMMIT, neither writes nor record are there.
// If only the answer to COMMIT is lost, the store asks over another connection what became of it; while nobody can
// tell, the client gets 500, and its retry is told.
//
// All times are the database's. Set idle_in_transaction_session_timeout in the pool's configuration to have the server end
// the transaction of a machine that vanished without a word:
//
//	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "5min"
//
// # Effects elsewhere
//
// What cannot join the transaction, a payment processor's charge above all, goes through [Foreign], which sends it under a
// key derived from the operation's and remembers the answer. What is left open there is found by [Store.Pending].
package postgres
