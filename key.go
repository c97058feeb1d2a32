package saferetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// KeyHeader is the request header field that carries an idempotency key
// (draft-ietf-httpapi-idempotency-key-header, section 2). [WithKeyHeader]
// names another.
const KeyHeader = "Idempotency-Key"

// MaxKeyLength is the length in bytes of the longest key that [ValidateKey]
// accepts.
const MaxKeyLength = 255

// derivedSpace sets the keys of DeriveKey apart from any other use of the same
// hash over the same bytes.
var derivedSpace = uuid.MustParse("5afe4e74-0000-8000-8000-000000000000")

// NewKey makes a random key: a UUID of version 4 (RFC 9562, section 5.4), with
// 122 random bits and nothing of the clock in it. It may be called from any
// number of goroutines.
func NewKey() string { return uuid.NewString() }

// DeriveKey makes the key that belongs to what its arguments name: the same
// namespace and parts give the same key, in every process and on every
// machine, so that a program which was stopped halfway asks again under the key
// it used before. Each argument counts with its length: ("ab", "c") and
// ("a", "bc") differ, and so do one empty part and none.
//
// The key is a UUID of version 8 (RFC 9562, section 5.8) cut from a SHA-256: it
// shows nothing of its input, but who can guess the input can make the key.
func DeriveKey(namespace string, parts ...string) string {
	data := appendCounted(nil, namespace)
	for _, part := range parts {
		data = appendCounted(data, part)
	}
	return uuid.NewHash(sha256.New(), derivedSpace, data, 8).String()
}

func appendCounted(data []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(data, uint64(len(s))), s...)
}

// ValidateKey returns nil for a key of 1 to [MaxKeyLength] visible ASCII
// characters (0x21 to 0x7E), which every server and proxy carries unchanged.
// Its error says what is wrong and does not repeat the key.
func ValidateKey(key string) error {
	if key == "" {
		return plainError("key is empty: want 1 to 255 visible ASCII characters")
	}
	if len(key) > MaxKeyLength {
		return plainError(fmt.Sprintf("key has %d bytes: want at most %d", len(key), MaxKeyLength))
	}
	for i := range len(key) {
		if c := key[i]; c < 0x21 || c > 0x7e {
			return plainError(fmt.Sprintf("key has byte 0x%02x at index %d: want visible ASCII characters only", c, i))
		}
	}
	return nil
}

type keyContext struct{}

// WithKey returns a context under which operations carry key. It is for one
// operation: two different requests sent under it are one to the server. The
// key is checked when a request is sent. A key in the request's own header
// comes first.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyContext{}, key)
}

// KeyFromContext returns the key that [WithKey] put into ctx, or the one that
// [Do] gave to the context of its call. ok is false when there is none.
func KeyFromContext(ctx context.Context) (key string, ok bool) {
	key, ok = ctx.Value(keyContext{}).(string)
	return key, ok
}

// findKey finds the operation's key, or makes it: the request's own header, the
// context's key, the key of the request that a 307 or 308 redirected here, the
// key function. above is the operation under whose attempt the request is made,
// if any.
func (op *httpOperation) findKey(above *operation) error {
	req := op.req
	if req.URL == nil {
		return errNilURL
	}
	op.repeatable = isIdempotent(req.Method)
	redirected := op.followRedirect()
	if field := keyFieldOf(req.Header, op.cfg.keyHeader); field.present {
		return op.takeKey(field)
	}
	if key, ok := op.contextKey(above); ok {
		return op.setKey(key)
	}
	if redirected != "" {
		return op.setKey(redirected)
	}
	if !slices.Contains(op.cfg.keyedMethods, method(req)) {
		return nil
	}
	key, err := op.cfg.newKey(req)
	if err != nil {
		return err
	}
	return op.setKey(key)
}

// contextKey is the key of the context, unless the request is another than the
// one that key was given to: a GET or HEAD that a redirect led to, or one that
// a base transport makes on behalf of the attempt above, such as for a token.
func (op *httpOperation) contextKey(above *operation) (key string, ok bool) {
	key, ok = KeyFromContext(op.ctx)
	reading := op.req.Method == http.MethodGet || op.req.Method == http.MethodHead
	if op.req.Response != nil && reading || above != nil && !above.isDo() && key == above.key {
		return "", false
	}
	return key, ok
}

// followRedirect goes on with the operation that a 307 or 308 sent here: it
// returns its key, and what its attempts came to counts for this one too.
func (op *httpOperation) followRedirect() (key string) {
	from := op.req.Response
	if from == nil || from.Request == nil ||
		from.StatusCode != http.StatusTemporaryRedirect && from.StatusCode != http.StatusPermanentRedirect {
		return ""
	}
	if earlier := operationFor(from.Request); earlier != nil {
		op.tally.carry(&earlier.tally)
		return earlier.key
	}
	key, _ = keyFieldOf(from.Request.Header, op.cfg.keyHeader).key(op.cfg.keyHeader)
	return key
}

// takeKey takes the key from the request's own header. A field without values
// means, as in net/http, that the request can be repeated and sends no key.
func (op *httpOperation) takeKey(field keyField) error {
	op.ownKey, op.repeatable = true, true
	if len(field.values) == 0 {
		return nil
	}
	key, err := field.key(op.cfg.keyHeader)
	if err != nil {
		return err
	}
	if err := op.setKey(key); err != nil {
		return err
	}
	if field.values[0] != key {
		op.keyValue = field.values[0] // quoted by the caller: sent as written
	}
	return nil
}

func (op *httpOperation) setKey(key string) error {
	if err := ValidateKey(key); err != nil {
		return err
	}
	op.key, op.keyValue, op.repeatable = key, key, true
	if op.cfg.quoted {
		op.keyValue = quoteKey(key)
	}
	return nil
}

func (c *config) newKey(req *http.Request) (string, error) {
	if c.keyFunc == nil {
		return NewKey(), nil
	}
	key, err := c.keyFunc(req)
	if err != nil {
		return "", &callerError{"key function", err}
	}
	return key, nil
}

// isIdempotent reports whether the method's effect is the same however often it
// is requested (RFC 9110, section 9.2.2). An empty method is GET.
func isIdempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// keyField is what a header holds under the key's name, in whatever case and
// under however many spellings that name is written.
type keyField struct {
	present bool
	values  []string
}

func keyFieldOf(h http.Header, name string) (f keyField) {
	for field, values := range h {
		if len(field) == len(name) && strings.EqualFold(field, name) {
			f.present = true
			f.values = append(f.values, values...)
		}
	}
	return f
}

// key returns the field's bare key; it is "" when the field has no value.
func (f keyField) key(name string) (string, error) {
	switch len(f.values) {
	case 0:
		return "", nil
	case 1:
		return unquoteKey(f.values[0]), nil
	}
	return "", plainError(fmt.Sprintf("header %s has %d values: want one", name, len(f.values)))
}

// quoteKey writes key as an RFC 8941 string (section 3.3.3).
func quoteKey(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// unquoteKey returns what an RFC 8941 string holds, and anything else as it is.
func unquoteKey(value string) string {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	inner := value[1 : len(value)-1]
	bare := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		if c == '"' {
			return value
		}
		if c == '\\' {
			i++
			if i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return value
			}
			c = inner[i]
		}
		bare = append(bare, c)
	}
	return string(bare)
}
