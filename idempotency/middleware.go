package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// storeTimeout bounds every call of a store: they run detached from the request.
const storeTimeout = 10 * time.Second

// Middleware returns a wrapper for handlers that performs an operation once for each key, however many requests ask for
// it, as the package comment says. scope names the caller of a request: two callers' equal keys are different
// operations. An error from it is answered with 401, and nothing else of the request is looked at.
//
// The wrapper may be put around any number of handlers. It is plain net/http, so it works with [http.ServeMux] and
// any other router.
func Middleware(store Store, scope func(*http.Request) (string, error), opts ...Option) func(http.Handler) http.Handler {
	wantOption(store != nil, "Middleware", "nil", "a Store")
	wantOption(scope != nil, "Middleware", "nil", "a scope function")
	m := &middleware{config: newConfig(opts), store: store, scope: scope}
	m.observeSweeps()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	config
	store Store
	scope func(*http.Request) (string, error)
}

// serve is the course of one request, up to the run of the handler.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !slices.Contains(m.methods, r.Method) {
		next.ServeHTTP(w, r)
		return
	}
	scope, err := m.scope(r)
	if err != nil {
		scopeUnresolved.write(w, "the caller of this request could not be told")
		return
	}
	key, err := keyOf(r.Header)
	if err == errKeyMissing && m.optionalKey {
		next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		p := keyInvalid
		if err == errKeyMissing {
			p = keyMissing
		}
		p.write(w, err.Error())
		return
	}
	body, ok := m.readBody(w, r)
	if !ok {
		return
	}
	fingerprint, err := m.fingerprintOf(r, body)
	if err != nil {
		fingerprintFailed.write(w, err.Error())
		return
	}
	id := ID{Scope: scope, Method: r.Method, Path: r.URL.EscapedPath(), Key: key}
	claim, err := m.claim(r.Context(), id, fingerprint)
	if err != nil {
		m.logFailure("claim", id, err)
		storeUnavailable.write(w, "the key could not be claimed; nothing was done")
		return
	}
	if claim.State == Claimed {
		m.perform(w, r, next, claim, body)
		return
	}
	m.answer(w, id, claim)
}

// answer tells a request that came second what became of the first.
func (m *middleware) answer(w http.ResponseWriter, id ID, c Claim) {
	switch {
	case c.State == Mismatch:
		m.emit(Event{Kind: EventMismatch, ID: id, Status: keyReuse.status})
		keyReuse.write(w, "the first request under this key had another query or body")
	case c.State == InProgress:
		m.emit(Event{Kind: EventConflict, ID: id, Status: keyInProgress.status})
		keyInProgress.write(w, "the first request under this key has not ended yet")
	case c.Answer.NotStored:
		m.emit(Event{Kind: EventConflict, ID: id, Status: answerNotStored.status})
		answerNotStored.write(w, "the first request under this key was performed; there is nothing to be retried")
	default:
		m.emit(Event{Kind: EventReplayed, ID: id, Status: c.Answer.Status})
		w.Header()[m.marker] = []string{"true"}
		sendAnswer(w, c.Answer.Status, c.Answer.Header, c.Answer.Body)
	}
}

// readBody reads the whole body, up to the limit, or answers why not.
func (m *middleware) readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	var tooLarge *http.MaxBytesError
	body, err := []byte(nil), error(nil)
	if r.ContentLength <= m.bodyLimit {
		body, err = readUpTo(r.Body, m.bodyLimit, r.ContentLength)
	}
	switch {
	case r.ContentLength > m.bodyLimit, err == nil && int64(len(body)) > m.bodyLimit, errors.As(err, &tooLarge):
		requestTooLarge.write(w, "the body may have at most "+strconv.FormatInt(m.bodyLimit, 10)+" bytes")
		return nil, false
	case err != nil:
		bodyUnreadable.write(w, "the body ended before its time")
		return nil, false
	}
	return body, true
}

// readUpTo reads at most one byte more than limit. size is what is expected, or negative.
func readUpTo(r io.Reader, limit, size int64) ([]byte, error) {
	if r == nil || r == http.NoBody {
		return nil, nil
	}
	var buf bytes.Buffer
	if size > 0 {
		buf.Grow(int(size) + bytes.MinRead) // so that the read which finds the end needs no more room
	}
	_, err := buf.ReadFrom(io.LimitReader(r, limit+1))
	return buf.Bytes(), err
}

func (m *middleware) fingerprintOf(r *http.Request, body []byte) ([32]byte, error) {
	if m.fingerprint == nil {
		return rawFingerprint(r, body), nil
	}
	b, err := m.fingerprint(r, body)
	return sha256.Sum256(b), err
}

// claim claims the key. While another request holds it, it waits up to hold.
func (m *middleware) claim(ctx context.Context, id ID, fingerprint [32]byte) (Claim, error) {
	const firstWait, longestWait = 10 * time.Millisecond, 250 * time.Millisecond
	left := m.hold
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		c, err := m.claimOnce(ctx, id, fingerprint)
		if err != nil || c.State != InProgress || left <= 0 || !sleep(ctx, min(wait, left)) {
			return c, err
		}
		left -= wait
	}
}

// claimOnce claims on a context detached from the request: a claim cut off by a client that hangs up could be there
// without anybody who knows its token.
func (m *middleware) claimOnce(ctx context.Context, id ID, fingerprint [32]byte) (Claim, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	c, err := m.store.Claim(ctx, id, fingerprint, m.lease, m.retention)
	if err != nil {
		return Claim{}, err
	}
	if c.State < Claimed || c.State > Completed || c.State == Completed && c.Answer == nil {
		return Claim{}, fmt.Errorf("idempotency: the store answered a claim with state %d and no error", c.State)
	}
	return c, nil
}

// sleep waits for d and reports whether ctx lives.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// detached returns a context with the values of ctx, without its end, for a call of the store.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

func (m *middleware) emit(e Event) {
	if m.observer != nil {
		e.N = max(e.N, 1)
		m.observer(e)
	}
}

// observeSweeps has the store's sweeps reported to the observer, if it tells of them.
func (m *middleware) observeSweeps() {
	s, ok := m.store.(SweepReporter)
	if ok && m.observer != nil {
		s.OnSweep(func(removed int) { m.emit(Event{Kind: EventSwept, N: removed}) })
	}
}

func (m *middleware) logFailure(step string, id ID, err error) {
	if m.logger == nil {
		return
	}
	attrs := append(redacted(id), slog.String("step", step), slog.Any("error", err))
	m.logger.LogAttrs(context.Background(), slog.LevelError, "idempotency: the store failed", attrs...)
}
