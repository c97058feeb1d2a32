package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
)

// rawFingerprint is SHA-256 of the query, after its length, and the body.
func rawFingerprint(r *http.Request, body []byte) (sum [32]byte) {
	h := sha256.New()
	h.Write(appendQuery(nil, r))
	h.Write(body)
	h.Sum(sum[:0])
	return sum
}

// JSONFingerprint is for [WithFingerprint]: it tells requests apart by their query, as it is, and by what their JSON body
// means, so that the order of members, white space, escapes and the form of numbers (1.0, 1, 1e0) make no difference.
// A client that encodes the body anew for each attempt needs this.
//
// It takes the canonical form of RFC 8785, which has numbers as IEEE 754 doubles: 0.1 and 0.10000000000000000555 are the
// same. An integer that a double does not hold exactly, as a long account number may be, counts with all of its digits.
//
// A body that has no canonical form counts byte by byte, as it does without JSONFingerprint: one that is not JSON (the
// handler is to say so), is empty, repeats a member name, is not valid UTF-8, has half of a surrogate pair, a number beyond
// the doubles, or more than 128 levels. The error is always nil. It may be called by many goroutines at once.
func JSONFingerprint(r *http.Request, body []byte) ([]byte, error) {
	const isJSON, isRaw = 'J', 'R'
	if canonical, ok := canonicalJSON(append(appendQuery(nil, r), isJSON), body); ok {
		return canonical, nil
	}
	return append(append(appendQuery(nil, r), isRaw), body...), nil
}

// appendQuery appends the query of r with its length before it, so that whatever follows is told from it.
func appendQuery(dst []byte, r *http.Request) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(r.URL.RawQuery)))
	return append(dst, r.URL.RawQuery...)
}
