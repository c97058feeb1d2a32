package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/saferetry/saferetry/idempotency"
)

// An Intent is a call of [Foreign] whose effect is not known to have taken place or not.
type Intent struct {
	ID        idempotency.ID // the operation
	Step      string
	Key       string    // what the processor was sent, and is to be asked by
	Attempts  int       // how often it was called: 1 or more
	FirstSent time.Time // the database's time, as is LastSent
	LastSent  time.Time
}

// ErrNotPending is the error of [Store.Resolve] for a key that is not pending: it is settled, or there never was an intent
// under it.
var ErrNotPending = errors.New("postgres: Resolve: want the key of a pending intent")

// Pending lists the intents that were last sent olderThan ago or before, oldest first, all of them: those whose
// processor's answer was lost, and whose client has not come back. olderThan should be longer than any call takes: one
// under way is pending too. Intents do not expire while they are pending.
//
// A reconciler asks the processor, by the intent's key, what became of it, and tells [Store.Resolve].
func (s *Store) Pending(ctx context.Context, olderThan time.Duration) ([]Intent, error) {
	rows, err := s.pool.Query(ctx, s.sql.pending, microseconds(olderThan))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Intent, error) {
		var in Intent
		err := row.Scan(&in.ID.Scope, &in.ID.Method, &in.ID.Path, &in.ID.Key,
			&in.Step, &in.Key, &in.Attempts, &in.FirstSent, &in.LastSent)
		for _, s := range []*string{&in.ID.Scope, &in.ID.Method, &in.ID.Path, &in.ID.Key, &in.Step} {
			*s = original(*s)
		}
		return in, err
	})
}

// Resolve settles the intent that was sent under key. answer is what [Foreign] returns from now on if the operation is
// asked for again, without a call; it is stored as JSON, and must suit the T of that Foreign. A charge that was
// refunded meanwhile is an answer too. Where the processor knows nothing of the key, answer is nil: Foreign
// calls again.
//
// The error is [ErrNotPending] if there is nothing to settle, the answer of a call that ended meanwhile included.
func (s *Store) Resolve(ctx context.Context, key string, answer any) error {
	var text *string
	if answer != nil {
		b, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("postgres: Resolve: the answer: %w", err)
		}
		kept := string(b)
		text = &kept
	}
	tag, err := exec(ctx, s.pool, s.sql.resolve, key, text)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrNotPending
	}
	return err
}
