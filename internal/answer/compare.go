package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Difference is a field in which an answer is not as the first was.
type Difference struct {
	Field  string `json:"field"` // status, header NAME, body, or a member of a JSON body, such as body.id
	First  string `json:"first"` // "" if the first has none
	Other  string `json:"other"`
	Counts bool   `json:"counts"` // false for a header field that may differ
}

// Compare returns in which fields other is not as first: the status, then the
// header by name, then the body. Of two JSON bodies it names the members.
// Header fields in also count, next to those that always do.
func Compare(first, other Answer, also ...string) []Difference {
	var found []Difference
	if first.Status != other.Status {
		found = append(found, Difference{"status", strconv.Itoa(first.Status), strconv.Itoa(other.Status), true})
	}
	for _, name := range names(first.Header, other.Header) {
		a, b := first.Header[name], other.Header[name]
		if !slices.Equal(a, b) {
			counts := Matters(name) || slices.ContainsFunc(also, func(s string) bool { return strings.EqualFold(s, name) })
			found = append(found, Difference{"header " + name, line(name, a), line(name, b), counts})
		}
	}
	return append(found, compareBodies(first.Body, other.Body)...)
}

// Agree reports whether no difference counts.
func Agree(found []Difference) bool {
	return !slices.ContainsFunc(found, func(d Difference) bool { return d.Counts })
}

// Differing returns the members, by their path in two JSON bodies, whose values
// are not the same. ok is false if not both are JSON objects.
func Differing(a, b []byte) (paths []string, ok bool) {
	found, ok := compareObjects(a, b)
	for _, d := range found {
		paths = append(paths, d.Field)
	}
	return paths, ok
}

// Values returns what a JSON body has at paths that Differing named: strings
// without their quotes.
func Values(body []byte, paths []string) []string {
	var v any
	if decode(body, &v) != nil {
		return nil
	}
	leaves := make(map[string]string)
	flatten("body", v, leaves)
	var values []string
	for _, path := range paths {
		value, ok := leaves[path]
		if text, err := strconv.Unquote(value); err == nil {
			value = text
		}
		if ok {
			values = append(values, value)
		}
	}
	return values
}

func names(headers ...http.Header) []string {
	all := make(map[string]bool)
	for _, h := range headers {
		for name := range h {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// line shows the values of a header field. Those of a cookie are credentials.
func line(name string, values []string) string {
	if len(values) > 0 && Secret(name) {
		return "(redacted)"
	}
	return strings.Join(values, ", ")
}

// Secret reports whether the header field name has credentials.
func Secret(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "Set-Cookie2", "X-Api-Key":
		return true
	}
	return false
}

func compareBodies(a, b []byte) []Difference {
	if bytes.Equal(a, b) {
		return nil
	}
	if found, ok := compareObjects(a, b); ok && len(found) > 0 {
		return found
	}
	return []Difference{{"body", summary(a), summary(b), true}}
}

// compareObjects compares two bodies that are JSON objects, member by member.
func compareObjects(a, b []byte) (found []Difference, ok bool) {
	var x, y map[string]any
	if decode(a, &x) != nil || decode(b, &y) != nil {
		return nil, false
	}
	left, right := make(map[string]string), make(map[string]string)
	flatten("body", x, left)
	flatten("body", y, right)
	paths := make(map[string]bool)
	for path := range left {
		paths[path] = true
	}
	for path := range right {
		paths[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if left[path] != right[path] {
			found = append(found, Difference{path, left[path], right[path], true})
		}
	}
	return found, true
}

func decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return d.Decode(v)
}

// flatten puts the leaves of a JSON value under their paths.
func flatten(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			into[path] = "{}"
		}
		for name, value := range v {
			flatten(path+"."+name, value, into)
		}
	case []any:
		if len(v) == 0 {
			into[path] = "[]"
		}
		for i, value := range v {
			flatten(path+"["+strconv.Itoa(i)+"]", value, into)
		}
	case string:
		into[path] = strconv.Quote(v)
	case nil:
		into[path] = "null"
	default: // a bool or a number
		into[path] = fmt.Sprint(v)
	}
}

// summary shows a body in one line.
func summary(body []byte) string {
	const most = 60
	if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		return fmt.Sprintf("%d bytes", len(body))
	}
	s := strings.TrimRight(string(body), "\n")
	if len(s) > most || strings.ContainsAny(s, "\n\r\x1b") {
		return fmt.Sprintf("%d bytes, %q…", len(body), s[:min(len(s), most)])
	}
	return strconv.Quote(s)
}
