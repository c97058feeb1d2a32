package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A Profile names the rules that are checked.
type Profile string

// The profiles. The zero Profile is Draft.
const (
	Draft  Profile = "draft"  // draft-ietf-httpapi-idempotency-key-header
	Stripe Profile = "stripe" // Stripe's API v1, as its page on idempotent requests has it
	ACP    Profile = "acp"    // the Agentic Commerce Protocol, section 6 of its checkout RFC
)

// Profiles lists them all.
func Profiles() []Profile { return []Profile{Draft, Stripe, ACP} }

// A Target is an endpoint to check and what there is to know of it. Only URL is
// needed; what is missing beyond that makes checks skip.
type Target struct {
	URL    string      // absolute, http or https
	Method string      // "": POST
	Header http.Header // sent with each request: credentials, a content type

	// Body is sent with each request. {{n}} in it stands for a number, from 1001
	// on, that is another for each operation: without it, or OtherBody, there is
	// no other request to try a key again with.
	Body      string
	OtherBody string // a second body that is accepted; "": Body with the next number

	KeyHeader    string   // "": Idempotency-Key
	ReplayHeader string   // a field, true in a replay, that is not among the usual ones
	Compare      []string // header fields of an answer that are to be replayed, beside the usual ones
	Profile      Profile  // "": Draft

	OtherCaller http.Header // what to send, in place of Header's fields, to be another accepted caller
	OtherURL    string      // another endpoint that accepts the same requests; "": one below URL that need not exist
	NullField   string      // a member that the JSON body may have as null or not at all; "": one of no meaning
	Ways        Ways

	// Effects counts what took effect so far: rows, charges. It is called before
	// and after an operation; nobody else should use the endpoint meanwhile.
	Effects func(context.Context) (int, error)

	// Advance moves the endpoint's clock, for the checks on expiry.
	Advance   func(context.Context, time.Duration) error
	Retention time.Duration // how long keys are kept; 0: 24 hours

	Timeout   time.Duration     // for each request and each wait; 0: 10 seconds
	Transport http.RoundTripper // nil: NewTransport
	Load      bool              // allow the checks that send 50 requests at once to an address that is not loopback
	Only      []string          // the IDs of the checks to run; empty: all of the profile

	// Progress is told of each result as soon as it is there. It may be nil.
	Progress func(Result)
}

// Ways say how to make the endpoint do what some checks need. A nil Way is none.
// A Way that changes nothing, such as &Way{}, says that the endpoint does it always.
type Ways struct {
	Slow     *Way // take a while to perform the operation: half a second is enough
	Error    *Way // begin to perform the operation and answer 5xx
	Limited  *Way // answer 429
	Refused  *Way // answer 401 or 403: a credential that is not accepted
	Large    *Way // answer with 64 KiB or more
	Binary   *Way // answer with bytes that are not UTF-8
	Cookie   *Way // answer with a Set-Cookie field
	HopByHop *Way // answer with a field that its Connection field names
}

// A Way is a change to a request.
type Way struct {
	Header http.Header                // fields to set
	Query  url.Values                 // parameters to set
	Body   map[string]json.RawMessage // members to set in a JSON body
}

// NewTransport returns a new transport of the kind that Run uses by default.
// Each request has an HTTP/1.1 connection of its own, so that net/http never
// sends one again by itself, and answers come as they are on the wire, not
// decompressed. It takes proxies from the environment.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:              http.ProxyFromEnvironment,
		DisableKeepAlives:  true,
		DisableCompression: true,
		Protocols:          http1(),
	}
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// withDefaults returns t with everything set, or what is wrong with it.
func (t Target) withDefaults() (*Target, error) {
	t.Method = or(strings.ToUpper(t.Method), http.MethodPost)
	t.KeyHeader = http.CanonicalHeaderKey(or(t.KeyHeader, "Idempotency-Key"))
	t.Profile = or(t.Profile, Draft)
	t.NullField = or(t.NullField, "conformance_note")
	t.Retention = or(t.Retention, 24*time.Hour)
	t.Timeout = or(t.Timeout, 10*time.Second)
	if t.Transport == nil {
		t.Transport = NewTransport()
	}
	if err := t.validate(); err != nil {
		return nil, err
	}
	t.Header = t.Header.Clone()
	if t.Header == nil {
		t.Header = make(http.Header)
	}
	if t.Body != "" && t.Header.Get("Content-Type") == "" {
		t.Header.Set("Content-Type", "application/json")
	}
	return &t, nil
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

func (t *Target) validate() error {
	if err := checkURL("URL", t.URL); err != nil {
		return err
	}
	if t.OtherURL != "" {
		if err := checkURL("OtherURL", t.OtherURL); err != nil {
			return err
		}
	}
	switch {
	case !slices.Contains(Profiles(), t.Profile):
		return wrong("Profile", string(t.Profile), "draft, stripe or acp")
	case t.Method == http.MethodGet || t.Method == http.MethodHead:
		return wrong("Method", t.Method, "one that has an effect, such as POST")
	case t.Retention < 0:
		return wrong("Retention", t.Retention.String(), "0 or more")
	case t.Timeout < 0:
		return wrong("Timeout", t.Timeout.String(), "0 or more")
	}
	for _, id := range t.Only {
		if !slices.ContainsFunc(catalog, func(c check) bool { return c.id == id }) {
			return wrong("Only", id, "the ID of a check")
		}
	}
	return t.validateWays()
}

func (t *Target) validateWays() error {
	bodies := []string{t.Body, or(t.OtherBody, t.Body)}
	for name, way := range t.Ways.all() {
		for _, text := range bodies {
			if _, err := way.apply(body(text, 1)); err != nil {
				return wrong("Ways."+name, "members for the body", "a body that is a JSON object")
			}
		}
	}
	return nil
}

func (w *Ways) all() map[string]*Way {
	return map[string]*Way{
		"Slow": w.Slow, "Error": w.Error, "Limited": w.Limited, "Refused": w.Refused,
		"Large": w.Large, "Binary": w.Binary, "Cookie": w.Cookie, "HopByHop": w.HopByHop,
	}
}

func checkURL(field, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return wrong(field, shownURL(text), "an address with http:// or https:// in front")
	}
	return nil
}

func wrong(field, value, want string) error {
	return fmt.Errorf("conformance: Target.%s: %q: want %s", field, value, want)
}

// shownURL is text without what may be a secret: user info and query.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.Fragment = nil, ""
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.String()
}

// loopback reports whether the URL's host is this machine, as far as can be told
// without asking a name server.
func loopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
