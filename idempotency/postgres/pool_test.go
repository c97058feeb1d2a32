package postgres_test

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestManyDuplicatesAtOnceOverTwoInstancesHaveOneEffect(t *testing.T) {
	const duplicates = 64
	schema := newSchema(t)
	pools := []*pgxpool.Pool{newPool(t, schema, nil), newPool(t, schema, nil)}
	got := make([]outcome, duplicates)
	var clients sync.WaitGroup
	start := make(chan struct{})
	for i := range got {
		srv := serve(t, openStore(t, pools[i%2]), insertCharge)
		clients.Go(func() {
			<-start
			got[i] = post(t, srv, "k")
		})
	}
	close(start)
	clients.Wait()
	first := 0
	for _, o := range got {
		switch {
		case o == created:
			first++
		case o.status == http.StatusConflict:
			require.Contains(t, o.body, "idempotency_key_in_progress")
		default:
			require.Equal(t, replayed, o)
		}
	}
	require.Equal(t, 1, first)
	require.Equal(t, 1, charges(t, pools[0]))
}

func TestDuplicatesThatAreHeldAllGetTheAnswer(t *testing.T) {
	store, pool := newStore(t)
	srv := serve(t, store, insertCharge, idempotency.WithHold(patience))
	var clients sync.WaitGroup
	for range 32 {
		clients.Go(func() { assert.Equal(t, http.StatusCreated, post(t, srv, "k").status) })
	}
	clients.Wait()
	require.Equal(t, 1, charges(t, pool))
}

// Each handler waits until all of them run, and each of the first few holds its transaction open meanwhile.
func TestDifferentKeysDoNotWaitForEachOther(t *testing.T) {
	const keys, writers = 64, 7
	store, pool := newStore(t)
	var running sync.WaitGroup
	running.Add(keys)
	srv := serve(t, store, func(w http.ResponseWriter, r *http.Request) {
		if n, _ := strconv.Atoi(idempotency.Key(r.Context())); n < writers {
			insertCharge(w, r)
		}
		running.Done()
		running.Wait()
	})
	var clients sync.WaitGroup
	for i := range keys {
		clients.Go(func() { assert.Less(t, post(t, srv, strconv.Itoa(i)).status, 300) })
	}
	clients.Wait()
	require.Equal(t, writers, charges(t, pool))
	completed, _ := records(t, pool)
	require.Equal(t, keys, completed)
}

func TestAnOperationTakesThreeRoundTrips(t *testing.T) {
	network := &network{conns: make(map[*conn]bool)}
	pool := newPool(t, newSchema(t), func(c *pgxpool.Config) { c.ConnConfig.DialFunc, c.MaxConns = network.dial, 1 })
	store := openStore(t, pool)
	writing := serve(t, store, insertCharge)
	reading := serve(t, store, func(w http.ResponseWriter, r *http.Request) { answer(w, nil) })
	post(t, writing, "prepares-statements")
	post(t, writing, "prepares-statements")
	post(t, reading, "prepares-some-more")
	require.Equal(t, 3, network.trips(func() { require.Equal(t, created, post(t, writing, "k")) }))
	require.Equal(t, 2, network.trips(func() { require.Equal(t, replayed, post(t, writing, "k")) }))
	require.Equal(t, 2, network.trips(func() { require.Equal(t, created, post(t, reading, "without-transaction")) }))
}

func TestAPoolOfOneConnectionIsEnough(t *testing.T) {
	schema := newSchema(t)
	watcher := newPool(t, schema, nil)
	pool := newPool(t, schema, func(c *pgxpool.Config) { c.MaxConns = 1 })
	store := openStore(t, pool)
	const lease = time.Second
	srv := serve(t, store, func(w http.ResponseWriter, r *http.Request) {
		tx, _ := postgres.Tx(r.Context())
		_, err := tx.Exec(r.Context(), "INSERT INTO charges (amount) VALUES (1)") // the one connection is taken
		assert.NoError(t, err)
		_, err = postgres.Foreign(r.Context(), "step", func(context.Context, string) (int, error) { return 1, nil })
		assert.NoError(t, err)
		assert.Eventually(t, func() bool { // well past the first lease
			return count(t, watcher, "SELECT count(*) FROM idempotency_keys WHERE lease_ends_at > claimed_at + interval '2 seconds'") == 1
		}, patience, 10*time.Millisecond, "the lease is not renewed")
		answer(w, r.Context().Err())
	}, idempotency.WithLease(lease))
	require.Equal(t, created, post(t, srv, "k"))
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() { assert.Equal(t, replayed, post(t, srv, "k")) })
	}
	clients.Wait()
	require.Equal(t, 1, charges(t, watcher))
}

// With every connection of the pool held by a handler that has yet to call out, none can wait for another.
func TestHandlersThatHoldAllConnectionsCanStillCallOut(t *testing.T) {
	const conns = 4
	schema := newSchema(t)
	pool := newPool(t, schema, func(c *pgxpool.Config) { c.MaxConns = conns })
	var holding sync.WaitGroup
	holding.Add(conns)
	srv := serve(t, openStore(t, pool), func(w http.ResponseWriter, r *http.Request) {
		tx, _ := postgres.Tx(r.Context())
		_, err := tx.Exec(r.Context(), "INSERT INTO charges (amount) VALUES (1)")
		assert.NoError(t, err)
		holding.Done()
		holding.Wait()
		_, err = postgres.Foreign(r.Context(), "step", func(context.Context, string) (int, error) { return 1, nil })
		answer(w, err)
	})
	var clients sync.WaitGroup
	for i := range conns {
		clients.Go(func() { assert.Equal(t, created, post(t, srv, strconv.Itoa(i))) })
	}
	clients.Wait()
	require.Equal(t, conns, charges(t, pool))
}

func TestAClosedStoreRefusesClaimsAndLetsOperationsEnd(t *testing.T) {
	store, pool := newStore(t)
	srv := serve(t, store, func(w http.ResponseWriter, r *http.Request) {
		tx, _ := postgres.Tx(r.Context())
		_, err := tx.Exec(r.Context(), "INSERT INTO charges (amount) VALUES (1)")
		store.Close()
		answer(w, err)
	})
	require.Equal(t, created, post(t, srv, "k"))
	require.Equal(t, http.StatusServiceUnavailable, post(t, srv, "k").status)
	require.Equal(t, 1, charges(t, pool))
	c := idempotency.Claim{ID: idempotency.ID{Key: "k"}, Token: "t"}
	require.ErrorIs(t, store.Renew(context.Background(), c, time.Second), idempotency.ErrClosed)
}

func TestNothingIsLeftBehind(t *testing.T) {
	schema := newSchema(t)
	watcher := newPool(t, "", nil)
	before := runtime.NumGoroutine()
	pool := newPool(t, schema, nil)
	store := openStore(t, pool)
	srv := serve(t, store, func(w http.ResponseWriter, r *http.Request) {
		insertCharge(w, r)
		_, err := postgres.Foreign(r.Context(), "step", func(context.Context, string) (int, error) { return 1, nil })
		assert.NoError(t, err)
	})
	require.Equal(t, created, post(t, srv, "k"))
	srv.Close()
	store.Close()
	pool.Close()
	require.Eventually(t, func() bool {
		return count(t, watcher, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", schema) == 0
	}, patience, 10*time.Millisecond, "a connection")
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, patience, 10*time.Millisecond, // Eventually's own
		"a goroutine")
}
