package testserver

import (
	"fmt"
	"net/http"
	"time"
)

// An Option changes a default of New and Start. A value that makes no sense panics there.
type Option func(*config)

type config struct {
	retention  time.Duration
	lease      time.Duration
	latency    time.Duration
	addr       string
	tenant     func(*http.Request) (string, error)
	tls        bool
	http2      bool
	noListener bool
}

func newConfig(opts []Option) config {
	c := config{
		retention: 24 * time.Hour,
		lease:     time.Minute,
		addr:      "127.0.0.1:0",
		tenant:    func(*http.Request) (string, error) { return "default", nil },
	}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// WithRetention sets how long after its claim a completed operation is
// remembered, more than 0. The default is 24 hours. See also Server.Advance.
func WithRetention(d time.Duration) Option {
	return func(c *config) {
		wantOption(d > 0, "WithRetention", d, "more than 0")
		c.retention = d
	}
}

// WithLease sets how long the claim of a crashed request lingers, more than 0.
// The default is a minute. See also Server.Advance.
func WithLease(d time.Duration) Option {
	return func(c *config) {
		wantOption(d > 0, "WithLease", d, "more than 0")
		c.lease = d
	}
}

// WithLatency lets the handler take d, 0 or more, for each request it handles. A
// replay, a 409 or any other answer given for the handler is not delayed. The
// default is 0.
func WithLatency(d time.Duration) Option {
	return func(c *config) {
		wantOption(d >= 0, "WithLatency", d, "0 or more")
		c.latency = d
	}
}

// WithAddr sets the address to listen on, as net.Listen takes it for "tcp". The
// default is "127.0.0.1:0", a free port on the loopback interface.
func WithAddr(addr string) Option {
	return func(c *config) {
		wantOption(addr != "", "WithAddr", `""`, "an address, such as 127.0.0.1:0")
		c.addr = addr
	}
}

// WithTenant tells tenants apart, who share neither keys nor charges. A request
// for which it returns an error gets 401. It is called by many goroutines at
// once, and may be called more than once for a request. By default all requests
// are one tenant's, so that tests need no credentials.
func WithTenant(tenant func(*http.Request) (string, error)) Option {
	return func(c *config) {
		wantOption(tenant != nil, "WithTenant", "nil", "a function")
		c.tenant = tenant
	}
}

// WithTLS serves HTTPS, under a certificate of the server's own making, which
// Client trusts.
func WithTLS() Option {
	return func(c *config) { c.tls = true }
}

// WithHTTP2 serves HTTP/2 to clients that want it, and so implies WithTLS.
func WithHTTP2() Option {
	return func(c *config) { c.tls, c.http2 = true, true }
}

// WithoutListener opens no socket: the server is reached through Transport alone,
// and Client goes through that. It is what a testing/synctest bubble needs, whose
// clock does not move while a goroutine waits for a socket.
func WithoutListener() Option {
	return func(c *config) { c.noListener = true }
}

// wantOption panics unless ok.
func wantOption(ok bool, option string, value any, want string) {
	if !ok {
		panic(fmt.Sprintf("testserver: %s: %v: want %s", option, value, want))
	}
}
