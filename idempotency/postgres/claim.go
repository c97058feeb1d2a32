package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/saferetry/saferetry/idempotency"
)

// Claim implements [idempotency.Store], in one round trip. The claim is committed when it returns. While another request
// holds the key, or has completed it, nothing is locked and nothing waits.
func (s *Store) Claim(ctx context.Context, id idempotency.ID, fingerprint [32]byte, lease, retention time.Duration) (idempotency.Claim, error) {
	if err := s.sweeper.start(); err != nil {
		return idempotency.Claim{}, err
	}
	token := rand.Text()
	args := []any{recordID(id), readable(id.Scope), readable(id.Method), readable(id.Path), readable(id.Key),
		fingerprint[:], token, microseconds(lease), microseconds(retention)}
	tag, err := s.pool.Exec(ctx, s.sql.insert, args...)
	if err == nil && tag.RowsAffected() > 0 {
		return idempotency.Claim{State: idempotency.Claimed, ID: id, Token: token}, nil
	}
	var found row
	for again := true; ; {
		switch {
		case err == nil, errors.Is(err, pgx.ErrNoRows), wasRaced(err): // there is a record
		case wasCutOff(err) && again:
			again = false // the claim may be committed, and is known by its token
		default:
			return idempotency.Claim{}, err
		}
		if ctx.Err() != nil {
			return idempotency.Claim{}, context.Cause(ctx)
		}
		err = s.pool.QueryRow(ctx, s.sql.claim, args...).Scan(
			&found.fingerprint, &found.status, &found.notStored, &found.header, &found.body)
		if err == nil {
			return found.claim(id, fingerprint, token)
		}
	}
}

// claim returns what a request with fingerprint, which would hold the key under token, is told.
func (r *row) claim(id idempotency.ID, fingerprint [32]byte, token string) (idempotency.Claim, error) {
	switch {
	case r.fingerprint == nil:
		return idempotency.Claim{State: idempotency.Claimed, ID: id, Token: token}, nil
	case [32]byte(r.fingerprint) != fingerprint:
		return idempotency.Claim{State: idempotency.Mismatch, ID: id}, nil
	case r.status == nil:
		return idempotency.Claim{State: idempotency.InProgress, ID: id}, nil
	}
	answer, err := r.answer()
	if err != nil {
		return idempotency.Claim{}, err
	}
	return idempotency.Claim{State: idempotency.Completed, ID: id, Answer: answer}, nil
}

// Renew implements [idempotency.Store]. It does not use the pool's connections: see [New].
func (s *Store) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	pool, err := s.reserve.get(ctx)
	if err != nil {
		return err
	}
	tag, err := exec(ctx, pool, s.sql.renew, recordID(c.ID), c.Token, microseconds(lease))
	return lostUnless(tag, err)
}

// lostUnless returns ErrLost if a statement on the record of a claim found none.
func lostUnless(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.RowsAffected() == 0 {
		return idempotency.ErrLost
	}
	return err
}

// microseconds rounds up: what is more than nothing stays so.
func microseconds(d time.Duration) int64 {
	us := d.Microseconds()
	if d > time.Duration(us)*time.Microsecond {
		us++
	}
	return us
}
