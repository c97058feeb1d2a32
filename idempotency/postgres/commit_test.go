package postgres_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/require"
)

// sabotaged is insertCharge with something that happens in its first run, between the write and the commit.
func sabotaged(sabotage func(ctx context.Context)) http.HandlerFunc {
	var once sync.Once
	return func(w http.ResponseWriter, r *http.Request) {
		tx, _ := postgres.Tx(r.Context())
		_, err := tx.Exec(r.Context(), "INSERT INTO charges (amount) VALUES (2500)")
		once.Do(func() { sabotage(r.Context()) })
		answer(w, err)
	}
}

func TestAConnectionKilledBetweenWriteAndCommitLeavesNeither(t *testing.T) {
	store, pool := newStore(t)
	srv := serve(t, store, sabotaged(func(ctx context.Context) {
		tx, _ := postgres.Tx(ctx)
		execute(t, pool, "SELECT pg_terminate_backend($1, 10000)", int64(tx.Conn().PgConn().PID()))
	}))
	require.Equal(t, http.StatusInternalServerError, post(t, srv, "k").status)
	completed, inProgress := records(t, pool)
	require.Zero(t, charges(t, pool)+completed+inProgress)
	require.Equal(t, created, post(t, srv, "k"), "the retry makes one, at once")
	require.Equal(t, replayed, post(t, srv, "k"))
	require.Equal(t, 1, charges(t, pool))
	noneOpen(t, pool)
}

func TestACommitWhoseAnswerIsLostIsFoundOnAnotherConnection(t *testing.T) {
	network, pool := newNetwork(t, newSchema(t))
	srv := serve(t, openStore(t, pool), sabotaged(func(context.Context) { network.fail(loseAnswer) }))
	require.Equal(t, created, post(t, srv, "k"), "it was committed, and so its client is told")
	require.Equal(t, replayed, post(t, srv, "k"))
	require.Equal(t, 1, charges(t, pool))
}

func TestACommitThatNeverArrivedFreesTheKey(t *testing.T) {
	network, pool := newNetwork(t, newSchema(t))
	srv := serve(t, openStore(t, pool), sabotaged(func(context.Context) { network.fail(loseMessage) }))
	require.Equal(t, http.StatusInternalServerError, post(t, srv, "k").status)
	require.Zero(t, charges(t, pool))
	require.Equal(t, created, post(t, srv, "k"))
	require.Equal(t, 1, charges(t, pool))
}

// The answer to COMMIT is lost, and the database with it, so nobody can tell. The client is told 500, which its SDK takes
// for unknown, and asks again under the key.
func TestACommitThatStaysUnknownIsToldByTheRetry(t *testing.T) {
	for name, lost := range map[string]fault{"committed": loseAnswer, "not committed": loseMessage} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema(t)
			network, pool := newNetwork(t, schema)
			store := openStore(t, pool)
			srv := serve(t, &darkening{store, network}, sabotaged(func(context.Context) { network.fail(lost) }))
			got := post(t, srv, "k")
			require.Equal(t, http.StatusInternalServerError, got.status)
			require.Contains(t, got.body, "idempotency_store_failed")

			network.setDown(false)
			if lost == loseAnswer {
				require.Equal(t, replayed, post(t, srv, "k"))
			} else {
				require.Equal(t, http.StatusConflict, post(t, srv, "k").status, "until the lease ends")
				advance(t, pool, time.Minute)
				require.Equal(t, created, post(t, srv, "k"))
			}
			require.Equal(t, 1, charges(t, pool))
		})
	}
}

// A darkening store's database is out of reach as soon as Complete has lost its connection.
type darkening struct {
	*postgres.Store
	network *network
}

func (d *darkening) Complete(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
	d.network.mu.Lock()
	d.network.down = true // no new connection
	d.network.mu.Unlock()
	return d.Store.Complete(ctx, c, a)
}

func TestAConstraintThatFailsAtCommitLeavesNeitherAndFreesTheKey(t *testing.T) {
	store, pool := newStore(t)
	execute(t, pool, "ALTER TABLE charges ADD UNIQUE (amount) DEFERRABLE INITIALLY DEFERRED")
	execute(t, pool, "INSERT INTO charges (amount) VALUES (2500)")
	srv := serve(t, store, insertCharge)
	require.Equal(t, http.StatusInternalServerError, post(t, srv, "k").status)
	require.Equal(t, 1, charges(t, pool))
	execute(t, pool, "DELETE FROM charges")
	require.Equal(t, created, post(t, srv, "k"))
	require.Equal(t, 1, charges(t, pool))
}

func TestTheErrorOfACommitThatWasRolledBackSaysSo(t *testing.T) {
	store, pool := newStore(t)
	ctx := context.Background()
	c, err := store.Claim(ctx, idempotency.ID{Key: "k"}, [32]byte{}, patience, patience)
	require.NoError(t, err)
	begun, err := store.Begin(ctx, c)
	require.NoError(t, err)
	tx, _ := postgres.Tx(begun)
	_, err = tx.Exec(ctx, "SELECT 1 / $1::int", 0)
	require.Error(t, err)
	err = store.Complete(begun, c, idempotency.Answer{Status: 201})
	require.ErrorIs(t, err, postgres.ErrRolledBack)
	require.ErrorContains(t, err, "savepoint")
	completed, inProgress := records(t, pool)
	require.Zero(t, completed+inProgress)
}

