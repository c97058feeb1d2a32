package postgres

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// An Option changes a default of [New]. A value that makes no sense panics there.
type Option func(*config)

type config struct {
	schema        string // "": the search_path's
	table         string
	sweepInterval time.Duration // 0: no sweeps but the caller's
	keyLimit      int
	logger        *slog.Logger // nil: none
}

const (
	defaultTable   = "idempotency_keys"
	maxTableLength = 63 - len("_intents_expires_at") // PostgreSQL cuts longer names off

	minKeyLimit = 32 // 128 bits in hexadecimal
	maxKeyLimit = 255
)

func newConfig(opts []Option) config {
	c := config{
		table:         defaultTable,
		sweepInterval: time.Minute,
		keyLimit:      45,
	}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// WithSchema names the schema of the store's tables; [Store.Migrate] creates it if need be. The default is none: the
// tables are where the search_path of the pool's connections finds them.
func WithSchema(name string) Option {
	return func(c *config) {
		wantOption(isName(name, 63), "WithSchema", name, "a name of 1 to 63 bytes")
		c.schema = name
	}
}

// WithTable names the table of the records, at most 44 bytes. The names of the other tables and of the indexes start
// with it. The default is idempotency_keys.
func WithTable(name string) Option {
	return func(c *config) {
		wantOption(isName(name, maxTableLength), "WithTable", name, fmt.Sprintf("a name of 1 to %d bytes", maxTableLength))
		c.table = name
	}
}

// WithSweepInterval sets how often expired records are removed, 0 or more. The first sweep is an interval after the
// first claim. 0 means never: something else calls [Store.Sweep], of one process or of many. The default is a minute.
func WithSweepInterval(d time.Duration) Option {
	return func(c *config) {
		wantOption(d >= 0, "WithSweepInterval", d, "0 or more")
		c.sweepInterval = d
	}
}

// WithKeyLimit sets how many characters a key that [Foreign] derives may have, 32 to 255: the smallest limit among the
// processors that are called. Of 64 hexadecimal digits, the whole hash, as many as fit are used. The default is 45,
// Square's limit; Adyen's is 64. An intent keeps the key it was first sent under, also if the limit changes.
func WithKeyLimit(n int) Option {
	return func(c *config) {
		wantOption(minKeyLimit <= n && n <= maxKeyLimit, "WithKeyLimit", n, "32 to 255")
		c.keyLimit = n
	}
}

// WithLogger logs a sweep that failed. Everything else that fails is returned to who asked for it. The default, and nil,
// is none.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.logger = l }
}

func isName(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.Contains(s, "\x00")
}

// wantOption panics unless ok.
func wantOption(ok bool, option string, value any, want string) {
	if !ok {
		panic(fmt.Sprintf("postgres: %s: %v: want %s", option, value, want))
	}
}
