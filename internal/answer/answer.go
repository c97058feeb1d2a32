// Package answer compares the answers that a server gave to one request sent
// several times.
package answer

import (
	"net/http"
	"slices"
	"strings"
)

// An Answer is what came back for a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// markers are the header fields by which servers mark an answer as a stored one.
var markers = []string{
	"Idempotent-Replayed", "Idempotent-Replay", "Idempotency-Replayed", "Idempotency-Replay", "X-Idempotent-Replayed",
}

// Replayed reports whether the answer is marked as a stored one: by one of the
// fields that servers use for it, or by one of those in also.
func (a Answer) Replayed(also ...string) bool {
	isTrue := func(name string) bool {
		value, _, _ := strings.Cut(a.Header.Get(name), ";")
		value = strings.Trim(value, " \t")
		return strings.EqualFold(value, "true") || value == "?1" // RFC 9651, section 3.3.6
	}
	return slices.ContainsFunc(markers, isTrue) || slices.ContainsFunc(also, isTrue)
}

// matter are the header fields that say what an answer means. The others, such
// as Date or a request id, may be another's in each answer.
var matter = []string{
	"Allow", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Type", "Etag",
	"Last-Modified", "Link", "Location",
}

// Matters reports whether two answers to one request are to agree in the header
// field name.
func Matters(name string) bool { return slices.Contains(matter, http.CanonicalHeaderKey(name)) }
