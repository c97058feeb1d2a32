package saferetry_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// Quoting is a matter of the wire: report, context and hooks have the bare key.
func TestQuotedKeyIsBareEverywhereButOnTheWire(t *testing.T) {
	for _, test := range []struct{ name, key, wire string }{
		{"plain", "order-1", `"order-1"`},
		{"quote inside", `a"b`, `"a\"b"`},
		{"backslash inside", `a\b`, `"a\\b"`},
		{"one quote", `"`, `"\""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var atFunc, atDone string
			base := script(answers(503), answers(201))
			resp, report, err := perform(t, base, scriptedPost(saferetry.WithKey(t.Context(), test.key)), withoutWaits,
				saferetry.WithQuotedKey(), saferetry.WithHooks(saferetry.Hooks{
					Attempt: func(a saferetry.Attempt) { atFunc, _ = saferetry.KeyFromContext(a.Request.Context()) },
					Done:    func(_ *http.Request, r saferetry.Report) { atDone = r.Key },
				}))
			require.NoError(t, err)
			assert.Equal(t, []string{test.wire, test.wire}, base.keys(saferetry.KeyHeader))
			assert.Equal(t, test.wire, resp.Request.Header.Get(saferetry.KeyHeader))
			assert.Equal(t, []string{test.key, test.key, test.key}, []string{report.Key, atFunc, atDone})
		})
	}
}

func TestCallersQuotedHeaderIsSentAsWritten(t *testing.T) {
	for _, test := range []struct{ name, written, key string }{
		{"quoted", `"order-1"`, "order-1"},
		{"escaped quote", `"a\"b"`, `a"b`},
		{"escaped backslash", `"a\\b"`, `a\b`},
	} {
		for name, opts := range map[string][]saferetry.Option{"bare": nil, "with WithQuotedKey": {saferetry.WithQuotedKey()}} {
			t.Run(test.name+" "+name, func(t *testing.T) {
				req := scriptedPost(t.Context())
				req.Header["idempotency-key"] = []string{test.written}
				base := script(answers(503), answers(201))
				_, report, err := perform(t, base, req, append(opts, withoutWaits)...)
				require.NoError(t, err)
				assert.Equal(t, test.key, report.Key)
				assert.Equal(t, []string{test.written, test.written}, base.keys(saferetry.KeyHeader))
			})
		}
	}
}

func TestCallersBareHeaderIsQuotedByTheOption(t *testing.T) {
	req := scriptedPost(t.Context())
	req.Header.Set(saferetry.KeyHeader, "order-1")
	base := script(answers(201))
	_, report, err := perform(t, base, req, saferetry.WithQuotedKey())
	require.NoError(t, err)
	assert.Equal(t, "order-1", report.Key)
	assert.Equal(t, []string{`"order-1"`}, base.keys(saferetry.KeyHeader))
}

// What only looks like an RFC 8941 string is a key of visible characters.
func TestHalfQuotedHeaderIsABareKey(t *testing.T) {
	for _, key := range []string{`"`, `"order-1`, `order-1"`, `"a"b"`, `"a\"`, `"a\b"`} {
		req := scriptedPost(t.Context())
		req.Header.Set(saferetry.KeyHeader, key)
		base := script(answers(201))
		_, report, err := perform(t, base, req)
		require.NoError(t, err)
		assert.Equal(t, key, report.Key)
		assert.Equal(t, []string{key}, base.keys(saferetry.KeyHeader))
	}
}

// FuzzValidateKey checks that a valid key survives quoting, that a transport
// sends exactly the valid ones, and that no error shows the key.
func FuzzValidateKey(f *testing.F) {
	for _, key := range []string{"", "order-1", `a"b\c`, `"`, `"quoted"`, `\`, "a b", "a\nb", "é", strings.Repeat("k", 255), strings.Repeat("k", 256)} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		valid := len(key) >= 1 && len(key) <= 255 && strings.IndexFunc(key, func(r rune) bool { return r < '!' || r > '~' }) < 0
		err := saferetry.ValidateKey(key)
		require.Equal(t, valid, err == nil, "%v", err)

		base := script(answers(200))
		_, report, sendErr := perform(t, base, scriptedPost(saferetry.WithKey(t.Context(), key)), saferetry.WithQuotedKey())
		require.Equal(t, valid, sendErr == nil)
		if !valid {
			require.Empty(t, base.requests())
			if len(key) > 12 { // anything shorter may be part of the message
				require.NotContains(t, err.Error(), key)
				require.NotContains(t, sendErr.Error(), key)
			}
			return
		}
		require.Equal(t, key, report.Key)
		wire := base.keys(saferetry.KeyHeader)[0]

		again := scriptedPost(t.Context())
		again.Header.Set(saferetry.KeyHeader, wire)
		_, report, sendErr = perform(t, base, again)
		require.NoError(t, sendErr)
		require.Equal(t, key, report.Key, "read back from %s", wire)
		require.Equal(t, []string{wire, wire}, base.keys(saferetry.KeyHeader))
	})
}
