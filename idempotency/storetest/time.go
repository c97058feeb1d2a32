package storetest

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/saferetry/saferetry/idempotency"
)

func leaseEnds(s *suite) {
	id := s.id("key")
	first := s.claim(id, one, idempotency.Claimed)
	rest := s.until(lease)
	s.claim(id, one, idempotency.InProgress)
	rest()
	second := s.claim(id, one, idempotency.Claimed)
	if first.Token == second.Token {
		s.Errorf("both claims have the token %q", first.Token)
	}
	s.claim(id, one, idempotency.InProgress)
}

func endedLeaseIsNotLost(s *suite) {
	renewed := s.claim(s.id("renewed"), one, idempotency.Claimed)
	completed := s.claim(s.id("completed"), one, idempotency.Claimed)
	released := s.claim(s.id("released"), one, idempotency.Claimed)
	s.Advance(2 * lease)
	s.noError("Renew", s.Store.Renew(s.Context(), renewed, lease))
	s.claim(renewed.ID, one, idempotency.InProgress)
	s.noError("Complete", s.Store.Complete(s.begin(completed), completed, created()))
	s.sameAnswer(completed.ID, created())
	s.noError("Release", s.Store.Release(s.begin(released), released))
	s.claim(released.ID, one, idempotency.Claimed)
}

func renewedLease(s *suite) {
	c := s.claim(s.id("key"), one, idempotency.Claimed)
	s.Advance(lease / 2)
	s.noError("Renew", s.Store.Renew(s.Context(), c, 2*lease))
	rest := s.until(2 * lease)
	s.claim(c.ID, one, idempotency.InProgress)
	rest()
	s.claim(c.ID, one, idempotency.Claimed)
}

func lateOwner(s *suite) {
	id := s.id("key")
	late := s.claim(id, one, idempotency.Claimed)
	s.Advance(lease + s.Slack)
	now := s.claim(id, one, idempotency.Claimed)
	s.lateCan(late)
	s.claim(id, one, idempotency.InProgress)

	answer := idempotency.Answer{Status: http.StatusOK, Body: []byte("of the second")}
	s.noError("Complete", s.Store.Complete(s.begin(now), now, answer))
	s.lateCan(late)
	s.sameAnswer(id, answer)
}

// lateCan wants the late owner to find its claim lost, whatever it tries.
func (s *suite) lateCan(late idempotency.Claim) {
	s.Helper()
	s.allLost(s.Context(), late)
	// With what Begin gave, as the middleware has it. A store may find out as soon as that.
	if ctx, err := s.Store.Begin(s.Context(), late); err == nil {
		s.lost("Complete", s.Store.Complete(ctx, late, created()))
	}
	if ctx, err := s.Store.Begin(s.Context(), late); err == nil {
		s.lost("Release", s.Store.Release(ctx, late))
	}
}

func takeoverWithOtherFingerprint(s *suite) {
	id := s.id("key")
	s.claim(id, one, idempotency.Claimed)
	s.Advance(lease + s.Slack)
	s.claim(id, other, idempotency.Claimed)
	s.claim(id, other, idempotency.InProgress)
	s.claim(id, one, idempotency.Mismatch)
}

func recordExpires(s *suite) {
	id := s.id("key")
	c := s.claim(id, one, idempotency.Claimed)
	s.Advance(lease / 2)
	s.noError("Complete", s.Store.Complete(s.begin(c), c, created()))
	rest := s.until(retention - lease/2)
	s.sameAnswer(id, created())
	s.claim(id, other, idempotency.Mismatch)
	rest()
	s.claim(id, other, idempotency.Claimed)
	s.claim(id, one, idempotency.Mismatch)
}

func retentionAfterTakeover(s *suite) {
	id := s.id("key")
	s.claim(id, one, idempotency.Claimed)
	s.Advance(retention / 2)
	s.complete(id, created())
	rest := s.until(retention)
	s.sameAnswer(id, created())
	rest()
	s.claim(id, one, idempotency.Claimed)
}

func inProgressDoesNotExpire(s *suite) {
	id := s.id("key")
	c := s.claimFor(id, one, lease, 2*lease, idempotency.Claimed)
	for range 12 {
		s.Advance(lease / 2)
		s.noError("Renew", s.Store.Renew(s.Context(), c, lease))
		s.sweep(1)
		s.claim(id, one, idempotency.InProgress)
	}
	s.noError("Complete", s.Store.Complete(s.begin(c), c, created()))
	s.claim(id, one, idempotency.Claimed) // its retention ended long ago
}

// sweep sweeps, if the fixture can, and wants so many records to be left.
func (s *suite) sweep(left int) {
	s.Helper()
	if s.Sweep == nil {
		return
	}
	s.Sweep()
	if s.Len != nil && s.Len() != left {
		s.Errorf("%d records are left after a sweep, want %d", s.Len(), left)
	}
}

func sweepLeavesLive(s *suite) {
	const records = 1000
	for i := range records {
		id := s.id(fmt.Sprint("old-", i))
		c := s.claimFor(id, one, lease, time.Hour, idempotency.Claimed)
		s.noError("Complete", s.Store.Complete(s.begin(c), c, created()))
	}
	s.sweep(records)
	s.complete(s.id("completed"), created())
	held := s.claimFor(s.id("in progress"), one, 2*time.Hour, time.Minute, idempotency.Claimed)
	s.Advance(time.Hour + s.Slack)
	s.sweep(2)
	s.sameAnswer(s.id("completed"), created())
	s.claim(held.ID, one, idempotency.InProgress)
	s.noError("Complete", s.Store.Complete(s.begin(held), held, created()))
	s.Advance(retention)
	s.sweep(0)
	s.claim(s.id("completed"), one, idempotency.Claimed)
	s.claim(s.id("old-0"), one, idempotency.Claimed)
}

func claimsWhileSweeping(s *suite) {
	const records, claims = 2000, 200
	for i := range records {
		s.claimFor(s.id(fmt.Sprint("old-", i)), one, time.Second, time.Minute, idempotency.Claimed)
	}
	s.Advance(time.Hour)
	var sweeps sync.WaitGroup
	if s.Sweep != nil {
		sweeps.Go(s.Sweep)
		sweeps.Go(s.Sweep)
	}
	atOnce(8, func(i int) {
		for k := range claims / 8 {
			// A new key, and one that is being swept.
			for _, id := range []idempotency.ID{s.id(fmt.Sprintf("new-%d-%d", i, k)), s.id(fmt.Sprint("old-", i*claims/8+k))} {
				if err := s.operate(id, id.Key); err != nil {
					s.Errorf("%s: %v", id.Key, err)
				}
			}
		}
	})
	sweeps.Wait()
	for i := range claims {
		key := fmt.Sprint("old-", i)
		s.sameAnswer(s.id(key), idempotency.Answer{Status: http.StatusOK, Body: []byte(key)})
	}
	s.sweep(2 * claims)
}

func closedStore(s *suite) {
	if s.Close == nil {
		return
	}
	s.complete(s.id("completed"), created())
	atOnce(8, func(int) { s.Close() })
	for _, key := range []string{"completed", "new"} {
		c, err := s.Store.Claim(s.Context(), s.id(key), one, lease, retention)
		if err == nil || c != (idempotency.Claim{}) {
			s.Errorf("Claim(%q) on a closed store: %+v, error %v; want an error and the zero Claim", key, c, err)
		}
	}
	s.Close()
}
