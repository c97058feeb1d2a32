package idempotency

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Option changes a default of [Middleware]. A value that makes no sense panics there.
type Option func(*config)

type config struct {
	methods     []string
	optionalKey bool
	bodyLimit   int64
	answerLimit int64
	retention   time.Duration
	lease       time.Duration
	hold        time.Duration
	stored      func(status int) bool
	fingerprint func(*http.Request, []byte) ([]byte, error) // nil: rawFingerprint
	marker      string
	logger      *slog.Logger // nil: none
	observer    func(Event)  // nil: none
}

func newConfig(opts []Option) config {
	c := config{
		methods:     []string{http.MethodPost, http.MethodPatch},
		bodyLimit:   1 << 20,
		answerLimit: 1 << 20,
		retention:   24 * time.Hour,
		lease:       time.Minute,
		stored:      func(status int) bool { return 200 <= status && status <= 399 },
		marker:      "Idempotent-Replayed",
	}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// WithMethods names the methods that need a key; others pass through untouched. The default is POST and PATCH. With no
// method given, every request passes through.
func WithMethods(methods ...string) Option {
	return func(c *config) {
		for _, m := range methods {
			wantOption(m != "" && m == strings.ToUpper(m), "WithMethods", m, "a method in upper case")
		}
		c.methods = slices.Clone(methods)
	}
}

// WithOptionalKey lets a request without a key pass through untouched, instead of being refused. A key that is there
// and not valid is refused all the same.
func WithOptionalKey() Option {
	return func(c *config) { c.optionalKey = true }
}

// WithBodyLimit sets how many bytes a request's body may have, 0 or more; it is held in memory. A larger one is
// refused with 413. The default is 1 MiB.
func WithBodyLimit(n int64) Option {
	return func(c *config) {
		wantOption(n >= 0, "WithBodyLimit", n, "0 or more")
		c.bodyLimit = n
	}
}

// WithAnswerLimit sets how many bytes an answer's body may have to be stored, 0 or more; up to that it is held in
// memory. A larger one is streamed, and a retry is told 409 instead of getting it again. The default is 1 MiB.
func WithAnswerLimit(n int64) Option {
	return func(c *config) {
		wantOption(n >= 0, "WithAnswerLimit", n, "0 or more")
		c.answerLimit = n
	}
}

// WithRetention sets how long after its claim a completed operation is remembered, more than 0. The default is 24h.
func WithRetention(d time.Duration) Option {
	return func(c *config) {
		wantOption(d > 0, "WithRetention", d, "more than 0")
		c.retention = d
	}
}

// WithLease sets how long a claim lasts without being renewed, more than 0: how long a key stays taken after the
// process that held it died. It is renewed three times a lease while the handler lives. The default is a minute.
func WithLease(d time.Duration) Option {
	return func(c *config) {
		wantOption(d > 0, "WithLease", d, "more than 0")
		c.lease = d
	}
}

// WithHold has a duplicate of a request in flight wait up to d for its answer, instead of being told 409 at once. If the
// first is released meanwhile, the duplicate runs the handler. The wait ends with the request's context. The default is
// 0: no wait.
func WithHold(d time.Duration) Option {
	return func(c *config) {
		wantOption(d >= 0, "WithHold", d, "0 or more")
		c.hold = d
	}
}

// WithStoredStatus says which statuses, 200 or more, complete the operation, so that the answer is stored; any other
// releases the key. The default is 200 to 399. See also [Performed].
func WithStoredStatus(stored func(status int) bool) Option {
	return func(c *config) {
		wantOption(stored != nil, "WithStoredStatus", nil, "a function")
		c.stored = stored
	}
}

// WithFingerprint says what tells two requests under one key apart; its SHA-256 is kept. An error is answered with 400
// fingerprint_failed. The default is the query and the raw body; see also [JSONFingerprint].
func WithFingerprint(fingerprint func(r *http.Request, body []byte) ([]byte, error)) Option {
	return func(c *config) {
		wantOption(fingerprint != nil, "WithFingerprint", nil, "a function")
		c.fingerprint = fingerprint
	}
}

// WithReplayHeader names the header that marks a replay with "true". The default is Idempotent-Replayed.
func WithReplayHeader(name string) Option {
	return func(c *config) {
		wantOption(isToken(name), "WithReplayHeader", name, "a header name")
		c.marker = http.CanonicalHeaderKey(name)
	}
}

// WithLogger logs what an operator has to know: a store that fails, a claim that is lost. A line has the method, the
// path and the first 8 characters of the key; never a scope, a query, a header or a body. The default, and nil, is none.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.logger = l }
}

// WithObserver has every [Event] reported to observe, which is called by many goroutines at once, in the request's
// course, and so should return soon. The default, and nil, is none.
func WithObserver(observe func(Event)) Option {
	return func(c *config) { c.observer = observe }
}

// wantOption panics unless ok: a wrong option is a programmer's error.
func wantOption(ok bool, option string, value any, want string) {
	if s, isString := value.(string); isString {
		value = strconv.Quote(s)
	}
	if !ok {
		panic(fmt.Sprintf("idempotency: %s: %v: want %s", option, value, want))
	}
}

// isToken reports whether s is a token by RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if ('a' > c || c > 'z') && ('0' > s[i] || s[i] > '9') && !strings.Contains("!#$%&'*+-.^_`|~", s[i:i+1]) {
			return false
		}
	}
	return s != ""
}
