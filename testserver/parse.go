package testserver

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The faults' names in the grammar of ParseFault.
var faultNames = [...]string{
	none:             "none",
	neverSaw:         "never-saw",
	crashBeforeWrite: "crash-before-write",
	crashAfterWrite:  "crash-after-write",
	dropResponse:     "drop-response",
	answer:           "answer",
	failAfterWrite:   "fail-after-write",
	stall:            "stall",
	stallAfterWrite:  "stall-after-write",
}

// ParseFault reads a fault as the X-Fault header and Fault.String write it:
//
//	none                                  None()
//	never-saw                             NeverSaw()
//	crash-before-write                    CrashBeforeWrite()
//	crash-after-write                     CrashAfterWrite()
//	drop-response=10                      DropResponse(10)
//	answer=503                            Answer(503)
//	answer=429;retry-after=1;x-note="a b" Answer(429, "Retry-After", "1", "X-Note", "a b")
//	fail-after-write=502                  FailAfterWrite(502)
//	stall=2s                              Stall(2 * time.Second)
//	stall-after-write=150ms               StallAfterWrite(150 * time.Millisecond)
//
// Names have either case. A header value with anything but visible ASCII in it,
// or with a comma, a semicolon, a quote or a backslash, is quoted; inside the
// quotes a backslash stands before a quote or a backslash. The error says what
// was wanted.
func ParseFault(s string) (Fault, error) {
	f, err := parseFault(strings.TrimSpace(s))
	if err != nil {
		return Fault{}, fmt.Errorf("testserver: fault %q: %w", s, err)
	}
	return f, nil
}

// ParseScript reads faults that are separated by commas or white space. It reads
// what package fmt prints for a []Fault, brackets included, so the line a failed
// test has logged runs it again. No faults at all are an empty script.
func ParseScript(s string) ([]Fault, error) {
	s = strings.TrimSpace(s)
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok {
			return nil, fmt.Errorf("testserver: script %q: want a closing bracket", s)
		}
		s = inner
	}
	var script []Fault
	for _, item := range splitScript(s) {
		f, err := ParseFault(item)
		if err != nil {
			return nil, err
		}
		script = append(script, f)
	}
	return script, nil
}

// splitScript cuts s at the commas and white space that are not inside quotes.
func splitScript(s string) (items []string) {
	start, quoted := 0, false
	cut := func(end int) {
		if start < end {
			items = append(items, s[start:end])
		}
		start = end + 1
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++ // and the byte it stands before
		case c == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(", \t\r\n", c) >= 0:
			cut(i)
		}
	}
	cut(len(s))
	return items
}

func parseFault(s string) (Fault, error) {
	name, arg, hasArg := strings.Cut(s, "=")
	switch k := kindOf(name); k {
	case none, neverSaw, crashBeforeWrite, crashAfterWrite:
		if hasArg {
			return Fault{}, fmt.Errorf("want no value after %s", faultNames[k])
		}
		return Fault{kind: k}, nil
	case dropResponse:
		n, err := strconv.Atoi(arg)
		if err != nil {
			return Fault{}, fmt.Errorf("want a number of bytes, as in %s=10", faultNames[k])
		}
		return newDropResponse(n)
	case answer, failAfterWrite:
		return parseStatus(k, arg)
	case stall, stallAfterWrite:
		d, err := time.ParseDuration(arg)
		if err != nil {
			return Fault{}, fmt.Errorf("want a duration, as in %s=1.5s", faultNames[k])
		}
		return newStall(k, d)
	}
	return Fault{}, fmt.Errorf("want one of %s", strings.Join(faultNames[:], ", "))
}

// kindOf returns the kind called name, or -1.
func kindOf(name string) kind {
	for k, n := range faultNames {
		if n == strings.ToLower(name) {
			return kind(k)
		}
	}
	return -1
}

func parseStatus(k kind, arg string) (Fault, error) {
	end := strings.IndexByte(arg+";", ';')
	status, err := strconv.Atoi(arg[:end])
	if err != nil {
		return Fault{}, fmt.Errorf("want a status, as in %s=503", faultNames[k])
	}
	header, err := readParams(arg[end:])
	switch {
	case err != nil:
		return Fault{}, err
	case k == answer:
		return newAnswer(status, header)
	case len(header) > 0:
		return Fault{}, fmt.Errorf("want the status alone after %s", faultNames[k])
	}
	return newFailAfterWrite(status)
}

// writeParam appends ;name=value, or says what is wrong with them as a header
// line. The name is written in lower case.
func writeParam(b *strings.Builder, name, value string) error {
	if !isToken(name) {
		return fmt.Errorf("want a header name, not %q", name)
	}
	b.WriteString(";" + strings.ToLower(name) + "=")
	if isBare(value) {
		b.WriteString(value)
		return nil
	}
	b.WriteByte('"')
	for i := range len(value) {
		switch c := value[i]; {
		case c < ' ' && c != '\t', c == 0x7f:
			return fmt.Errorf("want no control characters in the value of %s", name)
		case c == '"', c == '\\':
			b.WriteByte('\\')
		}
		b.WriteByte(value[i])
	}
	b.WriteByte('"')
	return nil
}

// readParams is the inverse of writeParam, repeated: it returns names in their
// canonical form, each followed by its value.
func readParams(s string) (pairs []string, err error) {
	for s != "" {
		name, rest, ok := strings.Cut(s[1:], "=")
		if s[0] != ';' || !ok || !isToken(name) {
			return nil, fmt.Errorf("want ;name=value at %q", s)
		}
		value, rest, err := readValue(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pairs = append(pairs, http.CanonicalHeaderKey(name), value)
		s = rest
	}
	return pairs, nil
}

// readValue reads a bare or quoted value from the front of s.
func readValue(s string) (value, rest string, err error) {
	if s == "" || s[0] != '"' {
		end := strings.IndexByte(s, ';')
		if end < 0 {
			end = len(s)
		}
		if !isBare(s[:end]) {
			return "", "", fmt.Errorf("want a value, in quotes if it has more than visible ASCII or one of ,;\"\\ in it")
		}
		return s[:end], s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", fmt.Errorf("want a closing quote")
}

// isBare tells whether a value can do without quotes.
func isBare(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || strings.IndexByte(`,;"\`, s[i]) >= 0 {
			return false
		}
	}
	return s != ""
}

// isToken tells whether s may be a header's name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
		isDigit := '0' <= c && c <= '9'
		if !isLetter && !isDigit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
