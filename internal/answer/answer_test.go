package answer

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReplayIsToldByItsMark(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "TRUE": true, "?1": true, "true;q=1": true, "false": false, "": false, "1": false} {
		require.Equal(t, want, Answer{Header: http.Header{"Idempotent-Replayed": {value}}}.Replayed(), value)
	}
	for _, name := range []string{"Idempotent-Replay", "Idempotency-Replayed", "Idempotency-Replay", "X-Idempotent-Replayed"} {
		require.True(t, Answer{Header: http.Header{name: {"true"}}}.Replayed(), name)
	}
	own := Answer{Header: http.Header{"X-Cached": {"true"}}}
	require.False(t, own.Replayed())
	require.True(t, own.Replayed("X-Cached"))
}

func TestCompareNamesTheFieldsThatDiffer(t *testing.T) {
	first := Answer{201, http.Header{"Location": {"/a"}, "Date": {"then"}, "X-Own": {"1"}, "Set-Cookie": {"secret"}},
		[]byte(`{"id":"a","n":[1,{}],"big":12345678901234567890,"e":[]}`)}
	require.Empty(t, Compare(first, first))
	other := Answer{200, http.Header{"Date": {"now"}}, []byte(`{"id":"b","n":[1,2],"big":12345678901234567890,"more":null}`)}
	require.Equal(t, []Difference{
		{"status", "201", "200", true},
		{"header Date", "then", "now", false},
		{"header Location", "/a", "", true},
		{"header Set-Cookie", "(redacted)", "", false},
		{"header X-Own", "1", "", true},
		{"body.e", "[]", "", true},
		{"body.id", `"a"`, `"b"`, true},
		{"body.more", "", "null", true},
		{"body.n[1]", "{}", "2", true},
	}, Compare(first, other, "x-own"))
	require.False(t, Agree(Compare(first, other)))
	require.True(t, Agree([]Difference{{Field: "header Date"}}))

	text := func(s string) Answer { return Answer{Body: []byte(s)} }
	require.Equal(t, []Difference{{"body", `"a"`, `"b"`, true}}, Compare(text("a"), text("b\n")))
	require.Equal(t, []Difference{{"body", "2 bytes", `2 bytes, "a\x1b"…`, true}}, Compare(text("\xff\x00"), text("a\x1b")))
	require.Equal(t, []Difference{{"body", `"{}"`, `"{ }"`, true}}, Compare(text("{}"), text("{ }")), "the bytes count too")
}

func TestWhatTellsTwoAnswersApart(t *testing.T) {
	a, b := []byte(`{"id":"a\"1","kind":"x","in":[{"n":1}]}`), []byte(`{"id":"b","kind":"x","in":[{"n":2}]}`)
	paths, ok := Differing(a, b)
	require.True(t, ok)
	require.Equal(t, []string{"body.id", "body.in[0].n"}, paths)
	require.Equal(t, []string{`a"1`, "1"}, Values(a, append(paths, "body.none")))
	_, ok = Differing(a, []byte("text"))
	require.False(t, ok)
	require.Nil(t, Values([]byte("text"), paths))
}
