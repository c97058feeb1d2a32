// Package idempotency is the server half of saferetry: net/http middleware that performs an operation once for each
// idempotency key, however many requests ask for it, and answers the others from a store. It follows
// draft-ietf-httpapi-idempotency-key-header where that says something.
//
//	store := idempotency.NewMemoryStore() // or any other Store
//	defer store.Close()
//	scope := func(r *http.Request) (string, error) { // whose key is it?
//		tenant, ok := tenantOf(r)
//		if !ok {
//			return "", errors.New("no tenant")
//		}
//		return tenant, nil
//	}
//	mux.Handle("POST /v1/charges", idempotency.Middleware(store, scope)(charges))
//
// The handler needs to know nothing of it. It may ask for the key ([Key]), and say that its effect is there whatever it
// answers ([Performed]).
//
// # Rules
//
//  1. POST and PATCH need an Idempotency-Key of 1 to 255 visible ASCII characters; other methods pass. "k" in quotes
//     (RFC 8941) and k are one key. A comma is part of the key: the field is not a list.
//  2. The request body is read whole, up to a limit, before the handler runs.
//  3. A record is known by scope, method, escaped path and key. Its fingerprint is SHA-256 of query and raw body. The path
//     is the one that the middleware sees: within http.StripPrefix, handlers of two prefixes need stores or scopes of
//     their own.
//  4. A claim is one atomic step: of any number of requests at once, one runs the handler.
//  5. The same key with another fingerprint is told 422, with the first in flight 409 and Retry-After. After that the
//     answer is replayed: same status, headers and bytes, and Idempotent-Replayed: true.
//  6. A replay leaves out Set-Cookie, WWW-Authenticate, hop-by-hop fields, Date and the marker. What the handler did not
//     touch, such as a request id set outside of the middleware, is neither stored nor overwritten. A field that the
//     handler did touch is stored as it was sent, all of its lines. Trailers are stored and replayed; 1xx answers are not.
//  7. An answer of 2xx or 3xx is stored. 4xx, 5xx, a panic, runtime.Goexit and a connection taken over before any answer
//     free the key; the panic goes on. Put http.TimeoutHandler around the middleware, not within it: its 503 would free
//     the key while the handler is still at work. After Performed, any answer is stored, and a panic leaves "completed, not stored", as it does
//     after a 2xx or 3xx was flushed.
//  8. A claim has a lease, renewed while the handler lives, and a token. Once another request took over, the late owner
//     can neither store nor release; its context is cancelled with [ErrLost], and its client gets 500.
//  9. The answer is stored before its first byte leaves, whether or not the client still waits for it.
//  10. An answer that is flushed, or larger than a limit, is streamed and not stored: a retry is told 409 without
//     Retry-After, and the handler does not run again. The same holds for one that is shorter than the Content-Length
//     its handler declared. The record is completed when the handler ends; until then a retry is told to wait.
//  11. Records expire a retention after the claim.
//  12. If the store cannot claim the key, the handler does not run: 503 and Retry-After. If it cannot store the answer, the
//     client gets 500, and the key stays taken until the lease ends.
//
// # What can still run twice
//
// Within the retention an effect runs at most once, but for two cases:
//
//   - A store without transactions (the memory store is one) that fails, or whose process dies, after the handler had its
//     effect and before the answer is stored. The lease ends, and a retry runs the handler again. A store that
//     commits the handler's writes together with the record does not have this case.
//   - A handler that outlives a lost lease. If the lease could not be renewed in time (the process was suspended, the
//     store out of reach), another request takes over while the first handler is still at work. Its context is
//     cancelled, but what it does beyond a store's transaction nobody can take back.
//
// # Problems
//
// What the middleware itself answers is application/problem+json (RFC 9457), with the code in the member error:
//
//	400 idempotency_key_missing          no key where one is needed
//	400 idempotency_key_invalid          a key that is not valid, or two header lines
//	400 request_unreadable               the body broke off
//	400 fingerprint_failed               WithFingerprint's function refused the request
//	401 scope_unresolved                 the scope function did not know the caller
//	409 idempotency_key_in_progress      the first request has not ended; has Retry-After
//	409 idempotency_response_not_stored  done, but the answer cannot be had again
//	413 request_too_large                the body is over the limit
//	422 idempotency_key_reuse            the key was used for another request
//	500 idempotency_claim_lost           another request took over
//	500 idempotency_store_failed         the answer could not be stored
//	503 store_unavailable                the key could not be claimed; has Retry-After
package idempotency
