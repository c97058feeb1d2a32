package idempotency

import (
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
	wantOption(store != nil, "Middleware", nil, "a Store")
	wantOption(scope != nil, "Middleware", nil, "a scope function")
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
		scopeUnresolved.write(w)
		return
	}
	key, err := keyOf(r.Header)
	switch {
	case err == errKeyMissing && m.optionalKey:
		next.ServeHTTP(w, r)
		return
	case err == errKeyMissing:
		keyMissing.write(w)
		return
	case err != nil:
		keyInvalid.because(err.Error()).write(w)
		return
	}
	body, bad := m.readBody(r)
	if bad != nil {
		bad.write(w)
		return
	}
	fingerprint, err := m.fingerprintOf(r, body)
	if err != nil {
		fingerprintFailed.write(w)
		return
	}
	id := ID{Scope: scope, Method: r.Method, Path: r.URL.EscapedPath(), Key: key}
	claim, err := m.claim(r.Context(), id, fingerprint)
	if err != nil {
		m.logFailure("claim", id, err)
		storeUnavailable.write(w)
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
	kind, p := EventReplayed, problem{}
	switch {
	case c.State == Mismatch:
		kind, p = EventMismatch, keyReuse
	case c.State == InProgress:
		kind, p = EventConflict, keyInProgress
	case c.Answer.NotStored:
		kind, p = EventConflict, answerNotStored
	default:
		m.emit(Event{Kind: EventReplayed, ID: id, Status: c.Answer.Status})
		w.Header()[m.marker] = []string{"true"}
		sendAnswer(w, c.Answer.Status, c.Answer.Header, c.Answer.Body)
		return
	}
	m.emit(Event{Kind: kind, ID: id, Status: p.status})
	p.write(w)
}

// readBody reads the whole body, up to the limit, or tells why it cannot. A length declared beyond the limit is refused
// without reading, and so without the 100 Continue that a client may wait for.
func (m *middleware) readBody(r *http.Request) (body []byte, bad *problem) {
	var err error
	if r.ContentLength <= m.bodyLimit {
		body, err = readPast(r.Body, m.bodyLimit, r.ContentLength)
	}
	var outer *http.MaxBytesError
	switch {
	case max(r.ContentLength, int64(len(body))) > m.bodyLimit, errors.As(err, &outer):
		tooLarge := requestTooLarge.because("the body may have at most " + strconv.FormatInt(m.bodyLimit, 10) + " bytes")
		return nil, &tooLarge
	case err != nil:
		return nil, &bodyUnreadable
	}
	return body, nil
}

// readPast reads all of r, or more than limit bytes. size is how many the client says there are, or negative; it is
// believed only so far.
func readPast(r io.Reader, limit, size int64) ([]byte, error) {
	const unknown, most = 512, 64 << 10
	if r == nil || r == http.NoBody {
		return nil, nil
	}
	if size < 0 {
		size = unknown
	}
	buf := make([]byte, 0, min(size, most)+1) // the read that finds the end needs room too
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF, err == nil && int64(len(buf)) > limit:
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) == cap(buf):
			buf = append(buf, 0)[:len(buf)]
		}
	}
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

func (m *middleware) logLost(id ID) {
	if m.logger != nil {
		m.logger.LogAttrs(context.Background(), slog.LevelWarn, "idempotency: another request took over", redacted(id)...)
	}
}

func (m *middleware) logFailure(step string, id ID, err error) {
	if m.logger == nil {
		return
	}
	attrs := append(redacted(id), slog.String("step", step), slog.Any("error", err))
	m.logger.LogAttrs(context.Background(), slog.LevelError, "idempotency: the store failed", attrs...)
}
