package idempotency

import (
	"encoding/json"
	"net/http"
)

// A problem is an answer of this layer, by RFC 9457.
type problem struct {
	status     int
	code       string
	title      string
	detail     string // for the caller's eyes: nothing of another request, nothing of the store
	retryAfter string // seconds; "": the header is left out
}

var (
	scopeUnresolved = problem{401, "scope_unresolved", "The caller is not known",
		"the caller of this request could not be told", ""}
	keyMissing = problem{400, "idempotency_key_missing", "An idempotency key is required",
		"the request has no Idempotency-Key header", ""}
	keyInvalid = problem{400, "idempotency_key_invalid", "The idempotency key is not valid",
		"", ""} // by what is wrong with it
	bodyUnreadable = problem{400, "request_unreadable", "The request could not be read",
		"the body broke off", ""}
	fingerprintFailed = problem{400, "fingerprint_failed", "The request could not be fingerprinted",
		"the request cannot be told from others under the same key", ""}
	requestTooLarge = problem{413, "request_too_large", "The request is too large",
		"", ""} // by the limit
	keyReuse = problem{422, "idempotency_key_reuse", "The idempotency key was used for another request",
		"the first request under this key had another query or body", ""}
	keyInProgress = problem{409, "idempotency_key_in_progress", "A request with this idempotency key is in progress",
		"the first request under this key has not ended; ask again", "1"}
	answerNotStored = problem{409, "idempotency_response_not_stored", "The operation is done, its answer was not stored",
		"the operation was performed; asking again will not bring its answer", ""}
	claimLost = problem{500, "idempotency_claim_lost", "The operation was taken over by another request",
		"this request took too long; ask again for the answer of the other", ""}
	storeFailed = problem{500, "idempotency_store_failed", "The answer could not be stored",
		"whether the operation was performed is not known; ask again", ""}
	storeUnavailable = problem{503, "store_unavailable", "The idempotency store is not available",
		"nothing was done; ask again", "1"}
)

const problemTypes = "https://pkg.go.dev/github.com/saferetry/saferetry/idempotency#"

// because returns the problem with a detail that depends on the request.
func (p problem) because(detail string) problem {
	p.detail = detail
	return p
}

// write answers with the problem.
func (p problem) write(w http.ResponseWriter) {
	body, _ := json.Marshal(struct { // strings and an int: no error
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Error  string `json:"error"`
	}{problemTypes + p.code, p.title, p.status, p.detail, p.code})
	h := w.Header()
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/problem+json")
	if p.retryAfter != "" {
		h.Set("Retry-After", p.retryAfter)
	}
	w.WriteHeader(p.status)
	w.Write(body)
}
