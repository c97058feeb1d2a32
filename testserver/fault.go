package testserver

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Fault is one way in which the server fails a request. The zero value is
// None. Faults are values: they compare with ==, serve as map keys, and may be
// used any number of times.
//
// Where a fault ends the connection, HTTP/1.1 clients see it end. In HTTP/2,
// where other requests share it, the request's own stream is reset with
// INTERNAL_ERROR instead, whichever fault it is.
type Fault struct {
	kind   kind
	n      int           // DropResponse
	status int           // Answer, FailAfterWrite
	header string        // Answer: the header lines as ParseFault reads them, each after a semicolon
	wait   time.Duration // Stall, StallAfterWrite
}

type kind int

const (
	none kind = iota
	neverSaw
	crashBeforeWrite
	crashAfterWrite
	dropResponse
	answer
	failAfterWrite
	stall
	stallAfterWrite
)

// None is no fault: in a script, a request that is answered as it should be.
func None() Fault { return Fault{} }

// NeverSaw resets the connection before the request is read. It does not appear
// in Server.Requests. (Its header has been looked at, to tell whose fault it is.)
func NeverSaw() Fault { return Fault{kind: neverSaw} }

// CrashBeforeWrite is a server that dies with the request claimed and nothing
// performed: the connection is reset, and the claim lingers until its lease
// ends. Until then a retry gets 409 with Retry-After, after it the operation is
// performed. Where there is nothing to claim, as for a GET or an operation that
// was performed before, the answer is lost and nothing else.
func CrashBeforeWrite() Fault { return Fault{kind: crashBeforeWrite} }

// CrashAfterWrite is a server that dies with the request performed and
// recorded: the connection is reset without a byte of the answer.
func CrashAfterWrite() Fault { return Fault{kind: crashAfterWrite} }

// DropResponse performs and records the request, and cuts the connection after
// n bytes of the answer's body. The header goes out before, with the
// Content-Length of the whole. A body of n bytes or less goes out whole, but
// without a Content-Length, so that its end is missing. An answer that has no
// body, as to HEAD, is lost as by CrashAfterWrite. The connection is closed, not
// reset: a reset may overtake bytes already sent, and then it would not be n.
//
// It panics if n is negative.
func DropResponse(n int) Fault { return must("DropResponse", n)(newDropResponse(n)) }

// Answer is the answer of a proxy in front: status, the header given as pairs of
// name and value, and the status's text as the body. The handler is not reached
// and nothing is claimed.
//
//	testserver.Answer(http.StatusTooManyRequests, "Retry-After", "1")
//
// It panics if status is not from 200 to 599, a name has no value, or a name or
// value is not fit for a header.
func Answer(status int, header ...string) Fault {
	return must("Answer", status)(newAnswer(status, header))
}

// FailAfterWrite performs and records the request, and then a gateway, which has
// lost the answer, sends status. It panics if status is not from 200 to 599.
func FailAfterWrite(status int) Fault {
	return must("FailAfterWrite", status)(newFailAfterWrite(status))
}

// Stall lets d pass before the request is handled. It is handled then even if
// the client has given up on it, as a slow server would. It panics if d is
// negative.
func Stall(d time.Duration) Fault { return must("Stall", d)(newStall(stall, d)) }

// StallAfterWrite performs and records the request, and answers d later. It
// panics if d is negative.
func StallAfterWrite(d time.Duration) Fault {
	return must("StallAfterWrite", d)(newStall(stallAfterWrite, d))
}

// must turns a constructor's error into a panic: its argument is the
// programmer's.
func must(name string, value any) func(Fault, error) Fault {
	return func(f Fault, err error) Fault {
		if err != nil {
			panic(fmt.Sprintf("testserver: %s: %v: %v", name, value, err))
		}
		return f
	}
}

func newDropResponse(n int) (Fault, error) {
	if n < 0 {
		return Fault{}, fmt.Errorf("want 0 or more bytes")
	}
	return Fault{kind: dropResponse, n: n}, nil
}

func newAnswer(status int, header []string) (Fault, error) {
	if err := checkStatus(status); err != nil {
		return Fault{}, err
	}
	if len(header)%2 != 0 {
		return Fault{}, fmt.Errorf("want the header as pairs, %q has no value", header[len(header)-1])
	}
	var params strings.Builder
	for i := 0; i < len(header); i += 2 {
		if err := writeParam(&params, header[i], header[i+1]); err != nil {
			return Fault{}, err
		}
	}
	return Fault{kind: answer, status: status, header: params.String()}, nil
}

func newFailAfterWrite(status int) (Fault, error) {
	if err := checkStatus(status); err != nil {
		return Fault{}, err
	}
	return Fault{kind: failAfterWrite, status: status}, nil
}

func newStall(k kind, d time.Duration) (Fault, error) {
	if d < 0 {
		return Fault{}, fmt.Errorf("want a duration of 0 or more")
	}
	return Fault{kind: k, wait: d}, nil
}

func checkStatus(status int) error {
	if status < 200 || status > 599 {
		return fmt.Errorf("want a status from 200 to 599")
	}
	return nil
}

// headerPairs returns an Answer's header lines: name, value, name, value.
func (f Fault) headerPairs() []string {
	pairs, err := readParams(f.header)
	if err != nil { // newAnswer has written them
		panic(err)
	}
	return pairs
}

// String returns the fault as ParseFault reads it.
func (f Fault) String() string {
	name := faultNames[f.kind]
	switch f.kind {
	case dropResponse:
		return name + "=" + strconv.Itoa(f.n)
	case answer, failAfterWrite:
		return name + "=" + strconv.Itoa(f.status) + f.header
	case stall, stallAfterWrite:
		return name + "=" + f.wait.String()
	}
	return name
}

// writeGatewayAnswer answers as a proxy does that has nothing better to say.
func writeGatewayAnswer(w http.ResponseWriter, status int, header []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	first := make(map[string]bool)
	for i := 0; i < len(header); i += 2 {
		if !first[header[i]] { // in place of the default, then one line more
			first[header[i]] = true
			w.Header().Del(header[i])
		}
		w.Header().Add(header[i], header[i+1])
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "%d %s\n", status, http.StatusText(status))
}
