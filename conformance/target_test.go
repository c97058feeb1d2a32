package conformance

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWrongTargetIsNamed(t *testing.T) {
	good := Target{URL: "http://localhost/x", Body: `{"a":1}`}
	for want, change := range map[string]func(*Target){
		`conformance: Target.URL: "localhost:80": want an address with http:// or https:// in front`: func(t *Target) {
			t.URL = "localhost:80"
		},
		`conformance: Target.URL: "(not a URL)": want an address with http:// or https:// in front`: func(t *Target) { t.URL = "http://%" },
		`conformance: Target.OtherURL: "ftp://x": want an address`:                                  func(t *Target) { t.OtherURL = "ftp://x" },
		`conformance: Target.Profile: "rfc": want draft, stripe or acp`:                             func(t *Target) { t.Profile = "rfc" },
		`conformance: Target.Method: "GET": want one that has an effect`:                            func(t *Target) { t.Method = "get" },
		`conformance: Target.Retention: "-1ns": want 0 or more`:                                     func(t *Target) { t.Retention = -1 },
		`conformance: Target.Timeout: "-1ns": want 0 or more`:                                       func(t *Target) { t.Timeout = -1 },
		`conformance: Target.Only: "replay": want the ID of a check`:                                func(t *Target) { t.Only = []string{"replay"} },
		`conformance: Target.Ways.Slow: "members for the body": want a body that is a JSON object`: func(t *Target) {
			t.OtherBody = "[]"
			t.Ways.Slow = &Way{Body: map[string]json.RawMessage{"slow": []byte("1")}}
		},
	} {
		target := good
		change(&target)
		_, err := Plan(target)
		require.ErrorContains(t, err, want)
		_, err = Run(t.Context(), target)
		require.ErrorContains(t, err, want)
	}
}

func TestLoopbackIsToldByTheAddressAlone(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:8080/": true, "http://127.8.8.8/": true, "http://[::1]:80/": true, "https://localhost/": true,
		"http://LOCALHOST./": true, "http://api.localhost/": true, "http://[::ffff:127.0.0.1]/": true,
		"http://10.0.0.1/": false, "http://localhost.example.com/": false, "http://example.com/": false, "http://%": false,
		"http://0.0.0.0/": false, "http://127.0.0.1.example.com/": false,
	} {
		require.Equal(t, want, loopback(address), address)
	}
}

func TestABodyIsRewrittenWithoutChangingItsMembers(t *testing.T) {
	const text = `{"b": {"x":1.50}, "a":2, "n":null}`
	back, ok := reordered([]byte(text))
	require.True(t, ok)
	require.Equal(t, `{"n":null,"a":2,"b":{"x":1.50}}`, string(back))
	number, ok := renumbered([]byte(text))
	require.True(t, ok)
	require.Equal(t, `{"b":{"x":1.50},"a":2.0,"n":null}`, string(number))
	set, err := (&Way{Body: map[string]json.RawMessage{"a": []byte(`"é"`), "z": []byte("[]")}}).apply([]byte(text))
	require.NoError(t, err)
	require.Equal(t, `{"b":{"x":1.50},"a":"é","n":null,"z":[]}`, string(set))
	for _, bad := range []string{"", "[1]", "{", `{"a":}`, `{"a"`, "x=1", `{"a":1`} {
		_, ok := reordered([]byte(bad))
		require.False(t, ok, bad)
		_, ok = renumbered([]byte(bad))
		require.False(t, ok, bad)
	}
	_, ok = reordered([]byte(`{"a":1}`))
	require.False(t, ok)
	_, ok = renumbered([]byte(`{"a":"1"}`))
	require.False(t, ok)
	require.Equal(t, "http://h/p?a=1&b=2", withQuery("http://h/p?a=0&b=2", url.Values{"a": {"1"}}))
	require.Equal(t, "http://h/p/x?a=0", below("http://h/p?a=0", "x"))
}
