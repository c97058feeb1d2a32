package storetest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/saferetry/saferetry/idempotency"
)

// atOnce runs f in n goroutines that start together, and waits for them.
func atOnce(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func oneClaimWins(s *suite) {
	const claims, rounds = 64, 10
	for round := range rounds {
		id := s.id(fmt.Sprint("key-", round))
		states := make([]idempotency.State, claims)
		tokens := make([]string, claims)
		atOnce(claims, func(i int) {
			c, err := s.Store.Claim(s.Context(), id, one, lease, retention)
			if err != nil {
				s.Errorf("Claim: %v", err)
			}
			states[i], tokens[i] = c.State, c.Token
		})
		won := 0
		for _, state := range states {
			switch state {
			case idempotency.Claimed:
				won++
			case idempotency.InProgress:
			default:
				s.Fatalf("state %d, want Claimed once and InProgress else", state)
			}
		}
		if won != 1 {
			s.Fatalf("%d of %d claims at once won, want 1", won, claims)
		}
		c := idempotency.Claim{State: idempotency.Claimed, ID: id, Token: strings.Join(tokens, "")}
		s.noError("Complete", s.Store.Complete(s.begin(c), c, created()))
	}
}

func manyKeysAtOnce(s *suite) {
	const workers, keys = 16, 25
	atOnce(workers, func(i int) {
		for k := range keys {
			id := s.id(fmt.Sprintf("key-%d-%d", i, k))
			if err := s.operate(id, id.Key); err != nil {
				s.Errorf("%s: %v", id.Key, err)
			}
		}
	})
	for i := range workers {
		for k := range keys {
			key := fmt.Sprintf("key-%d-%d", i, k)
			s.sameAnswer(s.id(key), idempotency.Answer{Status: http.StatusOK, Body: []byte(key)})
		}
	}
}

// operate is complete, with an error instead of an end to the test: it may run in any goroutine.
func (s *suite) operate(id idempotency.ID, body string) error {
	c, err := s.Store.Claim(s.Context(), id, one, lease, retention)
	if err != nil || c.State != idempotency.Claimed {
		return fmt.Errorf("claim: state %d, error %v", c.State, err)
	}
	ctx, err := s.Store.Begin(s.Context(), c)
	if err != nil {
		return err
	}
	if err := s.Store.Renew(s.Context(), c, lease); err != nil {
		return err
	}
	return s.Store.Complete(ctx, c, idempotency.Answer{Status: http.StatusOK, Body: []byte(body)})
}

func fourParts(s *suite) {
	long := strings.Repeat("/long", 2000)
	for _, id := range []idempotency.ID{
		{Scope: "a", Method: "POST", Path: "/p", Key: "k"},
		{Scope: "b", Method: "POST", Path: "/p", Key: "k"},
		{Scope: "", Method: "POST", Path: "/p", Key: "k"},
		{Scope: "A", Method: "POST", Path: "/p", Key: "k"},
		{Scope: "a", Method: "PATCH", Path: "/p", Key: "k"},
		{Scope: "a", Method: "POST", Path: "/p/", Key: "k"},
		{Scope: "a", Method: "POST", Path: "/p", Key: "K"},
		{Scope: "a", Method: "POST", Path: "/pk", Key: "k"},
		{Scope: "a", Method: "POST", Path: "/p", Key: "kk"},
		{Scope: "aP", Method: "OST", Path: "/p", Key: "k"},
		{Scope: "a\x00", Method: "POST", Path: "/p", Key: "k"},
		{Scope: "a\xff", Method: "POST", Path: "/p", Key: "k"},
		{Scope: "a", Method: "POST", Path: long, Key: "k"},
		{Scope: "a", Method: "POST", Path: long, Key: strings.Repeat("~", 255)},
	} {
		id.Scope = s.Name() + "/" + id.Scope
		s.claim(id, one, idempotency.Claimed)
		s.claim(id, one, idempotency.InProgress)
	}
}

func secondClaim(s *suite) {
	id := s.id("key")
	c := s.claim(id, one, idempotency.Claimed)
	s.claim(id, one, idempotency.InProgress)
	s.claim(id, other, idempotency.Mismatch)
	s.noError("Complete", s.Store.Complete(s.begin(c), c, created()))
	s.claim(id, other, idempotency.Mismatch)
	s.sameAnswer(id, created())
	s.sameAnswer(id, created())
}

func answerComesBack(s *suite) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for key, a := range map[string]idempotency.Answer{
		"create":       created(),
		"empty":        {Status: http.StatusNoContent},
		"every byte":   {Status: 299, Body: every},
		"large":        {Status: 200, Body: []byte(strings.Repeat("0123456789abcdef", 1<<16))},
		"lines":        {Status: 200, Header: http.Header{"Link": {"<b>; rel=next", "<a>; rel=prev", "<b>; rel=next", "<b>; rel=last"}}},
		"empty value":  {Status: 200, Header: http.Header{"X-Empty": {""}, "X-None": {}}},
		"as written":   {Status: 200, Header: http.Header{"eTag": {`"1"`}, "ETAG": {`"2"`}, "Trailer:Sum": {"9"}}},
		"latin 1":      {Status: 200, Header: http.Header{"X-Name": {"caf\xe9"}}},
		"server error": {Status: 503, Body: []byte("out of order")},
	} {
		s.complete(s.id(key), a)
		s.sameAnswer(s.id(key), a)
	}
}

