package saferetry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var someday = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func TestRetryAfterInSeconds(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1": time.Second, "120": 2 * time.Minute, "007": 7 * time.Second, " 3 ": 3 * time.Second,
		"1.5": 1500 * time.Millisecond, "0.25": 250 * time.Millisecond, ".5": 500 * time.Millisecond, "2.": 2 * time.Second,
		"0.0000000001": 1, // not less than it says
		"9223372036":   9223372036 * time.Second,
	} {
		assert.Equal(t, floor{wait: want}, retryAfter(http.Header{"Retry-After": {value}}, at(someday)), value)
	}
}

func TestRetryAfterInMilliseconds(t *testing.T) {
	for value, want := range map[string]time.Duration{"1": time.Millisecond, "1500": 1500 * time.Millisecond, "0.5": 500 * time.Microsecond} {
		assert.Equal(t, floor{wait: want}, retryAfter(http.Header{"Retry-After-Ms": {value}}, at(someday)), value)
	}
}

func TestRetryAfterAsADateInAllThreeForms(t *testing.T) {
	for name, value := range map[string]string{
		"IMF-fixdate": "Sun, 01 Mar 2026 12:00:30 GMT",
		"RFC 850":     "Sunday, 01-Mar-26 12:00:30 GMT",
		"asctime":     "Sun Mar  1 12:00:30 2026",
	} {
		h := http.Header{"Retry-After": {value}}
		assert.Equal(t, floor{wait: 30 * time.Second}, retryAfter(h, at(someday)), "%s, against now", name)

		// The client's clock is an hour ahead, or behind: the server's own Date tells.
		h.Set("Date", "Sun, 01 Mar 2026 12:00:10 GMT")
		for _, now := range []time.Time{someday.Add(time.Hour), someday.Add(-time.Hour)} {
			assert.Equal(t, floor{wait: 20 * time.Second}, retryAfter(h, at(now)), "%s, against Date", name)
		}
		h.Set("Date", "Sunday, 01-Mar-26 12:00:10 GMT")
		assert.Equal(t, floor{wait: 20 * time.Second}, retryAfter(h, at(someday)), "%s, against an old Date", name)
		h.Set("Date", "yesterday")
		assert.Equal(t, floor{wait: 30 * time.Second}, retryAfter(h, at(someday)), "%s, Date malformed", name)
	}
}

func TestRetryAfterThatIsNoFloor(t *testing.T) {
	for _, value := range []string{
		"0", "0.0", "-1", "-0.5", "", " ", ".", "soon", "1s", "1e3", "0x10", "inf", "Inf", "NaN", "+5", "1,5", "1, 2", "1.2.3",
		"1_000", "١", "5 seconds", "-9223372037", "Sun, 01 Mar 2026 11:59:59 GMT", "Sun, 01 Mar 2026 12:00:00 GMT",
		"Fri, 31 Dec 1999 23:59:59 GMT", "Mon Jan  1 00:00:00 0001", "2026-03-01T12:00:30Z", "Sun, 01 Mar 2026 12:00:30 CET",
	} {
		assert.Zero(t, retryAfter(http.Header{"Retry-After": {value}}, at(someday)), value)
		assert.Zero(t, retryAfter(http.Header{"Retry-After-Ms": {value}}, at(someday)), value)
	}
	assert.Zero(t, retryAfter(nil, at(someday)))
	assert.Zero(t, retryAfter(http.Header{"Retry-After": nil}, at(someday)))
}

// More than a time.Duration holds: multiplied as integers these wrap around.
func TestRetryAfterWrapsNegativeWhenMultiplied(t *testing.T) {
	for _, value := range []string{
		"9223372037", "9223372036.9", "9223372036.854775807", "18446744073", "18446744074", "99999999999", strings.Repeat("9", 20), strings.Repeat("9", 400),
		"Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		got := retryAfter(http.Header{"Retry-After": {value}}, at(someday))
		assert.True(t, got.beyond, value)
	}
	assert.True(t, retryAfter(http.Header{"Retry-After-Ms": {"9223372036854.775807"}}, at(someday)).beyond)
	assert.False(t, retryAfter(http.Header{"Retry-After-Ms": {"9223372036000"}}, at(someday)).beyond)
}

func TestRetryAfterTakesTheLongestOfSeveral(t *testing.T) {
	for _, test := range []struct {
		seconds, millis []string
		want            floor
	}{
		{[]string{"1", "3", "2"}, nil, floor{wait: 3 * time.Second}},
		{[]string{"1"}, []string{"2500", "100"}, floor{wait: 2500 * time.Millisecond}},
		{[]string{"3"}, []string{"2500"}, floor{wait: 3 * time.Second}},
		{[]string{"soon", "0", "2"}, []string{"-1"}, floor{wait: 2 * time.Second}},
		{[]string{"1", "Sun, 01 Mar 2026 12:00:30 GMT"}, nil, floor{wait: 30 * time.Second}},
		{[]string{"1", "9223372037"}, []string{"1"}, floor{wait: time.Second, beyond: true}},
	} {
		h := http.Header{"Retry-After": test.seconds, "Retry-After-Ms": test.millis}
		assert.Equal(t, test.want, retryAfter(h, at(someday)), h)
	}
}

// FuzzRetryAfter checks that no value gives a negative floor or one that is
// shorter than the number it names, and that the order of lines is nothing.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"0", "1", "1.5", "-1", "9223372036", "9223372037", "99999999999999999999", "1e9", "NaN",
		"Sun, 01 Mar 2026 12:00:30 GMT", "Sunday, 01-Mar-26 12:00:30 GMT", "Sun Mar  1 12:00:30 2026", "soon"} {
		f.Add(value, "2")
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		got := retryAfter(http.Header{"Retry-After": {one, other}}, at(someday))
		require.GreaterOrEqual(t, got.wait, time.Duration(0))
		require.Equal(t, got, retryAfter(http.Header{"Retry-After": {other, one}}, at(someday)))
		alone := retryAfter(http.Header{"Retry-After": {one}}, at(someday))
		require.Equal(t, got, alone.longer(retryAfter(http.Header{"Retry-After": {other}}, at(someday))))
		if n, err := strconv.ParseUint(one, 10, 64); err == nil {
			if n <= math.MaxInt64/uint64(time.Second) {
				require.InDelta(t, float64(n), alone.wait.Seconds(), 1e-6*float64(n)+1e-9)
			} else {
				require.True(t, alone.beyond)
			}
		}
	})
}
