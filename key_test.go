package saferetry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

func keyFunc(key string) saferetry.Option {
	return saferetry.WithKeyFunc(func(*http.Request) (string, error) { return key, nil })
}

func TestKeyPrecedenceIsHeaderThenContextThenFunction(t *testing.T) {
	for _, test := range []struct {
		name, header, context, function, want string
	}{
		{"header", "by-header", "by-context", "by-function", "by-header"},
		{"context", "", "by-context", "by-function", "by-context"},
		{"function", "", "", "by-function", "by-function"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			if test.context != "" {
				ctx = saferetry.WithKey(ctx, test.context)
			}
			req := scriptedPost(ctx)
			if test.header != "" {
				req.Header.Set(saferetry.KeyHeader, test.header)
			}
			base := script(answers(503), answers(503), answers(201))
			_, report, err := perform(t, base, req, withoutWaits, keyFunc(test.function))
			require.NoError(t, err)
			assert.Equal(t, test.want, report.Key)
			assert.Equal(t, []string{test.want, test.want, test.want}, base.keys(saferetry.KeyHeader))
		})
	}
}

func TestKeyIsMadeOncePerOperation(t *testing.T) {
	var made int
	base := script(answers(503), answers(503), answers(201), answers(201))
	transport := saferetry.NewTransport(base, withoutWaits, saferetry.WithKeyFunc(func(*http.Request) (string, error) {
		made++
		return saferetry.NewKey(), nil
	}))
	for range 2 {
		resp, err := transport.RoundTrip(scriptedPost(t.Context()))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	keys := base.keys(saferetry.KeyHeader)
	require.Len(t, keys, 4)
	assert.Equal(t, 2, made)
	assert.Equal(t, []string{keys[0], keys[0]}, keys[1:3], "attempts of one operation")
	assert.NotEqual(t, keys[0], keys[3], "two operations")
}

// The caller's key goes out in exactly one line of every attempt, however it was
// given: two lines would be refused by a server, or make it choose.
func TestCallersKeyIsSentTwiceWhenItsHeaderIsLowerCase(t *testing.T) {
	for name, give := range map[string]func(*http.Request) *http.Request{
		"Header.Set": func(r *http.Request) *http.Request { r.Header.Set(saferetry.KeyHeader, "order-1"); return r },
		"lower case": func(r *http.Request) *http.Request { r.Header["idempotency-key"] = []string{"order-1"}; return r },
		"upper case": func(r *http.Request) *http.Request { r.Header["IDEMPOTENCY-KEY"] = []string{"order-1"}; return r },
		"mixed case": func(r *http.Request) *http.Request { r.Header["iDempotency-keY"] = []string{"order-1"}; return r },
		"one is void": func(r *http.Request) *http.Request {
			r.Header["idempotency-key"] = []string{"order-1"}
			r.Header[saferetry.KeyHeader] = nil
			return r
		},
		"WithKey": func(r *http.Request) *http.Request {
			return r.WithContext(saferetry.WithKey(r.Context(), "order-1"))
		},
		"header over context": func(r *http.Request) *http.Request {
			r.Header["idempotency-key"] = []string{"order-1"}
			return r.WithContext(saferetry.WithKey(r.Context(), "order-2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := script(answers(503), answers(503), answers(201))
			server := httptest.NewServer(base)
			defer server.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("amount=2500"))
			require.NoError(t, err)
			resp, err := saferetry.NewClient(server.Client(), withoutWaits).Do(give(req))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, []string{"order-1", "order-1", "order-1"}, base.keys(saferetry.KeyHeader))
			assert.Equal(t, "order-1", resp.Request.Header.Get(saferetry.KeyHeader))
		})
	}
}

