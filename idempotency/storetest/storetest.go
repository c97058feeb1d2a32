// Package storetest checks that a store keeps the contract of [idempotency.Store]. For a store of your own, one test
// is enough:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Fixture {
//			clock := newClock()
//			s := mystore.New(mystore.WithClock(clock.Now))
//			return storetest.Fixture{Store: s, Advance: clock.Advance, Close: s.Close}
//		})
//	}
package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/saferetry/saferetry/idempotency"
)

// A Fixture is a store to be checked, and what it takes to check it. Store and Advance are needed.
type Fixture struct {
	// Store has no records yet, at least none whose scope begins with the name of the test.
	Store idempotency.Store

	// Advance moves the store's clock on by d, or has the same effect: a store on a database may take d from the times
	// of its records.
	Advance func(d time.Duration)

	// Slack is how far from an instant the checks are to stay, for a clock that goes on by itself: a second, say. The
	// zero value is for a clock that stands still but for Advance; instants are then checked to the nanosecond.
	Slack time.Duration

	// Sweep removes the expired records, until there are none. It is called while claims go on. Nil: not checked.
	Sweep func()

	// Len returns the number of records, expired ones that are not swept among them. Nil: not checked.
	Len func() int

	// Close closes the store. It may be called again, and at once from many goroutines. Nil: not checked.
	Close func()
}

// Run checks the stores that newStore makes, a new one for each subtest. newStore may use t.Cleanup to take a store down.
func Run(t *testing.T, newStore func(t *testing.T) Fixture) {
	for _, check := range []struct {
		name string
		run  func(*suite)
	}{
		{"one of many claims at once wins", oneClaimWins},
		{"many keys at once", manyKeysAtOnce},
		{"an ID has four parts", fourParts},
		{"a second claim is told what there is", secondClaim},
		{"an answer comes back as it was", answerComesBack},
		{"what is not stored comes back so", notStoredComesBack},
		{"copies go in and come out", copies},
		{"a released key is free", releasedKeyIsFree},
		{"a claim ends once", claimEndsOnce},
		{"Begin hands the context on", beginHandsContextOn},
		{"a lease ends at its instant", leaseEnds},
		{"a lease that ended is not lost until another claims", endedLeaseIsNotLost},
		{"a renewed lease counts from the renewal", renewedLease},
		{"a late owner can do nothing", lateOwner},
		{"a takeover may have another fingerprint", takeoverWithOtherFingerprint},
		{"a record expires at its instant", recordExpires},
		{"a retention counts from the claim that completed", retentionAfterTakeover},
		{"a record in progress does not expire", inProgressDoesNotExpire},
		{"sweeping leaves what is live", sweepLeavesLive},
		{"claims go on while sweeping", claimsWhileSweeping},
		{"a closed store claims nothing", closedStore},
	} {
		t.Run(check.name, func(t *testing.T) {
			check.run(&suite{Fixture: newStore(t), T: t})
		})
	}
}

const (
	lease     = time.Minute
	retention = 24 * time.Hour
)

// A suite is one check of one store.
type suite struct {
	Fixture
	*testing.T
}

var (
	one   = sha256.Sum256([]byte("one"))
	other = sha256.Sum256([]byte("other"))
)

// id returns the ID of key, of a scope of the test's own.
func (s *suite) id(key string) idempotency.ID {
	return idempotency.ID{Scope: s.Name(), Method: "POST", Path: "/v1/charges", Key: key}
}

// claim claims id and wants to find state.
func (s *suite) claim(id idempotency.ID, fingerprint [32]byte, want idempotency.State) idempotency.Claim {
	s.Helper()
	return s.claimFor(id, fingerprint, lease, retention, want)
}

func (s *suite) claimFor(id idempotency.ID, fingerprint [32]byte, lease, retention time.Duration, want idempotency.State) idempotency.Claim {
	s.Helper()
	c, err := s.Store.Claim(s.Context(), id, fingerprint, lease, retention)
	if err != nil {
		s.Fatalf("Claim(%q): %v", id.Key, err)
	}
	if c.State != want {
		s.Fatalf("Claim(%q): state %d, want %d", id.Key, c.State, want)
	}
	if c.ID != id {
		s.Fatalf("Claim(%q): ID %+v, want %+v", id.Key, c.ID, id)
	}
	if claimed := c.State == idempotency.Claimed; claimed != (c.Token != "") {
		s.Fatalf("Claim(%q): state %d with token %q: want a token when claimed, else none", id.Key, c.State, c.Token)
	}
	if completed := c.State == idempotency.Completed; completed != (c.Answer != nil) {
		s.Fatalf("Claim(%q): state %d with answer %v: want one when completed, else none", id.Key, c.State, c.Answer)
	}
	return c
}

// begin is Begin for a claim, whose context the end of the claim wants.
func (s *suite) begin(c idempotency.Claim) context.Context {
	s.Helper()
	ctx, err := s.Store.Begin(s.Context(), c)
	if err != nil {
		s.Fatalf("Begin: %v", err)
	}
	return ctx
}

// complete runs an operation on id from claim to answer.
func (s *suite) complete(id idempotency.ID, a idempotency.Answer) {
	s.Helper()
	c := s.claim(id, one, idempotency.Claimed)
	s.noError("Complete", s.Store.Complete(s.begin(c), c, a))
}

func (s *suite) noError(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s *suite) lost(what string, err error) {
	s.Helper()
	if !errors.Is(err, idempotency.ErrLost) {
		s.Fatalf("%s: %v, want ErrLost", what, err)
	}
}

// allLost wants c to be held no more. ctx is what Begin returned for it.
func (s *suite) allLost(ctx context.Context, c idempotency.Claim) {
	s.Helper()
	s.lost("Renew", s.Store.Renew(s.Context(), c, lease))
	s.lost("Complete", s.Store.Complete(ctx, c, created()))
	s.lost("Release", s.Store.Release(ctx, c))
}

// sameAnswer wants the answer under id to be that one.
func (s *suite) sameAnswer(id idempotency.ID, want idempotency.Answer) {
	s.Helper()
	got := s.claim(id, one, idempotency.Completed).Answer
	if got.Status != want.Status || got.NotStored != want.NotStored {
		s.Errorf("answer has status %d, not stored %v; want %d, %v", got.Status, got.NotStored, want.Status, want.NotStored)
	}
	if !bytes.Equal(got.Body, want.Body) {
		s.Errorf("answer has body %q, want %q", got.Body, want.Body)
	}
	if len(got.Header) != len(want.Header) {
		s.Errorf("answer has header %v, want %v", got.Header, want.Header)
	}
	for name, values := range want.Header {
		if _, ok := got.Header[name]; !ok || len(values)+len(got.Header[name]) > 0 && !reflect.DeepEqual(got.Header[name], values) {
			s.Errorf("answer has %s: %q, want %q", name, got.Header[name], values)
		}
	}
}

// until moves the clock to just before d from now, and after runs the rest of the way. With a clock that stands
// still, that is a nanosecond; else the slack.
func (s *suite) until(d time.Duration) (rest func()) {
	step := max(s.Slack, 1)
	s.Advance(d - step)
	if s.Slack > 0 {
		step = 2 * s.Slack
	}
	return func() { s.Advance(step) }
}

// created is an answer such as a create has.
func created() idempotency.Answer {
	return idempotency.Answer{
		Status: http.StatusCreated,
		Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/v1/charges/ch_1"}},
		Body:   []byte(`{"id":"ch_1"}`),
	}
}
