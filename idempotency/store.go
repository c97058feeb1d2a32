package idempotency

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"
)

// An ID names the record of one logical operation. Its four parts are compared byte by byte.
type ID struct {
	Scope  string // the caller (tenant, account), as the scope function named it; may be empty
	Method string // the request's method
	Path   string // the request's escaped path, without its query
	Key    string // the idempotency key, unquoted: 1 to 255 visible ASCII characters
}

// An Answer is what a handler answered, as far as it is kept for replays.
type Answer struct {
	// Status is the status code, 200 or more.
	Status int

	// Header has the fields the handler set, repeated ones in order. A field with no values was taken away or
	// suppressed by the handler. Names that start with [http.TrailerPrefix] are trailers. A store keeps names and
	// values as they are.
	Header http.Header

	// Body has the bytes of the answer, nil or empty when there were none.
	Body []byte

	// NotStored says that the operation is completed but its answer was not kept: it was streamed, or too large.
	// Header and Body are empty then.
	NotStored bool
}

// clone returns a copy that shares nothing with a.
func (a Answer) clone() *Answer {
	a.Header = a.Header.Clone()
	a.Body = bytes.Clone(a.Body)
	return &a
}

// A State is what a store found when a request claimed its key.
type State int

// The states of a claim. The zero State is not one of them: it means that the store failed.
const (
	Claimed    State = iota + 1 // this request holds the claim and runs the handler
	InProgress                  // another request holds it, and its lease has not ended
	Mismatch                    // the key was used with another fingerprint
	Completed                   // the operation is done; the claim carries its answer
)

// A Claim is a store's answer to [Store.Claim]. The zero Claim comes with an error.
type Claim struct {
	State  State
	ID     ID
	Token  string  // names this claim among all there ever were on ID; only when Claimed
	Answer *Answer // a copy, the receiver's own; only when Completed
}

// ErrLost is the error of [Store.Renew], [Store.Complete] and [Store.Release] for a claim that is no longer held:
// another request took over after its lease ended, or it was completed or released before.
var ErrLost = errors.New("idempotency: the claim is lost")

// A Store keeps one record per [ID]. Its methods are called by many goroutines at once.
type Store interface {
	Claim(ctx context.Context, id ID, fingerprint [32]byte, lease, retention time.Duration) (Claim, error)
	Begin(ctx context.Context, c Claim) (context.Context, error)
	Renew(ctx context.Context, c Claim, lease time.Duration) error
	Complete(ctx context.Context, c Claim, a Answer) error
	Release(ctx context.Context, c Claim) error
}

// A SweepReporter is a [Store] that tells when it removed expired records. [Middleware] passes it on to its observer
// as [EventSwept]. Implementing it is optional.
type SweepReporter interface {
	OnSweep(f func(removed int))
}
