package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	sdk "github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/conformance"
)

// stdin is what -d - reads.
var stdin io.Reader = os.Stdin

// requestFlags are the flags that say what is sent, as curl has them.
type requestFlags struct {
	method    *string
	header    lines
	data      *string
	user      *string
	insecure  *bool
	keyHeader *string
	timeout   *duration
}

func newRequestFlags(flags *flag.FlagSet, data string) *requestFlags {
	r := &requestFlags{
		method:    flags.String("X", http.MethodPost, "the request's `method`"),
		data:      flags.String("d", "", data),
		user:      flags.String("u", "", "`user:password` for basic authentication"),
		insecure:  flags.Bool("k", false, "accept any TLS certificate"),
		keyHeader: flags.String("key-header", sdk.KeyHeader, "the header field that carries the key, a `name`"),
		timeout:   durationFlag(flags, "timeout", 30*time.Second, time.Millisecond, "how long to wait for an answer, a `duration`"),
	}
	flags.Var(&r.header, "H", "a header `field`, as in \"Name: value\"; may be given more than once")
	return r
}

// A request is what the flags say is to be sent.
type request struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
}

// read reads the flags and the URL. Its errors name the flag, and repeat no
// value that may be a secret.
func (r *requestFlags) read(address string) (request, error) {
	u, err := readURL("URL", address)
	if err != nil {
		return request{}, err
	}
	if !isToken(*r.method) {
		return request{}, fmt.Errorf("flag -X: %q: want a method, such as POST", *r.method)
	}
	if !isToken(*r.keyHeader) {
		return request{}, fmt.Errorf("flag -key-header: %q: want the name of a header field", *r.keyHeader)
	}
	header, err := readHeader("H", r.header)
	if err != nil {
		return request{}, err
	}
	if *r.user != "" {
		if !strings.Contains(*r.user, ":") {
			return request{}, errors.New("flag -u: want user:password")
		}
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(*r.user)))
	}
	body, err := readData(*r.data)
	if err != nil {
		return request{}, err
	}
	if len(body) > 0 && header.Get("Content-Type") == "" {
		header.Set("Content-Type", contentType(body))
	}
	return request{strings.ToUpper(*r.method), u, header, body}, nil
}

// readURL reads an address. what is how the user knows it.
func readURL(what, text string) (*url.URL, error) {
	scheme, _, found := strings.Cut(strings.ToLower(text), "://")
	if !found || scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("%s: %q: want http:// or https:// in front", what, shownText(text))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: not an address that can be read", what)
	case u.Host == "":
		return nil, fmt.Errorf("%s: %q: want a host, as in http://127.0.0.1:8080/v1/charges", what, shownURL(u))
	}
	return u, nil
}

// readHeader reads header fields given by a flag.
func readHeader(flag string, fields []string) (http.Header, error) {
	h := make(http.Header)
	for _, field := range fields {
		name, value, ok := strings.Cut(field, ":")
		value = strings.Trim(value, " \t")
		if !ok || !isToken(name) {
			return nil, fmt.Errorf(`flag -%s: want a header field, as in "Name: value"`, flag)
		}
		if !isFieldValue(value) {
			return nil, fmt.Errorf("flag -%s: the value of %s has characters that a header cannot have", flag, name)
		}
		h.Add(name, value)
	}
	return h, nil
}

// readData reads a body as curl does: itself, @FILE, or - for standard input.
func readData(data string) ([]byte, error) {
	var body []byte
	var err error
	switch name, isFile := strings.CutPrefix(data, "@"); {
	case data == "-", data == "@-":
		body, err = io.ReadAll(stdin)
	case isFile:
		body, err = os.ReadFile(name)
	default:
		return []byte(data), nil
	}
	if err != nil {
		return nil, fmt.Errorf("flag -d: %w", err)
	}
	return body, nil
}

func contentType(body []byte) string {
	if json.Valid(body) {
		return "application/json"
	}
	return "application/x-www-form-urlencoded"
}

// transport is what requests go through: nothing is sent again by itself.
func (r *requestFlags) transport() *http.Transport {
	t := conformance.NewTransport()
	if *r.insecure {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	return t
}

// shownURL is an address without user info, and without the query's text.
func shownURL(u *url.URL) string {
	c := *u
	c.User, c.Fragment = nil, ""
	if c.RawQuery != "" {
		c.RawQuery = "…"
	}
	return c.String()
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// shownText is the beginning of what may be an address, up to where it may have
// a secret.
func shownText(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		text = "…" + text[i:]
	}
	text, _, _ = strings.Cut(text, "?")
	return text
}

// isToken reports whether s is a token by RFC 9110, section 5.6.2.
func isToken(s string) bool {
	other := func(c rune) bool {
		return (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	}
	return s != "" && strings.IndexFunc(s, other) < 0
}

// isFieldValue reports whether s can be the value of a header field, by RFC 9110,
// section 5.5.
func isFieldValue(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) < 0
}

// lines is a flag that may be given more than once.
type lines []string

// String implements flag.Value.
func (l *lines) String() string { return "" }

// Set implements flag.Value. What is wrong with a value is found later: the flag
// package would repeat it in its error, and it may be a secret.
func (l *lines) Set(s string) error {
	*l = append(*l, s)
	return nil
}
