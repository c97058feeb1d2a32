package saferetry

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// An Option changes a default of [NewClient], [NewTransport] or [Do]. A value
// that makes no sense panics in that call, as a wrong pattern does in
// [http.ServeMux.Handle]: it is the programmer's error, not the request's.
type Option func(*config)

// Hooks are told of an operation as it goes. Each may be nil. They run on the
// goroutine of the call, before it goes on, and must be safe for concurrent use
// if the client is. They see requests and answers as they are, secrets
// included, and must not read a body.
type Hooks struct {
	// Attempt is called after each attempt, before it is judged.
	Attempt func(Attempt)
	// Wait is called before each wait, with the attempt that made it necessary.
	Wait func(Attempt, time.Duration)
	// Done is called once per operation, at its end, with the request handed to
	// RoundTrip (nil in Do).
	Done func(*http.Request, Report)
}

type config struct {
	maxAttempts    int
	base, max      time.Duration
	newPolicy      func() backoff.BackOff // nil: full jitter from base to max
	maxRetryAfter  time.Duration
	attemptTimeout time.Duration
	keyHeader      string
	quoted         bool
	keyFunc        func(*http.Request) (string, error) // nil: NewKey
	keyedMethods   []string
	classify       Classifier // nil: DefaultClassifier, or Do's own rules
	budget         *Budget    // nil: none
	bodyBuffer     int64
	bodyResume     bool
	attemptHeader  string
	logger         *slog.Logger
	hooks          Hooks

	random func(limit time.Duration) time.Duration // uniform in [0, limit]
}

func newConfig(opts []Option) *config {
	c := &config{
		maxAttempts:    4,
		base:           200 * time.Millisecond,
		max:            30 * time.Second,
		maxRetryAfter:  time.Minute,
		attemptTimeout: 30 * time.Second,
		keyHeader:      KeyHeader,
		keyedMethods:   []string{http.MethodPost, http.MethodPatch},
		bodyBuffer:     1 << 20,
		bodyResume:     true,
		random:         randomUpTo,
	}
	for _, option := range opts {
		if option != nil {
			option(c)
		}
	}
	if c.attemptHeader != "" && c.attemptHeader == c.keyHeader {
		wrongOption("WithAttemptHeader", c.attemptHeader, "a header other than the key's")
	}
	return c
}

// policy is a new wait policy, for one operation.
func (c *config) policy() backoff.BackOff {
	if c.newPolicy == nil {
		return &FullJitter{Base: c.base, Max: c.max, random: c.random}
	}
	policy := c.newPolicy()
	if policy == nil {
		return &backoff.StopBackOff{}
	}
	policy.Reset() // a cenkalti policy made as a literal has no first wait before this
	return policy
}

// WithMaxAttempts caps the attempts of an operation at n, the first included:
// 1 means no retries. The default is 4.
func WithMaxAttempts(n int) Option {
	return func(c *config) {
		if n < 1 {
			wrongOption("WithMaxAttempts", n, "1 or more")
		}
		c.maxAttempts = n
	}
}

// WithFullJitter waits as [FullJitter] does; it undoes an earlier [WithBackOff].
// base is also the most that is added to a server's Retry-After. The default
// is 200ms and 30s.
func WithFullJitter(base, max time.Duration) Option {
	return func(c *config) {
		notNegative("WithFullJitter", base)
		if max < base {
			wrongOption("WithFullJitter", "max "+max.String(), "at least base "+base.String())
		}
		c.base, c.max, c.newPolicy = base, max, nil
	}
}

// WithBackOff takes the waits from a policy that newPolicy makes, one per
// operation, at its first failure. backoff.Stop, and a nil policy, end the
// operation with reason Exhausted. A server's Retry-After stays a floor.
func WithBackOff(newPolicy func() backoff.BackOff) Option {
	return func(c *config) {
		if newPolicy == nil {
			wrongOption("WithBackOff", "nil", "a function")
		}
		c.newPolicy = newPolicy
	}
}

// WithMaxRetryAfter ends an operation whose server asks for a longer wait than
// d: its answer goes to the caller at once. The default is one minute.
func WithMaxRetryAfter(d time.Duration) Option {
	return func(c *config) {
		notNegative("WithMaxRetryAfter", d)
		c.maxRetryAfter = d
	}
}

