package saferetry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// floor is the least time that a server wants to pass before the next attempt.
type floor struct {
	wait   time.Duration // 0: it did not say
	beyond bool          // it named more than a time.Duration holds
}

// longer returns the longer of two floors.
func (f floor) longer(g floor) floor {
	return floor{max(f.wait, g.wait), f.beyond || g.beyond}
}

// retryAfter reads Retry-After (RFC 9110, section 10.2.3: seconds, here with
// decimals too, or an HTTP-date) and Retry-After-Ms. Of several values the
// longest counts. A date is measured against the answer's own Date, so that a
// client whose clock is wrong waits as long as the server meant, and against
// now when it has none. What is zero, negative, past or malformed is no floor.
func retryAfter(h http.Header, now func() time.Time) (f floor) {
	for _, value := range h["Retry-After"] {
		value = strings.TrimSpace(value)
		if date, err := http.ParseTime(value); err == nil {
			f = f.longer(until(date, h, now))
		} else {
			f = f.longer(count(value, time.Second))
		}
	}
	for _, value := range h["Retry-After-Ms"] {
		f = f.longer(count(strings.TrimSpace(value), time.Millisecond))
	}
	return f
}

func until(date time.Time, h http.Header, now func() time.Time) floor {
	from, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		from = now()
	}
	d := date.Sub(from) // saturates
	return floor{max(d, 0), d == math.MaxInt64}
}

// count reads a decimal number of units. The digits are checked first: what
// ParseFloat takes besides them (exponents, "inf", hexadecimal) is no count.
func count(value string, unit time.Duration) floor {
	whole, fraction, _ := strings.Cut(value, ".")
	if whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return floor{}
	}
	n, _ := strconv.ParseFloat(value, 64) // out of range: +Inf
	if d := math.Ceil(n * float64(unit)); d < math.MaxInt64 {
		return floor{wait: time.Duration(d)}
	}
	return floor{beyond: true}
}
