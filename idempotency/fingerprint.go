package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
)

// rawFingerprint is SHA-256 of the query's length, the query and the body: what tells two requests under one key apart
// unless WithFingerprint says otherwise.
func rawFingerprint(r *http.Request, body []byte) [32]byte {
	h := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(r.URL.RawQuery)))
	h.Write(length[:])
	h.Write([]byte(r.URL.RawQuery))
	h.Write(body)
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}
