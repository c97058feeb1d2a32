// Package saferetry makes API calls safe to retry.
//
// A client sends a POST that creates a charge, and the connection dies. Perhaps
// the server never saw the request; perhaps it made the charge and only the
// answer was lost. Sent again as it is, the request may charge twice.
//
// [NewClient] wraps the http.Client there is. Each request becomes one logical
// operation: one random idempotency key, made once, outside the retry loop, and
// every attempt of the operation under that key. A server that honours the key
// performs the operation once, however many attempts arrive. When no answer can
// be had, [ReportOf] says what is known: performed, refused, never sent, or
// unknown, and under which key to ask again.
//
//	client := saferetry.NewClient(http.DefaultClient)
//	resp, err := client.Post(url, "application/json", body)
//	if report, ok := saferetry.ReportOf(resp, err); ok {
//		log.Print(report.Outcome, report.Attempts, report.Key)
//	}
//
// # Keys
//
// POST and PATCH get a key (draft-ietf-httpapi-idempotency-key-header). In
// order of precedence it is the request's own Idempotency-Key header, in
// whatever case; the key that [WithKey] put into the context; the key of the
// request that a 307 or 308 redirected here; a new one. Use [DeriveKey] where a
// program that was stopped halfway must ask again under the key it used before.
// A header entry without values says, as in net/http, that the request can be
// repeated, and sends no key.
//
// # What is retried
//
// GET, HEAD, OPTIONS, TRACE, PUT and DELETE, and whatever has a key. Any other
// request is repeated only while no attempt can have reached the server.
// [DefaultClassifier] retries errors of the connection, attempts that time out,
// 408, 429, every 5xx, and a 409 that says that an earlier attempt is still in
// progress.
//
// Waits are drawn by full jitter ([FullJitter]). Retry-After is a floor for
// them. A wait that would pass the context's deadline is not begun.
//
// # Bodies
//
// Every attempt sends the same bytes. Where the request has GetBody, as those
// that [http.NewRequest] makes from bytes and strings have, it serves each
// attempt after the first; that Body and GetBody agree is the caller's duty. A
// file is read through a section of its own per attempt. Any other body is
// remembered as it is sent, up to [WithBodyBuffer], and a longer one gets one
// attempt.
//
// # Logs and error texts
//
// What is logged, and the text of an [Error], names method, scheme, host, path
// and the first 8 characters of the key; never a query, user info, a header or a
// body. http.Client puts its own *url.Error around, whose text has the URL with
// its query: log what errors.As finds as an *Error where a query is secret.
//
// # What net/http does itself
//
// A base http.Transport sends a request with an Idempotency-Key header a second
// time by itself when a reused connection dies before a byte of the answer. It
// is the same key and the same bytes; no [Report] counts it among the attempts,
// but its outcome takes it for the lost answer it is. http.Client follows
// redirects by requests of its own: they are of one operation and carry its key,
// and each hop has its own attempts and report; the outcome counts earlier hops.
//
// # What this package cannot do
//
// A key makes a retry safe only where the server honours it. Package
// idempotency is the server half; package testserver is a server to test
// against, which fails on command.
package saferetry