func TestBadKeyIsRefusedBeforeAnythingIsSent(t *testing.T) {
	header := func(values ...string) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request { r.Header[saferetry.KeyHeader] = values; return r }
	}
	inContext := func(key string) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request { return r.WithContext(saferetry.WithKey(r.Context(), key)) }
	}
	asIs := func(r *http.Request) *http.Request { return r }
	long := strings.Repeat("sekret", 43)[:256]
	for _, test := range []struct {
		name string
		give func(*http.Request) *http.Request
		opts []saferetry.Option
		want string
	}{
		{"256 bytes in the header", header(long), nil, "256 bytes: want at most 255"},
		{"256 bytes in the context", inContext(long), nil, "256 bytes: want at most 255"},
		{"256 bytes from the function", asIs, []saferetry.Option{keyFunc(long)}, "256 bytes: want at most 255"},
		{"newline in the header", header("sekret\nX-Admin: 1"), nil, "byte 0x0a at index 6: want visible ASCII"},
		{"carriage return in the context", inContext("sekret\r"), nil, "byte 0x0d at index 6: want visible ASCII"},
		{"newline from the function", asIs, []saferetry.Option{keyFunc("sekret\n")}, "byte 0x0a at index 6: want visible ASCII"},
		{"space", header("sekret key"), nil, "byte 0x20 at index 6: want visible ASCII"},
		{"space before", header(" sekret"), nil, "byte 0x20 at index 0: want visible ASCII"},
		{"space in quotes", header(`"sekret key"`), nil, "byte 0x20 at index 6: want visible ASCII"},
		{"tab", inContext("sekret\t"), nil, "byte 0x09"},
		{"NUL", inContext("sekret\x00"), nil, "byte 0x00"},
		{"delete", inContext("sekret\x7f"), nil, "byte 0x7f"},
		{"not ASCII", inContext("sekreté"), nil, "byte 0xc3"},
		{"empty in the header", header(""), nil, "empty: want 1 to 255"},
		{"empty in quotes", header(`""`), nil, "empty: want 1 to 255"},
		{"empty in the context", inContext(""), nil, "empty: want 1 to 255"},
		{"empty from the function", asIs, []saferetry.Option{keyFunc("")}, "empty: want 1 to 255"},
		{"two values", header("sekret-1", "sekret-2"), nil, "header Idempotency-Key has 2 values: want one"},
		{"the same value twice", header("sekret-1", "sekret-1"), nil, "header Idempotency-Key has 2 values: want one"},
		{"two spellings", func(r *http.Request) *http.Request {
			r.Header["idempotency-key"] = []string{"sekret-1"}
			return header("sekret-2")(r)
		}, nil, "header Idempotency-Key has 2 values: want one"},
		{"function fails", asIs, []saferetry.Option{saferetry.WithKeyFunc(func(*http.Request) (string, error) {
			return "", errors.New("no entropy for sekret")
		})}, "key function failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := script(answers(200))
			body := &scriptedBody{Reader: strings.NewReader("amount=2500")}
			req := scriptedPost(t.Context())
			req.Body, req.GetBody = body, nil
			_, report, err := perform(t, base, test.give(req), test.opts...)
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "sekret")
			assert.Empty(t, base.requests())
			assert.Equal(t, 1, body.closed, "body closed")
			assert.Equal(t, saferetry.Report{Reason: saferetry.Permanent, Outcome: saferetry.NotSent}, report)
		})
	}
}

func TestKeyFunctionErrorIsReachable(t *testing.T) {
	own := errors.New("vault is sealed")
	_, _, err := perform(t, script(answers(200)), scriptedPost(t.Context()),
		saferetry.WithKeyFunc(func(*http.Request) (string, error) { return "", own }))
	require.ErrorIs(t, err, own)
}

func TestKeyFunctionSeesTheCallersRequest(t *testing.T) {
	req := scriptedPost(t.Context())
	_, report, err := perform(t, script(answers(200)), req, saferetry.WithKeyFunc(func(r *http.Request) (string, error) {
		assert.Same(t, req, r)
		return saferetry.DeriveKey("charges", r.URL.Path), nil
	}))
	require.NoError(t, err)
	assert.Equal(t, saferetry.DeriveKey("charges", "/v1/charges"), report.Key)
}

func TestKeyOf255BytesIsSent(t *testing.T) {
	key := strings.Repeat("~", saferetry.MaxKeyLength)
	base := script(answers(200))
	_, report, err := perform(t, base, scriptedPost(saferetry.WithKey(t.Context(), key)))
	require.NoError(t, err)
	assert.Equal(t, key, report.Key)
	assert.Equal(t, []string{key}, base.keys(saferetry.KeyHeader))
}