func notStoredComesBack(s *suite) {
	a := idempotency.Answer{Status: http.StatusOK, NotStored: true}
	s.complete(s.id("key"), a)
	s.sameAnswer(s.id("key"), a)
	s.claim(s.id("key"), other, idempotency.Mismatch)
}

func copies(s *suite) {
	id, a := s.id("key"), created()
	s.complete(id, a)
	spoil := func(a idempotency.Answer) {
		a.Body[0] = 'X'
		a.Header["Location"][0] = "/elsewhere"
		a.Header["X-New"] = []string{"new"}
	}
	spoil(a)
	s.sameAnswer(id, created())
	spoil(*s.claim(id, one, idempotency.Completed).Answer)
	s.sameAnswer(id, created())
}

func releasedKeyIsFree(s *suite) {
	id := s.id("key")
	first := s.claim(id, one, idempotency.Claimed)
	s.noError("Release", s.Store.Release(s.begin(first), first))
	second := s.claim(id, other, idempotency.Claimed)
	if first.Token == second.Token {
		s.Errorf("both claims have the token %q", first.Token)
	}
	s.lost("Renew of the first", s.Store.Renew(s.Context(), first, lease))
	s.claim(id, other, idempotency.InProgress)
}

func claimEndsOnce(s *suite) {
	c := s.claim(s.id("completed"), one, idempotency.Claimed)
	ctx := s.begin(c)
	s.noError("Complete", s.Store.Complete(ctx, c, created()))
	s.allLost(s.Context(), c)
	s.sameAnswer(c.ID, created())

	c = s.claim(s.id("released"), one, idempotency.Claimed)
	ctx = s.begin(c)
	s.noError("Release", s.Store.Release(ctx, c))
	s.allLost(s.Context(), c)
	s.claim(c.ID, one, idempotency.Claimed)

	s.allLost(s.Context(), idempotency.Claim{State: idempotency.Claimed, ID: s.id("never"), Token: c.Token})
}

func beginHandsContextOn(s *suite) {
	type valueKey struct{}
	c := s.claim(s.id("key"), one, idempotency.Claimed)
	parent, cancel := context.WithCancelCause(context.WithValue(s.Context(), valueKey{}, "value"))
	ctx, err := s.Store.Begin(parent, c)
	s.noError("Begin", err)
	if ctx.Value(valueKey{}) != "value" {
		s.Errorf("the handler's context does not have the values of the request's")
	}
	cancel(idempotency.ErrLost)
	if context.Cause(ctx) != idempotency.ErrLost {
		s.Errorf("the handler's context does not end with the request's, or not with its cause")
	}
	// The client hung up, and the claim is as good as before.
	s.noError("Complete", s.Store.Complete(context.WithoutCancel(ctx), c, created()))
	s.sameAnswer(c.ID, created())
}
