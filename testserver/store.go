package testserver

import (
	"context"
	"errors"

	"github.com/saferetry/saferetry/idempotency"
)

// A store keeps the key records in a MemoryStore and ties the ledger to them: an
// operation's changes and its record are committed as one step.
type store struct {
	*idempotency.MemoryStore
	ledger *ledger
}

type (
	txKey    struct{}
	crashKey struct{}
)

var errCrashed = errors.New("testserver: crashed before the write")

// withCrash marks a request whose server dies once it is claimed.
func withCrash(ctx context.Context) context.Context {
	return context.WithValue(ctx, crashKey{}, true)
}

func crashes(ctx context.Context) bool { return ctx.Value(crashKey{}) != nil }

// Begin opens a transaction. It is where CrashBeforeWrite strikes: the claim is
// there, the handler does not run, the lease is not renewed.
func (s *store) Begin(ctx context.Context, c idempotency.Claim) (context.Context, error) {
	if crashes(ctx) {
		return nil, errCrashed
	}
	return context.WithValue(ctx, txKey{}, &tx{ledger: s.ledger, id: c.ID}), nil
}

// Complete commits the record and the changes, or neither. Whoever sees the
// record, even before Complete has returned, finds the changes: reading the
// ledger waits for the commit to end.
func (s *store) Complete(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
	tx := txOf(ctx)
	defer tx.end()
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if err := s.MemoryStore.Complete(ctx, c, a); err != nil {
		return err
	}
	tx.apply()
	return nil
}

// Release drops the changes and frees the key. The dead release nothing: their
// claim lingers until its lease ends.
func (s *store) Release(ctx context.Context, c idempotency.Claim) error {
	if crashes(ctx) {
		return nil
	}
	defer txOf(ctx).end()
	return s.MemoryStore.Release(ctx, c)
}

// A tx has the changes of one operation until they are committed or dropped. The
// handler's goroutine alone uses it.
type tx struct {
	ledger  *ledger
	id      idempotency.ID
	changes []func() // to be run with ledger.mu held
	locked  []*row
}

// txOf returns the transaction of the request being handled, or nil.
func txOf(ctx context.Context) *tx {
	t, _ := ctx.Value(txKey{}).(*tx)
	return t
}

// insert makes a charge and returns it as it will be.
func (t *tx) insert(c Charge) Charge {
	c.ID, c.Key = t.ledger.newID(), t.id.Key
	r := &row{tenant: t.id.Scope, charge: c}
	t.changes = append(t.changes, func() { t.ledger.rows = append(t.ledger.rows, r) })
	return c
}

// increment adds one to the retries of r's charge and returns it as it will be.
// Until the transaction ends no other changes r, so that is what it will be.
func (t *tx) increment(r *row) Charge {
	r.changing.Lock()
	t.locked = append(t.locked, r)
	c := t.ledger.read(r)
	c.Retries++
	t.changes = append(t.changes, func() { r.charge = c })
	return c
}

// apply makes the changes. ledger.mu is held.
func (t *tx) apply() {
	for _, change := range t.changes {
		change()
	}
	if len(t.changes) > 0 {
		t.ledger.executions[t.id.Key]++
	}
}

// end lets others change what t has locked.
func (t *tx) end() {
	for _, r := range t.locked {
		r.changing.Unlock()
	}
}