// An entry with no values says, as to net/http, that the request can be
// repeated, and that no header is to be sent.
func TestKeyEntryWithoutValuesMeansRepeatableWithoutHeader(t *testing.T) {
	for _, values := range [][]string{nil, {}} {
		req := scriptedPost(saferetry.WithKey(t.Context(), "by-context"))
		req.Header[saferetry.KeyHeader] = values
		base := script(loses(io.ErrUnexpectedEOF), answers(201))
		_, report, err := perform(t, base, req, withoutWaits, keyFunc("by-function"))
		require.NoError(t, err)
		assert.Equal(t, 2, report.Attempts)
		assert.Empty(t, report.Key)
		assert.Equal(t, []string{"", ""}, base.keys(saferetry.KeyHeader))
	}
}

func TestKeyEntryWithoutValuesSendsNoHeaderLine(t *testing.T) {
	base := script(answers(503))
	server := httptest.NewServer(base)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	require.NoError(t, err)
	req.Header[saferetry.KeyHeader] = []string{}
	_, report, err := perform(t, server.Client().Transport, req, withoutWaits, saferetry.WithMaxAttempts(2))
	require.NoError(t, err)
	assert.Equal(t, saferetry.Exhausted, report.Reason)
	for _, r := range base.requests() {
		assert.NotContains(t, r.header, saferetry.KeyHeader)
	}
}

func TestKeyOfTheLastRequestSentIsInTheResponsesRequest(t *testing.T) {
	resp, report, err := perform(t, script(answers(503), answers(201)), scriptedPost(t.Context()), withoutWaits)
	require.NoError(t, err)
	require.NotEmpty(t, report.Key)
	assert.Equal(t, report.Key, resp.Request.Header.Get(saferetry.KeyHeader))
}

func TestKeyHeaderOptionNamesAnotherHeader(t *testing.T) {
	const name = "Paypal-Request-Id" // as net/http spells it
	for spelling, give := range map[string]func(*http.Request){
		"made":      func(*http.Request) {},
		"own":       func(r *http.Request) { r.Header.Set("PayPal-Request-Id", "order-1") },
		"own as is": func(r *http.Request) { r.Header["PayPal-Request-Id"] = []string{"order-1"} },
	} {
		t.Run(spelling, func(t *testing.T) {
			req := scriptedPost(t.Context())
			give(req)
			base := script(answers(503), answers(201))
			resp, report, err := perform(t, base, req, withoutWaits, keyFunc("order-1"), saferetry.WithKeyHeader("PayPal-Request-Id"))
			require.NoError(t, err)
			assert.Equal(t, []string{"order-1", "order-1"}, base.keys(name))
			assert.Equal(t, []string{"", ""}, base.keys(saferetry.KeyHeader))
			assert.Equal(t, "order-1", report.Key)
			assert.Equal(t, "order-1", resp.Request.Header.Get("PayPal-Request-Id"))
		})
	}
}

func TestKeyedMethodsAreTheOnesThatGetKeys(t *testing.T) {
	for _, test := range []struct {
		name   string
		option saferetry.Option
		keyed  []string
	}{
		{"default", nil, []string{"POST", "PATCH"}},
		{"PUT alone", saferetry.WithKeyedMethods(http.MethodPut), []string{"PUT"}},
		{"GET and LOCK", saferetry.WithKeyedMethods(http.MethodGet, "LOCK"), []string{"", "GET", "LOCK"}},
		{"none", saferetry.WithKeyedMethods(), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var keyed []string
			for _, method := range []string{"", "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH", "LOCK"} {
				req := scriptedPost(t.Context())
				req.Method = method
				_, report, err := perform(t, script(answers(200)), req, test.option)
				require.NoError(t, err)
				if report.Key != "" {
					keyed = append(keyed, method)
				}
			}
			assert.Equal(t, test.keyed, keyed)
		})
	}
}

func TestKeyGivenByTheCallerIsSentWithAnyMethod(t *testing.T) {
	for _, method := range []string{"GET", "PUT", "DELETE", "LOCK"} {
		req := scriptedPost(saferetry.WithKey(t.Context(), "order-1"))
		req.Method = method
		base := script(answers(200))
		_, _, err := perform(t, base, req, saferetry.WithKeyedMethods())
		require.NoError(t, err)
		assert.Equal(t, []string{"order-1"}, base.keys(saferetry.KeyHeader), method)
	}
}

