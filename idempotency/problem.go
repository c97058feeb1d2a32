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
	retryAfter string // seconds; "": the header is left out
}

var (
	scopeUnresolved   = problem{401, "scope_unresolved", "The caller is not known", ""}
	keyMissing        = problem{400, "idempotency_key_missing", "An idempotency key is required", ""}
	keyInvalid        = problem{400, "idempotency_key_invalid", "The idempotency key is not valid", ""}
	bodyUnreadable    = problem{400, "request_unreadable", "The request body could not be read", ""}
	fingerprintFailed = problem{400, "fingerprint_failed", "The request could not be fingerprinted", ""}
	requestTooLarge   = problem{413, "request_too_large", "The request body is too large", ""}
	keyReuse          = problem{422, "idempotency_key_reuse", "The idempotency key was used for another request", ""}
	keyInProgress     = problem{409, "idempotency_key_in_progress", "A request with this idempotency key is in progress", "1"}
	answerNotStored   = problem{409, "idempotency_response_not_stored", "The operation is done, but its answer was not stored", ""}
	claimLost         = problem{500, "idempotency_claim_lost", "The operation was taken over by another request", ""}
	storeFailed       = problem{500, "idempotency_store_failed", "The answer could not be stored", ""}
	storeUnavailable  = problem{503, "store_unavailable", "The idempotency store is not available", "1"}
)

const problemTypes = "https://pkg.go.dev/github.com/saferetry/saferetry/idempotency#"

// write answers with the problem. detail is for the caller's eyes: nothing of another request, nothing of the store.
func (p problem) write(w http.ResponseWriter, detail string) {
	body, _ := json.Marshal(struct { // strings and an int: no error
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Error  string `json:"error"`
	}{problemTypes + p.code, p.title, p.status, detail, p.code})
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