// WithAttemptTimeout gives each attempt d to get its response headers (in [Do]:
// to return). Reading the body is not bounded by it. 0 means no limit; the
// default is 30s.
func WithAttemptTimeout(d time.Duration) Option {
	return func(c *config) {
		notNegative("WithAttemptTimeout", d)
		c.attemptTimeout = d
	}
}

// WithKeyHeader sends the key in the header name instead of "Idempotency-Key".
func WithKeyHeader(name string) Option {
	return func(c *config) { c.keyHeader = headerName("WithKeyHeader", name) }
}

// WithQuotedKey sends the key as an RFC 8941 string, in double quotes, as
// draft-ietf-httpapi-idempotency-key-header asks. A key that is quoted in the
// request's own header is sent as written there, with or without this option.
func WithQuotedKey() Option { return func(c *config) { c.quoted = true } }

// WithKeyFunc makes keys by f instead of [NewKey]. f must be safe for concurrent
// use; the request is nil in [Do]. An error from it, or a key that
// [ValidateKey] refuses, ends the operation before anything is sent.
func WithKeyFunc(f func(*http.Request) (string, error)) Option {
	return func(c *config) {
		if f == nil {
			wrongOption("WithKeyFunc", "nil", "a function")
		}
		c.keyFunc = f
	}
}

// WithKeyedMethods makes keys for requests with these methods, spelled as in
// [http.Request.Method]; none given, no keys are made. The default is POST and
// PATCH. A key that the caller gives is sent with any method.
func WithKeyedMethods(methods ...string) Option {
	return func(c *config) {
		for _, method := range methods {
			if !isToken(method) {
				wrongOption("WithKeyedMethods", fmt.Sprintf("%q", method), "an HTTP method")
			}
		}
		c.keyedMethods = slices.Clone(methods)
	}
}

// WithClassifier decides by f what is retried, instead of
// [DefaultClassifier]. The caller's cancellation and a request body that fails
// end an operation whatever f says.
func WithClassifier(f Classifier) Option {
	return func(c *config) {
		if f == nil {
			wrongOption("WithClassifier", "nil", "a function")
		}
		c.classify = f
	}
}

// WithBudget bounds the retries of all operations that share the budget. nil,
// the default, is no bound.
func WithBudget(budget *Budget) Option { return func(c *config) { c.budget = budget } }

// WithBodyBuffer remembers up to n bytes of a request body that has no GetBody
// and is not a file, so that it can be sent again; 0 remembers nothing. The
// default is 1 MiB.
func WithBodyBuffer(n int64) Option {
	return func(c *config) {
		if n < 0 {
			wrongOption("WithBodyBuffer", n, "0 or more")
		}
		c.bodyBuffer = n
	}
}

// WithBodyResume says whether an operation that has a key is asked for again
// when the body of its 2xx answer breaks off while it is read. The reading then
// goes on after the bytes already delivered. The default is true.
func WithBodyResume(resume bool) Option { return func(c *config) { c.bodyResume = resume } }

// WithAttemptHeader sends the attempt's number, from 1, in the header name.
func WithAttemptHeader(name string) Option {
	return func(c *config) { c.attemptHeader = headerName("WithAttemptHeader", name) }
}

// WithLogger logs each attempt that failed and each operation that took more
// than one or ended without an answer. No query, user info, header value or
// body is logged, and of the key its first 8 characters. nil, the default, logs
// nothing.
func WithLogger(logger *slog.Logger) Option { return func(c *config) { c.logger = logger } }

// WithHooks calls hooks as operations go.
func WithHooks(hooks Hooks) Option { return func(c *config) { c.hooks = hooks } }

func wrongOption(option string, value any, want string) {
	panic(fmt.Sprintf("saferetry: %s: %v: want %s", option, value, want))
}

func notNegative(option string, d time.Duration) {
	if d < 0 {
		wrongOption(option, d, "0 or more")
	}
}

func headerName(option, name string) string {
	if !isToken(name) {
		wrongOption(option, fmt.Sprintf("%q", name), "a header name")
	}
	return http.CanonicalHeaderKey(name)
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2), as header
// names and methods are.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
