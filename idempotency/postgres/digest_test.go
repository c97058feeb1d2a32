package postgres

import (
	"encoding/hex"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestDigestTellsPartsApart(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"", "abc"}, {"abc"}, {"a", "b", "c"}, {}} {
		seen[hex.EncodeToString(digest(parts...))] = true
	}
	require.Len(t, seen, 7)
}

func TestReadableTextIsAsItWas(t *testing.T) {
	for s, want := range map[string]string{
		"":                 "",
		"/v1/charges":      "/v1/charges",
		"zahlung ü €":      "zahlung ü €",
		"\x00":             `\x00`,
		"a\xffb\xc3":       `a\xffb\xc3`,
		`\`:                `\\`,
		`\x00`:             `\\x00`,
		`\\x00`:            `\\\\x00`,
		`"W/\"1\""`:        `"W/\\"1\\""`,
		"\\\xff\\\x00\\ü":  `\\\xff\\\x00\\ü`,
		"\ufffd is a rune": "\ufffd is a rune",
	} {
		got := readable(s)
		require.Equal(t, want, got)
		require.Equal(t, s, original(got))
	}
}

func FuzzReadable(f *testing.F) {
	f.Add("a\xff\\x00\x00")
	f.Fuzz(func(t *testing.T, s string) {
		text := readable(s)
		if !utf8.ValidString(text) || original(text) != s {
			t.Fatalf("%q became %q and then %q", s, text, original(text))
		}
		for _, r := range text {
			if r == 0 {
				t.Fatalf("%q has a NUL", text)
			}
		}
	})
}

func TestHeadersComeBackAsTheyWere(t *testing.T) {
	for _, h := range []http.Header{
		nil, {}, {"Link": {"<a>", "<b>"}, "Etag": {`W/"\"1"`}, "X-Raw": {"\xff\x00"}, "Gone": nil, "X\xff": {""}},
	} {
		text := headerText(h)
		var stored []byte
		if text != nil {
			stored = []byte(*text)
		}
		got, err := header(stored)
		require.NoError(t, err)
		require.Equal(t, h, got)
	}
	_, err := header([]byte("{"))
	require.ErrorContains(t, err, "postgres: the stored header: ")
}
