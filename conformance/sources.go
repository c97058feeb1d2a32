package conformance

// Where the rules come from. docs/conformance.md says which versions were read,
// and what could not be.
const (
	draft21 = "draft-ietf-httpapi-idempotency-key-header, section 2.1"
	draft23 = "draft-ietf-httpapi-idempotency-key-header, section 2.3"
	draft26 = "draft-ietf-httpapi-idempotency-key-header, section 2.6"
	draft27 = "draft-ietf-httpapi-idempotency-key-header, section 2.7"
	draft5  = "draft-ietf-httpapi-idempotency-key-header, section 5"

	stripePage   = "Stripe API reference, Idempotent requests"
	stripeErrors = "Stripe API reference, Errors (not verified)"

	acp61 = "ACP checkout RFC 2026-01-16, section 6.1"
	acp62 = "ACP checkout RFC 2026-01-16, section 6.2"
	acp63 = "ACP checkout RFC 2026-01-16, section 6.3"
	acp64 = "ACP checkout RFC 2026-01-16, section 6.4"
	acp65 = "ACP checkout RFC 2026-01-16, section 6.5"
	acp66 = "ACP checkout RFC 2026-01-16, section 6.6"

	http53   = "RFC 9110, section 5.3"
	http761  = "RFC 9110, section 7.6.1"
	http921  = "RFC 9110, section 9.2.1"
	http1023 = "RFC 9110, section 10.2.3"

	// own is a rule that no source states; it follows from what the key is for.
	own = "saferetry, package idempotency"
)
