package idempotency

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds the recursion, and what sorting the members on every level may cost.
const maxJSONDepth = 128

// canonicalJSON appends the canonical form, by RFC 8785, of the JSON text src to dst. It is false if there is none: src is
// not JSON, or not within the I-JSON of RFC 7493.
func canonicalJSON(dst, src []byte) ([]byte, bool) {
	c := canonicalizer{src: src, dst: dst}
	ok := c.value(0)
	c.space()
	return c.dst, ok && len(c.src) == 0
}

// A canonicalizer has the text still to be read and the canonical form of what was. Its methods each read one thing and
// report whether it was there.
type canonicalizer struct {
	src, dst []byte
}

func (c *canonicalizer) space() { c.src = bytes.TrimLeft(c.src, " \t\r\n") }

// skip reads the character b, with white space before it.
func (c *canonicalizer) skip(b byte) bool {
	c.space()
	if len(c.src) == 0 || c.src[0] != b {
		return false
	}
	c.src = c.src[1:]
	return true
}

func (c *canonicalizer) value(depth int) bool {
	c.space()
	if len(c.src) == 0 || depth > maxJSONDepth {
		return false
	}
	switch c.src[0] {
	case '{':
		return c.object(depth)
	case '[':
		return c.array(depth)
	case '"':
		s, ok := c.text()
		c.dst = appendText(c.dst, s)
		return ok
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	}
	return c.number()
}

func (c *canonicalizer) literal(s string) bool {
	if !bytes.HasPrefix(c.src, []byte(s)) {
		return false
	}
	c.src = c.src[len(s):]
	c.dst = append(c.dst, s...)
	return true
}

func (c *canonicalizer) array(depth int) bool {
	c.skip('[')
	c.dst = append(c.dst, '[')
	if !c.skip(']') {
		for {
			if !c.value(depth + 1) {
				return false
			}
			if c.skip(']') {
				break
			}
			if !c.skip(',') {
				return false
			}
			c.dst = append(c.dst, ',')
		}
	}
	c.dst = append(c.dst, ']')
	return true
}

// A member is one of an object's; its canonical form, name and value, is at dst[from:to].
type member struct {
	name     string
	from, to int
}

func (c *canonicalizer) object(depth int) bool {
	c.skip('{')
	var members []member
	start := len(c.dst)
	if !c.skip('}') {
		for {
			m, ok := c.member(depth)
			if !ok {
				return false
			}
			members = append(members, m)
			if c.skip('}') {
				break
			}
			if !c.skip(',') {
				return false
			}
		}
	}
	return c.sorted(start, members)
}

func (c *canonicalizer) member(depth int) (member, bool) {
	c.space()
	name, ok := c.text()
	m := member{name: name, from: len(c.dst)}
	c.dst = append(appendText(c.dst, name), ':')
	ok = ok && c.skip(':') && c.value(depth+1)
	m.to = len(c.dst)
	return m, ok
}

// sorted puts the members, which are at the end of dst from start on, into their order. Two of one name have none.
func (c *canonicalizer) sorted(start int, members []member) bool {
	slices.SortFunc(members, func(a, b member) int { return compareUTF16(a.name, b.name) })
	unsorted := slices.Clone(c.dst[start:])
	c.dst = append(c.dst[:start], '{')
	for i, m := range members {
		if i > 0 {
			if m.name == members[i-1].name {
				return false
			}
			c.dst = append(c.dst, ',')
		}
		c.dst = append(c.dst, unsorted[m.from-start:m.to-start]...)
	}
	c.dst = append(c.dst, '}')
	return true
}

// compareUTF16 orders valid UTF-8 as RFC 8785, section 3.2.3, wants it: by UTF-16 code units. That is the order of the
// bytes, but for characters past the basic plane, whose first unit is less than U+E000.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			if x > 0xffff && y > 0xffff {
				return cmp.Compare(x, y)
			}
			return cmp.Compare(firstUnit(x), firstUnit(y))
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

func firstUnit(r rune) rune {
	if high, _ := utf16.EncodeRune(r); high != utf8.RuneError {
		return high
	}
	return r
}

// text reads a string and returns what it means.
func (c *canonicalizer) text() (string, bool) {
	if !c.skip('"') {
		return "", false
	}
	var b strings.Builder
	for len(c.src) > 0 {
		switch ch := c.src[0]; {
		case ch == '"':
			c.src = c.src[1:]
			return b.String(), true
		case ch == '\\':
			r, ok := c.escape()
			if !ok {
				return "", false
			}
			b.WriteRune(r)
		case ch < ' ':
			return "", false
		default:
			r, n := utf8.DecodeRune(c.src)
			if r == utf8.RuneError && n == 1 {
				return "", false
			}
			b.Write(c.src[:n])
			c.src = c.src[n:]
		}
	}
	return "", false
}

// escape reads what follows a backslash: \n, \u00e9, or a pair of surrogates.
func (c *canonicalizer) escape() (rune, bool) {
	const short, meaning = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if len(c.src) < 2 {
		return 0, false
	}
	if i := strings.IndexByte(short, c.src[1]); i >= 0 {
		c.src = c.src[2:]
		return rune(meaning[i]), true
	}
	r, ok := c.hex()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	low, ok := c.hex()
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

// hex reads \uXXXX.
func (c *canonicalizer) hex() (rune, bool) {
	if len(c.src) < 6 || c.src[0] != '\\' || c.src[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(c.src[2:6]), 16, 16)
	c.src = c.src[6:]
	return rune(n), err == nil
}

// appendText appends s as a string with the escapes of RFC 8785, section 3.2.2.2, which are as few as there can be.
func appendText(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch b := s[i]; b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			if b < ' ' {
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
			} else {
				dst = append(dst, b)
			}
		}
	}
	return append(dst, '"')
}

// number reads a number and appends it as RFC 8785, section 3.2.2.3, has it: as ECMAScript prints the nearest double. An
// integer that the double does not hold keeps its digits instead, or two accounts could be taken for one.
func (c *canonicalizer) number() bool {
	n, integer := scanNumber(c.src)
	text := string(c.src[:n])
	c.src = c.src[n:]
	f, err := strconv.ParseFloat(text, 64)
	if n == 0 || err != nil { // not a number, or beyond the doubles
		return false
	}
	if integer && len(text) > 15 && strconv.FormatFloat(f, 'f', -1, 64) != text {
		c.dst = append(c.dst, text...)
		return true
	}
	c.dst = appendNumber(c.dst, f)
	return true
}

// scanNumber returns the length of the number that s starts with, by the grammar of RFC 8259, section 6, or 0.
func scanNumber(s []byte) (length int, integer bool) {
	digits := func(i int) int {
		for i < len(s) && '0' <= s[i] && s[i] <= '9' {
			i++
		}
		return i
	}
	start := 0
	if len(s) > 0 && s[0] == '-' {
		start = 1
	}
	i := digits(start)
	if i == start || s[start] == '0' && i > start+1 {
		return 0, false
	}
	integer = true
	if i < len(s) && s[i] == '.' {
		from := i + 1
		if i = digits(from); i == from {
			return 0, false
		}
		integer = false
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		from := i + 1
		if from < len(s) && (s[from] == '+' || s[from] == '-') {
			from++
		}
		if i = digits(from); i == from {
			return 0, false
		}
		integer = false
	}
	return i, integer
}

// appendNumber appends f as ECMAScript prints it (ECMA-262, Number::toString).
func appendNumber(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs == 0 {
		return append(dst, '0') // -0 too
	}
	if 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') { // e-07 is e-7
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}
