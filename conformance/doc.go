// Package conformance checks, from outside, whether an HTTP endpoint keeps the
// contract of the Idempotency-Key header, whatever it is written in.
//
//	func TestCharges(t *testing.T) {
//		conformance.Test(t, conformance.Target{
//			URL:  "http://127.0.0.1:8080/v1/charges",
//			Body: `{"amount":{{n}},"currency":"usd","customer":"cus_1"}`,
//		})
//	}
//
// [Run] does the same outside of a test and returns a [Report]; [Plan] says what
// would be sent. The command saferetry check is made of the two.
//
// # Profiles
//
// The rules are not the same everywhere. A [Profile] says whose are checked:
// those of draft-ietf-httpapi-idempotency-key-header, those that Stripe
// documents, or those of the Agentic Commerce Protocol.
//
// # Levels
//
// A check is a [Must] where breaking it makes a retry unsafe: the effect happens
// twice or can never happen, or a caller gets a wrong answer or another's. It is
// also a Must where the profile's own text says so and the rule is one that
// clients depend on. Else it is a [Should]. What the source says is with each
// check, and in docs/conformance.md.
//
// # Skipping
//
// Some checks need to know more of the endpoint than its URL: how to count
// effects, how to make it slow, who else may call it. Without that a check is
// skipped, and the result says what is missing. A check that is skipped has not
// passed.
package conformance