// An operation without a transaction has one statement to complete it, which may be lost as well.
func TestAnOperationWithoutATransactionIsCompletedOnceMoreIfTheConnectionBreaks(t *testing.T) {
	for name, lost := range map[string]fault{"answer lost": loseAnswer, "message lost": loseMessage} {
		t.Run(name, func(t *testing.T) {
			network, pool := newNetwork(t, newSchema(t))
			runs := 0
			srv := serve(t, openStore(t, pool), func(w http.ResponseWriter, r *http.Request) {
				runs++
				network.fail(lost)
				answer(w, nil)
			})
			require.Equal(t, created, post(t, srv, "k"))
			require.Equal(t, replayed, post(t, srv, "k"))
			require.Equal(t, 1, runs)
		})
	}
}

func TestAClaimWhoseAnswerIsLostIsMadeOnceMoreUnderItsToken(t *testing.T) {
	for name, lost := range map[string]fault{"answer lost": loseAnswer, "message lost": loseMessage} {
		t.Run(name, func(t *testing.T) {
			network, pool := newNetwork(t, newSchema(t))
			srv := serve(t, openStore(t, pool), insertCharge)
			network.fail(lost)
			require.Equal(t, created, post(t, srv, "k"))
			require.Equal(t, 1, charges(t, pool))
		})
	}
}

func TestADatabaseThatIsDownGives503AndComesBackByItself(t *testing.T) {
	network, pool := newNetwork(t, newSchema(t))
	srv := serve(t, openStore(t, pool), insertCharge)
	require.Equal(t, created, post(t, srv, "before"))
	network.setDown(true)
	for range 3 {
		got := post(t, srv, "k")
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Contains(t, got.body, "store_unavailable")
	}
	network.setDown(false)
	require.Equal(t, created, post(t, srv, "k"))
	require.Equal(t, replayed, post(t, srv, "before"))
	require.Equal(t, 2, charges(t, pool))
}

// slowCommit has every commit of a charge wait for the returned function to be called.
func slowCommit(t *testing.T, pool *pgxpool.Pool) (release func()) {
	execute(t, pool, `
		CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN PERFORM pg_advisory_xact_lock(hashtext(current_schema())); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON charges DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION wait()`)
	holder, err := pool.Acquire(context.Background())
	require.NoError(t, err)
	_, err = holder.Exec(context.Background(), "SELECT pg_advisory_lock(hashtext(current_schema()))")
	require.NoError(t, err)
	var once sync.Once
	release = func() {
		once.Do(func() {
			_, err := holder.Exec(context.Background(), "SELECT pg_advisory_unlock_all()")
			holder.Release()
			require.NoError(t, err)
		})
	}
	t.Cleanup(release)
	return release
}

const waitingToCommit = `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE a.application_name = current_setting('application_name') AND l.locktype = 'advisory' AND NOT l.granted`

func TestASlowCommitGoesOnWithoutItsClient(t *testing.T) {
	store, pool := newStore(t)
	release := slowCommit(t, pool)
	srv := serve(t, store, insertCharge)
	ctx, hangUp := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "POST", srv.URL+"/charges", nil)
		r.Header.Set("Idempotency-Key", "k")
		_, err := srv.Client().Do(r)
		gone <- err
	}()
	require.Eventually(t, func() bool { return count(t, pool, waitingToCommit) == 1 }, patience, 10*time.Millisecond)
	hangUp()
	require.ErrorIs(t, <-gone, context.Canceled)
	release()
	noneOpen(t, pool)
	require.Equal(t, 1, charges(t, pool))
	completed, inProgress := records(t, pool)
	require.Equal(t, []int{1, 0}, []int{completed, inProgress})
}

func TestACommitThatTakesTooLongLeavesNoTransactionOpen(t *testing.T) {
	store, pool := newStore(t)
	release := slowCommit(t, pool)
	ctx := context.Background()
	c, err := store.Claim(ctx, idempotency.ID{Key: "k"}, [32]byte{}, patience, patience)
	require.NoError(t, err)
	begun, err := store.Begin(ctx, c)
	require.NoError(t, err)
	tx, _ := postgres.Tx(begun)
	_, err = tx.Exec(ctx, insert, 1)
	require.NoError(t, err)

	short, cancel := context.WithCancelCause(begun)
	enough := errors.New("enough")
	ended := make(chan error)
	go func() { ended <- store.Complete(short, c, idempotency.Answer{Status: 201}) }()
	require.Eventually(t, func() bool { return count(t, pool, waitingToCommit) == 1 }, patience, 10*time.Millisecond)
	cancel(enough)
	require.Error(t, <-ended)
	require.Eventually(t, func() bool { return count(t, pool, waitingToCommit) == 0 }, patience, 10*time.Millisecond,
		"the server is told to stop")
	release()
	noneOpen(t, pool)
	require.Zero(t, charges(t, pool))
	completed, inProgress := records(t, pool)
	require.Equal(t, []int{0, 1}, []int{completed, inProgress}, "until the lease ends")
}
