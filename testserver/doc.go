// Package testserver is a payment service in memory that fails on command: a
// server to test clients against that must not charge twice.
//
//	func TestCheckoutSurvivesALostAnswer(t *testing.T) {
//		server := testserver.New(t)
//		server.Script(testserver.CrashAfterWrite()) // the first answer is lost
//		checkout(server.URL)                        // must try again, under one key
//		if n := len(server.Charges()); n != 1 {
//			t.Errorf("charged %d times: %v", n, server.Faults())
//		}
//	}
//
// # Service
//
// It has the rules of package idempotency: POST and PATCH need an
// Idempotency-Key, and an operation takes effect once however often it is asked
// for.
//
//	POST  /v1/charges       {"amount":2500,"currency":"usd","customer":"cus_9182"}
//	                        201, Location, {"id":"ch_1", … ,"retries":0}
//	GET   /v1/charges       {"data":[…]}
//	GET   /v1/charges/{id}
//	PATCH /v1/charges/{id}  {"op":"increment","field":"retries"}
//
// Bad JSON, an amount that is not positive and an unknown currency are answered
// with 400, an unknown charge with 404, as problems (RFC 9457) whose member
// "error" has the code. Members of a request that are not known are ignored.
//
// # Faults
//
// Each request to come takes the next fault of [Server.Script], or of
// [Server.ScriptKey] for its key; [Server.Chaos] draws the rest at random. A
// request may also bring its own in an X-Fault header, in the words of
// [ParseFault]. Under a key the header may have a list: the attempts take its
// faults in turn, and the last stays. So "crash-after-write, none" loses the
// first answer of a client that sends the same header with every attempt.
//
//	fault             performed  what the client sees
//	NeverSaw          no         connection reset
//	CrashBeforeWrite  no         connection reset; the key is taken until the lease ends
//	CrashAfterWrite   yes        connection reset
//	DropResponse      yes        part of the answer
//	Answer            no         a proxy's answer
//	FailAfterWrite    yes        a gateway's error
//	Stall             late       the answer, late
//	StallAfterWrite   yes        the answer, late
//
// The first four a client that lost its connection cannot tell apart. A charge
// and its key's record change together, whatever the fault: there is never one
// without the other.
//
// What the client does, such as giving up, has no influence on an operation that
// has arrived. Only [Server.Close] ends one.
//
// # Time
//
// [Server.Advance] moves the clock for the expiry of records and leases. Stalls
// and latency take real time, or none, inside a testing/synctest bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		server := testserver.New(t, testserver.WithoutListener())
//		server.Script(testserver.Stall(time.Hour))
//		checkout(server.URL, server.Transport())
//	})
//
// # Other languages
//
// The command "saferetry serve" runs this server for clients in any language.
// What Requests, Charges and Advance are in Go is found over HTTP, in every
// server:
//
//	GET  /_/requests
//	GET  /_/charges
//	POST /_/advance?by=25h
package testserver