func TestCallersRequestIsNeverChanged(t *testing.T) {
	for name, test := range map[string]struct {
		base *scripted
		give func(*http.Request)
	}{
		"first try":    {script(answers(200)), func(*http.Request) {}},
		"third try":    {script(answers(503), loses(io.EOF), answers(200)), func(*http.Request) {}},
		"all fail":     {script(loses(io.EOF)), func(*http.Request) {}},
		"own key":      {script(answers(503), answers(200)), func(r *http.Request) { r.Header["idempotency-key"] = []string{"k"} }},
		"quoted key":   {script(answers(503), answers(200)), func(r *http.Request) { r.Header.Set(saferetry.KeyHeader, `"k"`) }},
		"no values":    {script(answers(503), answers(200)), func(r *http.Request) { r.Header[saferetry.KeyHeader] = nil }},
		"bad key":      {script(answers(200)), func(r *http.Request) { r.Header.Set(saferetry.KeyHeader, "a b") }},
		"own attempts": {script(answers(503), answers(200)), func(r *http.Request) { r.Header.Set("X-Attempt", "mine") }},
		"no header":    {script(answers(503), answers(200)), func(r *http.Request) { r.Header = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			req := scriptedPost(t.Context())
			test.give(req)
			body, header, before := req.Body, req.Header.Clone(), *req
			resp, err := saferetry.NewTransport(test.base, withoutWaits, saferetry.WithQuotedKey(),
				saferetry.WithAttemptHeader("X-Attempt")).RoundTrip(req)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			assert.Equal(t, header, req.Header)
			assert.True(t, body == req.Body, "another body")
			before.GetBody, before.Header, before.Body = nil, nil, nil
			after := *req
			after.GetBody, after.Header, after.Body = nil, nil, nil
			assert.Equal(t, before, after)
		})
	}
}

func TestNewKeyIsARandomUUIDNotFromTheClock(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		key := saferetry.NewKey()
		id, err := uuid.Parse(key)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(4), id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		require.NoError(t, saferetry.ValidateKey(key))
		require.Len(t, key, 36)
		require.False(t, seen[key], "made twice")
		seen[key] = true
	}
}

func TestDeriveKeyIsTheSameEverywhere(t *testing.T) {
	// Pinned: a program that is stopped, upgraded and started again must ask
	// under the key it used before.
	assert.Equal(t, "705308ca-69e1-8437-8191-6795b4f581f5", saferetry.DeriveKey("charges", "order-4711"))
	assert.Equal(t, "b8665e77-dd9d-84b6-98f8-12a29da853cd", saferetry.DeriveKey(""))
	id, err := uuid.Parse(saferetry.DeriveKey("charges", "order-4711"))
	require.NoError(t, err)
	assert.Equal(t, uuid.Version(8), id.Version())
	assert.Equal(t, uuid.RFC4122, id.Variant())
}

func TestDeriveKeyDiffersWhereItsInputDoes(t *testing.T) {
	inputs := [][]string{
		{""}, {"", ""}, {"", "", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"abc", ""}, {"", "abc"}, {"ab", "c", ""},
		{"a", "b", "c"}, {"c", "ab"}, {"a\x00b"}, {"a", "\x00b"}, {"a\x00", "b"}, {"A", "bc"}, {"a", "bc "}, {"ü"}, {"u\u0308"},
		{"\x00\x00\x00\x00\x00\x00\x00\x00"}, {strings.Repeat("x", 300)}, {strings.Repeat("x", 301)}, {"a", "1", "2"}, {"a", "12"},
	}
	seen := make(map[string][]string)
	for _, input := range inputs {
		key := saferetry.DeriveKey(input[0], input[1:]...)
		require.NoError(t, saferetry.ValidateKey(key))
		require.Equal(t, key, saferetry.DeriveKey(input[0], input[1:]...))
		require.Nil(t, seen[key], "%q", input)
		seen[key] = input
	}
}

func TestKeyFromContextIsTheOneThatWithKeyPut(t *testing.T) {
	_, ok := saferetry.KeyFromContext(t.Context())
	assert.False(t, ok)
	ctx := saferetry.WithKey(saferetry.WithKey(t.Context(), "outer"), "inner")
	key, ok := saferetry.KeyFromContext(context.WithValue(ctx, struct{}{}, 1))
	assert.True(t, ok)
	assert.Equal(t, "inner", key)
}
