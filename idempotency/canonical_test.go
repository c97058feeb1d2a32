package idempotency

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func canonical(t testing.TB, src string) string {
	t.Helper()
	dst, ok := canonicalJSON(nil, []byte(src))
	require.True(t, ok, "%.80q has no canonical form", src)
	return string(dst)
}

func TestCanonicalJSONOfRFC8785(t *testing.T) {
	for src, want := range map[string]string{
		// section 3.2.2
		`{
		   "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		   "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		   "literals": [null, true, false]
		 }`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		// section 3.2.3
		`{
		   "\u20ac": "Euro Sign",
		   "\r": "Carriage Return",
		   "\ufb33": "Hebrew Letter Dalet With Dagesh",
		   "1": "One",
		   "\ud83d\ude00": "Emoji: Grinning Face",
		   "\u0080": "Control",
		   "\u00f6": "Latin Small Letter O With Diaeresis"
		 }`: `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis",` +
			`"€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		`"\b\f\n\r\t\u001f\/<>&` + "\u2028\u007f" + `"`: `"\b\f\n\r\t\u001f/<>&` + "\u2028\u007f" + `"`,
		`{"😁":1,"😀":2,"a":3,"aa":4,"":5}`:               `{"":5,"a":3,"aa":4,"😀":2,"😁":1}`,
		`{"a":{"c":1,"b":[{}, [ ] ]}}`:                  `{"a":{"b":[{},[]],"c":1}}`,
		" 1.0\n":                                        `1`,
	} {
		assert.Equal(t, want, canonical(t, src))
		assert.Equal(t, want, canonical(t, want), "canonical already")
	}
}

// The doubles of RFC 8785, appendix B.
func TestCanonicalNumbersOfRFC8785(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		assert.Equal(t, want, string(appendNumber(nil, math.Float64frombits(bits))))
		assert.Equal(t, want, canonical(t, want))
	}
}

func TestCanonicalNumbersThatAreTheSame(t *testing.T) {
	for want, same := range map[string][]string{
		"1":                      {"1.0", "1e0", "10E-1", "0.1e+1", "1.000000000000000000000"},
		"0":                      {"-0", "0.0", "-0.0e5", "1e-999"},
		"1e+21":                  {"1000000000000000000000", "1E21"},
		"9007199254740993":       {}, // between two doubles: an account number
		"-123456789012345678901": {},
	} {
		assert.Equal(t, want, canonical(t, want))
		for _, src := range same {
			assert.Equal(t, want, canonical(t, src), src)
		}
	}
	assert.NotEqual(t, canonical(t, "9007199254740992"), canonical(t, "9007199254740993"))
	assert.Equal(t, "9007199254740992", canonical(t, "9007199254740993.0"), "as RFC 8785 has it")
}

func TestNoCanonicalForm(t *testing.T) {
	for _, src := range []string{
		"", " ", "{", "}", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "{}{}", "1 1", "nul", "nulll", "True",
		`{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":1`, `{1:1}`,
		`"`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\u+123"`, "\"\n\"", "\"\xff\"", "'a'",
		`"\ud800"`, `"\ud800a"`, `"\ud800\n12345"`, `"\udc00\ud800"`, `"\ud800\ud800"`,
		"-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "0x10", "NaN", "Infinity", "1e999", "-1e999", "1_0",
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"b":1,"a":2,"b":3}]`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200),
		strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	} {
		_, ok := canonicalJSON(nil, []byte(src))
		assert.False(t, ok, "%.80q", src)
	}
	canonical(t, strings.Repeat("[", maxJSONDepth)+strings.Repeat("]", maxJSONDepth))
}

func FuzzCanonicalJSON(f *testing.F) {
	f.Fuzz(func(t *testing.T, src []byte) {
		dst, ok := canonicalJSON(nil, src)
		if !ok {
			return
		}
		require.True(t, json.Valid(src), "%q is not JSON", src)
		var was, is any
		require.NoError(t, json.Unmarshal(src, &was))
		require.NoError(t, json.Unmarshal(dst, &is), "%q", dst)
		require.True(t, reflect.DeepEqual(was, is), "%q became %q", src, dst)
		again, ok := canonicalJSON(nil, dst)
		require.True(t, ok, "%q", dst)
		require.Equal(t, string(dst), string(again))
	})
}
