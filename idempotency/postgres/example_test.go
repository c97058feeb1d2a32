package postgres_test

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
)

// A handler writes through the request's transaction, and leaves its end to the store.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://postgres@127.0.0.1:5432/postgres")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store := postgres.New(pool)
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	scope := func(r *http.Request) (string, error) { return r.Header.Get("X-Tenant"), nil }
	createCharge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, _ := postgres.Tx(r.Context())
		if _, err := tx.Exec(r.Context(), "INSERT INTO charges (amount) VALUES ($1)", 2500); err != nil {
			http.Error(w, "try again", http.StatusInternalServerError) // rolls back, and frees the key
			return
		}
		w.WriteHeader(http.StatusCreated) // commits the charge and this answer
	})
	http.Handle("POST /v1/charges", idempotency.Middleware(store, scope)(createCharge))
}

// A function that begins and commits a transaction of its own does so within the request's.
func ExampleTx_within() {
	insertCharge := func(ctx context.Context, amount int64) error {
		outer, _ := postgres.Tx(ctx)
		tx, err := outer.Begin(ctx) // was pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if _, err := tx.Exec(ctx, "INSERT INTO charges (amount) VALUES ($1)", amount); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	_ = insertCharge
}

// A payment processor is asked under one derived key, however often the handler runs.
func ExampleForeign() {
	type payment struct{ ID string }
	client := saferetry.NewClient(nil)
	pay := func(r *http.Request) (payment, error) {
		return postgres.Foreign(r.Context(), "charge", func(ctx context.Context, key string) (p payment, err error) {
			// The client sends the key by itself. Another SDK is given it by hand.
			req, err := http.NewRequestWithContext(ctx, "POST", "https://processor.example/charges", strings.NewReader(`{"amount":2500}`))
			if err != nil {
				return p, postgres.Refused(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				return p, err
			}
			defer resp.Body.Close()
			return p, json.NewDecoder(resp.Body).Decode(&p)
		})
	}
	_ = pay
}

// A reconciler settles what the processor never answered, and whose client has not come back.
func ExampleStore_Pending() {
	reconcile := func(ctx context.Context, store *postgres.Store, ask func(key string) (payment any, err error)) error {
		pending, err := store.Pending(ctx, 15*time.Minute)
		for _, in := range pending {
			payment, err := ask(in.Key) // nil: the processor knows nothing of it
			if err != nil {
				return err
			}
			if err := store.Resolve(ctx, in.Key, payment); err != nil && err != postgres.ErrNotPending {
				return err
			}
		}
		return err
	}
	_ = reconcile
}
