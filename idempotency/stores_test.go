package idempotency_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/saferetry/saferetry/idempotency"
)

// A countingStore counts calls.
type countingStore struct {
	*idempotency.MemoryStore
	claims, renewals atomic.Int64
}

func (s *countingStore) Claim(ctx context.Context, id idempotency.ID, fingerprint [32]byte, lease, retention time.Duration) (idempotency.Claim, error) {
	s.claims.Add(1)
	return s.MemoryStore.Claim(ctx, id, fingerprint, lease, retention)
}

func (s *countingStore) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	s.renewals.Add(1)
	return s.MemoryStore.Renew(ctx, c, lease)
}

// A faultyStore does something else first, where it is told to; if that fails, the store does.
type faultyStore struct {
	*idempotency.MemoryStore
	claim, begin, renew, complete, release func(context.Context) error
}

func fault(ctx context.Context, f func(context.Context) error) error {
	if f == nil {
		return nil
	}
	return f(ctx)
}

func (s *faultyStore) Claim(ctx context.Context, id idempotency.ID, fingerprint [32]byte, lease, retention time.Duration) (idempotency.Claim, error) {
	if err := fault(ctx, s.claim); err != nil {
		return idempotency.Claim{}, err
	}
	return s.MemoryStore.Claim(ctx, id, fingerprint, lease, retention)
}

type begunKey struct{}

func (s *faultyStore) Begin(ctx context.Context, c idempotency.Claim) (context.Context, error) {
	if err := fault(ctx, s.begin); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, begunKey{}, "begun"), nil
}

func (s *faultyStore) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	if err := fault(ctx, s.renew); err != nil {
		return err
	}
	return s.MemoryStore.Renew(ctx, c, lease)
}

func (s *faultyStore) Complete(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
	if err := fault(ctx, s.complete); err != nil {
		return err
	}
	return s.MemoryStore.Complete(ctx, c, a)
}

func (s *faultyStore) Release(ctx context.Context, c idempotency.Claim) error {
	if err := fault(ctx, s.release); err != nil {
		return err
	}
	return s.MemoryStore.Release(ctx, c)
}
