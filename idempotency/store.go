package idempotency

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"
)

// An ID names the record of one logical operation. IDs are equal if all four parts are, byte by byte. None of the parts
// is bound to be UTF-8 or short, apart from the key.
type ID struct {
	Scope  string // the caller (tenant, account), as the scope function named it; may be empty
	Method string // the request's method
	Path   string // the request's escaped path, without its query
	Key    string // the idempotency key, unquoted: 1 to 255 visible ASCII characters
}

// An Answer is what a handler answered, as far as it is kept for replays.
type Answer struct {
	// Status is the status code: 200 or more, or 0 if the handler ended without any.
	Status int

	// Header has the fields the handler set, repeated ones in order. A field without values is one that it took away
	// or suppressed. Names that start with [http.TrailerPrefix] are trailers. Names need not be canonical, nor values
	// UTF-8: both are kept byte by byte.
	Header http.Header

	// Body has the bytes of the answer; nil or empty if there were none.
	Body []byte

	// NotStored says that the operation is completed but its answer cannot be had again: it was streamed, or too
	// large, or never came. Header and Body are empty then.
	NotStored bool
}

// clone returns a copy that shares nothing with a.
func (a Answer) clone() *Answer {
	a.Header = a.Header.Clone()
	a.Body = bytes.Clone(a.Body)
	return &a
}

// A State is what a request found when it claimed its key.
type State int

// The states of a claim. The zero State is none of them: it is what a store that failed returns beside its error.
const (
	Claimed    State = iota + 1 // this request holds the claim now and is to run the handler
	InProgress                  // another request holds it, and its lease has not ended
	Mismatch                    // there is a record, in progress or completed, with another fingerprint
	Completed                   // the operation is done; the claim carries its answer
)

// A Claim is what [Store.Claim] found. The zero Claim is that of a store that failed.
type Claim struct {
	State  State
	ID     ID
	Token  string  // tells this claim from every other that is or was made on ID; set when Claimed
	Answer *Answer // the receiver's own copy; set when Completed
}

// ErrLost is the error of [Store.Renew], [Store.Complete] and [Store.Release] for a claim that is not held any more:
// another request took over, or the claim was completed or released before.
var ErrLost = errors.New("idempotency: the claim is lost")

// A Store keeps one record for each [ID]. A record is made by a claim and is in one of two states:
//
//   - In progress: held by the claim with the record's token until the lease ends. It does not expire, however long it is
//     renewed. When the lease ends, the next claim takes over, whatever its fingerprint; until it does, the
//     holder has lost nothing and may still renew, complete or release. Once its retention has ended as well, the record
//     may be removed.
//   - Completed: it has an [Answer], until it expires. It expires at the claim's time plus its retention: from that very
//     instant (now >= expiry) on, a claim finds nothing, whether or not the record has been removed yet.
//
// What a method does to a record is one atomic step, seen by all other calls, in this and any other process that
// shares the store. All methods are called by many goroutines at once. Time is the store's: a store that several processes
// share must not measure it by their clocks.
//
// Every call but Begin has a context with the values of the request's context and a deadline of its own, ten seconds or
// less from then: work is not cut off because a client hung up. A call has to return when its context is done.
//
// Errors other than [ErrLost] mean that the store failed; it is compared by [errors.Is], so it may be wrapped. Expired
// records are the store's to remove, in steps that do not hold up claims. After it is closed, Claim fails.
//
// The package storetest checks most of what is said here against a store.
type Store interface {
	// Claim makes a record for id, in progress under a new token, and returns [Claimed], if there is none, if it has
	// expired, or if it is in progress and its lease has ended. The record's lease ends lease from now, its expiry is
	// retention from now; both are more than 0.
	//
	// Otherwise nothing changes: the state is [Mismatch] if the record has another fingerprint; else [InProgress], or
	// [Completed] with a copy of the answer. A request that cannot be told which, for whatever reason, gets an error
	// and the zero Claim.
	Claim(ctx context.Context, id ID, fingerprint [32]byte, lease, retention time.Duration) (Claim, error)

	// Begin is called once for a claim that was had, before its handler runs, and returns the handler's context: ctx,
	// or one made from it. A store with transactions opens one here and puts it into the context, for the handler to
	// write through.
	//
	// ctx is the request's: it is done when the client hangs up, and with the cause [ErrLost] when the claim is lost.
	// The transaction must not end with it: use [context.WithoutCancel] where a driver would tie them.
	//
	// If Begin fails, whatever it opened is closed when it returns. The handler does not run, and Release follows.
	Begin(ctx context.Context, c Claim) (context.Context, error)

	// Renew has the lease of c end lease from now, or fails with [ErrLost]. It is called about three times a lease
	// while the handler lives, also while Complete or Release is under way, and is not part of the transaction: ctx
	// does not have the values of Begin's context.
	Renew(ctx context.Context, c Claim, lease time.Duration) error

	// Complete makes the record of c completed, with a copy of a, or fails with [ErrLost]. The expiry stays as it was.
	//
	// It is called once, after the handler ended. ctx has the values of Begin's context. Transaction and record are
	// committed together: both are there afterwards, or neither is. When Complete returns, the transaction is ended, also
	// if it failed: then it is rolled back, and the record stays in progress until its lease ends; a store that knows for
	// certain that nothing of the handler's was committed may remove it at once. Nothing follows.
	Complete(ctx context.Context, c Claim, a Answer) error

	// Release removes the record of c, so that the key may be claimed again at once, or fails with [ErrLost].
	//
	// It is called in place of Complete if the handler is not done with its operation, and after a Begin that failed. ctx has
	// the values of Begin's context, if there is one. The transaction is rolled back, also if Release fails.
	Release(ctx context.Context, c Claim) error
}

// A SweepReporter is a [Store] that tells when it removed expired records. [Middleware] calls OnSweep once, if it has an
// observer, which then gets [EventSwept]. For a store it is optional.
type SweepReporter interface {
	// OnSweep has f called, by any goroutine, after records were removed, with their number.
	OnSweep(f func(removed int))
}
