package idempotency

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseKey(t *testing.T) {
	longest := strings.Repeat("k", 255)
	for value, want := range map[string]string{
		`k`:                                   `k`,
		`"k"`:                                 `k`,
		` k	`:                                 `k`,
		`8e03978e-40d5-43e8-bc93-6894`:        `8e03978e-40d5-43e8-bc93-6894`,
		`!~`:                                  `!~`,
		`a,b`:                                 `a,b`,
		`"a,b"`:                               `a,b`,
		`a"b`:                                 `a"b`,
		`"a\"b"`:                              `a"b`,
		`a\b`:                                 `a\b`,
		`"a\\b"`:                              `a\b`,
		`k"`:                                  `k"`,
		longest:                               longest,
		`"` + longest + `"`:                   longest,
		`"` + strings.Repeat(`\"`, 255) + `"`: strings.Repeat(`"`, 255),
	} {
		key, err := parseKey(value)
		require.NoError(t, err, value)
		assert.Equal(t, want, key, value)
	}
	for value, want := range map[string]error{
		``:                         errKeyEmpty,
		" \t":                      errKeyEmpty,
		`""`:                       errKeyEmpty,
		`" "`:                      errKeyASCII,
		`a b`:                      errKeyASCII,
		`"a b"`:                    errKeyASCII,
		"a\tb":                     errKeyASCII,
		"a\x7f":                    errKeyASCII,
		"k\x00":                    errKeyASCII,
		`schlüssel`:                errKeyASCII,
		`"`:                        errKeyQuote,
		`"k`:                       errKeyQuote,
		`"k\"`:                     errKeyQuote,
		`"k\`:                      errKeyQuote,
		`"a\b"`:                    errKeyQuote,
		`"a"b`:                     errKeyQuote,
		`"a""`:                     errKeyQuote,
		`"k";p=1`:                  errKeyQuote,
		longest + `k`:              errKeyLong,
		`"` + longest + `k"`:       errKeyLong,
		strings.Repeat("ü", 255/2): errKeyASCII,
	} {
		_, err := parseKey(value)
		assert.Equal(t, want, err, value)
	}
}

func TestKeyOfHeader(t *testing.T) {
	_, err := keyOf(http.Header{})
	assert.Equal(t, errKeyMissing, err)
	_, err = keyOf(http.Header{"Idempotency-Key": {"a", "a"}})
	assert.Equal(t, errKeyLines, err)
	_, err = keyOf(http.Header{"Idempotency-Key": {""}})
	assert.Equal(t, errKeyEmpty, err)
	key, err := keyOf(http.Header{"Idempotency-Key": {"a"}})
	require.NoError(t, err)
	assert.Equal(t, "a", key)
}

func FuzzParseKey(f *testing.F) {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, value string) {
		key, err := parseKey(value)
		if err != nil {
			assert.Empty(t, key)
			return
		}
		assert.True(t, 1 <= len(key) && len(key) <= 255, "a key of %d characters", len(key))
		for _, c := range []byte(key) {
			assert.True(t, '!' <= c && c <= '~', "character %q", c)
		}
		again, err := parseKey(`"` + quote.Replace(key) + `"`)
		assert.NoError(t, err)
		assert.Equal(t, key, again, "quoted")
		if key[0] != '"' {
			again, err = parseKey(key)
			assert.NoError(t, err)
			assert.Equal(t, key, again, "bare")
		}
	})
}
