package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/saferetry/saferetry/idempotency"
)

// digest returns the SHA-256 of parts, each with its length: no two lists of parts give the same bytes to hash.
func digest(parts ...string) []byte {
	var data []byte
	for _, part := range parts {
		data = binary.BigEndian.AppendUint64(data, uint64(len(part)))
		data = append(data, part...)
	}
	sum := sha256.Sum256(data)
	return sum[:]
}

// recordID is the primary key of the operation's record.
func recordID(id idempotency.ID) []byte { return digest(id.Scope, id.Method, id.Path, id.Key) }

// readable returns s as text that PostgreSQL takes, whatever its bytes: one that is NUL or no UTF-8 is written \xNN, and
// a backslash \\.
func readable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\\") {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1, r == 0:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\\':
			b.WriteString(`\\`)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// original undoes readable.
func original(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		var c byte
		if _, err := fmt.Sscanf(s, `\x%02x`, &c); err == nil {
			b.WriteByte(c)
			s = s[len(`\x00`):]
			continue
		}
		if s[0] == '\\' && len(s) > 1 {
			s = s[1:]
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}
