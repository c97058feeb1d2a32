package saferetry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// Attempt is one attempt of an operation.
type Attempt struct {
	Number   int            // 1 for the first
	Request  *http.Request  // as sent; nil in Do
	Response *http.Response // nil when Err is not; its body is not the classifier's to read
	Err      error
	Duration time.Duration // until the response headers, or the error
}

// Decision says what follows an attempt.
type Decision int

const (
	Stop  Decision = iota // hand over what there is
	Retry                 // try again, if attempts, body and time allow
)

// A Classifier decides what follows an attempt. It must be safe for concurrent
// use. It may call [DefaultClassifier] for what it does not care about.
type Classifier func(Attempt) Decision

// DefaultClassifier retries what may go better another time:
//
//   - an error of the connection, whatever it is, and an attempt that timed out;
//   - 408, 429 and every 5xx;
//   - a 409 on a keyed request that says that an earlier attempt is in progress:
//     by a Retry-After, or by its JSON body;
//   - any other answer that says X-Should-Retry or Stripe-Should-Retry: true.
//
// It stops at every other answer; at one that either of these headers marks
// false, or that is marked as a stored one, which will not change; and at an
// error that would come again: a certificate refused by either side, an HTTP
// answer to HTTPS, a request that net/http refuses to send, a cancellation.
//
// It is called with attempts that a Transport made, but an Attempt made by hand
// will do; one that has neither answer nor error is not retried. Of a 409 it may
// read the beginning of the body, which it puts back.
func DefaultClassifier(a Attempt) Decision {
	if a.Err != nil {
		return retryIf(!isPermanent(a))
	}
	if a.Response == nil {
		return Stop
	}
	h, status := a.Response.Header, a.Response.StatusCode
	wish := shouldRetry(h)
	inQuestion := wish == "true" || status == http.StatusConflict || isRetryableStatus(status)
	switch {
	case wish == "false", !inQuestion, isReplay(h):
		return Stop
	case wish != "true" && status == http.StatusConflict:
		inProgress, _ := isInProgress(a)
		return retryIf(inProgress)
	}
	return Retry
}

func isRetryableStatus(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
}

func retryIf(retry bool) Decision {
	if retry {
		return Retry
	}
	return Stop
}

func isPermanent(a Attempt) bool {
	if errors.Is(a.Err, context.Canceled) {
		// A base transport may cancel for reasons of its own while our caller still waits.
		op := operationFor(a.Request)
		return op == nil || op.ctx.Err() != nil
	}
	return isCertificateRefusal(a.Err) || errors.Is(a.Err, http.ErrSchemeMismatch) || isMalformed(a.Request, a.Err) ||
		errors.As(a.Err, new(*net.AddrError))
}

// replayMarkers are the headers by which servers mark a stored answer.
var replayMarkers = [...]string{"Idempotent-Replayed", "Idempotent-Replay", "Idempotency-Replayed",
	"Idempotency-Replay", "X-Idempotent-Replayed"}

func isReplay(h http.Header) bool {
	for _, name := range replayMarkers {
		if flag(h, name) == "true" {
			return true
		}
	}
	return false
}

// shouldRetry is the server's own word on a retry: "true", "false" or neither.
// Where two headers disagree, the one that says no counts.
func shouldRetry(h http.Header) string {
	own, stripe := flag(h, "X-Should-Retry"), flag(h, "Stripe-Should-Retry")
	if own == "" || stripe == "false" {
		return stripe
	}
	return own
}

// flag is the value of a field, in lower case. name must be canonical: these
// are looked up in every answer, and Header.Get would check the name each time.
func flag(h http.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(values[0]))
}

// statusVerdict says what an answer tells of the operation's effect. inProgress
// says of a 409 that it means, or may mean, an earlier attempt of the operation.
func statusVerdict(status int, inProgress bool) Outcome {
	switch {
	case status == http.StatusTemporaryRedirect, status == http.StatusPermanentRedirect:
		return Refused
	case status >= 200 && status < 400:
		return Performed
	case status == http.StatusRequestTimeout, status == http.StatusConflict && inProgress:
		return Unknown
	case status >= 400 && status < 500:
		return Refused
	}
	return Unknown
}
