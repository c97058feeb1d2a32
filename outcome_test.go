package saferetry_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// outcomeOf is the outcome of an operation that the script answers, repeated
// without waits until the script is at its end.
func outcomeOf(t *testing.T, steps ...scriptedStep) saferetry.Outcome {
	t.Helper()
	_, report, _ := perform(t, script(steps...), scriptedPost(t.Context()), withoutWaits, saferetry.WithMaxAttempts(len(steps)))
	require.Equal(t, len(steps), report.Attempts)
	return report.Outcome
}

func TestOutcomeOfAnAnswerFollowsFromItsStatus(t *testing.T) {
	for status := 200; status < 700; status++ {
		want := saferetry.Unknown
		switch {
		case status == 307, status == 308:
			want = saferetry.Refused
		case status < 400:
			want = saferetry.Performed
		case status < 500 && status != 408:
			want = saferetry.Refused
		}
		require.Equal(t, want, outcomeOf(t, answers(status)), status)
	}
	assert.Equal(t, saferetry.Unknown, outcomeOf(t, answers(101)), "no answer to the operation")
}

func TestOutcomeOfAConflictInProgressIsUnknown(t *testing.T) {
	assert.Equal(t, saferetry.Unknown, outcomeOf(t, answers(409, "Retry-After", "1")))
	assert.Equal(t, saferetry.Unknown, outcomeOf(t, answersWith(409, `{"error":"idempotency_key_in_progress"}`)))
	assert.Equal(t, saferetry.Refused, outcomeOf(t, answersWith(409, `{"error":"email_in_use"}`)))
}

func TestOutcomeWithoutAConnectionIsNotSentByTheErrorsType(t *testing.T) {
	for name, err := range map[string]error{
		"DNS":                  &net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true},
		"dial":                 &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH},
		"refused":              syscall.ECONNREFUSED,
		"proxy":                &net.OpError{Op: "proxyconnect", Net: "tcp", Err: errors.New("Forbidden")},
		"authority":            x509.UnknownAuthorityError{},
		"verification":         &tls.CertificateVerificationError{Err: errors.New("pinned to another")},
		"no TLS":               tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"HTTP answer to HTTPS": tls.RecordHeaderError{RecordHeader: [5]byte([]byte("HTTP/"))},
	} {
		for wrapped, err := range wrappings(err) {
			assert.Equal(t, saferetry.NotSent, outcomeOf(t, loses(err)), "%s, %s", name, wrapped)
		}
	}
}

func TestOutcomeOfALostAnswerIsUnknown(t *testing.T) {
	for name, err := range map[string]error{
		"EOF":                        io.EOF,
		"reset":                      &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
		"of the base's making":       errors.New("no responder found"),
		"our certificate refused":    tls.AlertError(42),
		"and that over TCP":          &net.OpError{Op: "remote error", Err: tls.AlertError(42)},
		"neither answer nor error":   nil,
		"network unreachable in use": syscall.ENETUNREACH,
	} {
		assert.Equal(t, saferetry.Unknown, outcomeOf(t, loses(err)), name)
	}
}

// Where the base transport reports to httptrace, that counts and not the type.
func TestOutcomeIsKnownFromHTTPTraceBeforeTheErrorsType(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	asked := func(req *http.Request) { httptrace.ContextClientTrace(req.Context()).GetConn("api.test:80") }
	got := func(req *http.Request) { httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{}) }
	for _, test := range []struct {
		name   string
		report []func(*http.Request)
		err    error
		want   saferetry.Outcome
	}{
		{"nothing reported", nil, io.EOF, saferetry.Unknown},
		{"asked, none got", []func(*http.Request){asked}, io.EOF, saferetry.NotSent},
		{"asked and got", []func(*http.Request){asked, got}, io.EOF, saferetry.Unknown},
		{"got one, then could not dial another", []func(*http.Request){asked, got, asked}, dial, saferetry.Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, outcomeOf(t, func(req *http.Request) (*http.Response, error) {
				for _, report := range test.report {
					report(req)
				}
				return nil, test.err
			}))
		})
	}
}

// A dial that the attempt timeout cuts off says "timeout", and yet nothing was
// sent.
func TestOutcomeOfADialThatTimesOutIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, report, err := perform(t, script(func(req *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(req.Context()).GetConn("api.test:80")
			return hangs(req)
		}), scriptedPost(t.Context()), withoutWaits, saferetry.WithAttemptTimeout(time.Second))
		require.Error(t, err)
		assert.True(t, isTimeout(err))
		assert.Equal(t, saferetry.NotSent, report.Outcome)
	})
}

func TestOutcomeFollowsFromAllAttempts(t *testing.T) {
	var (
		dial = loses(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
		lost = loses(io.ErrUnexpectedEOF)
		busy = answers(409, "Retry-After-Ms", "0", "Retry-After", "0")
	)
	for _, test := range []struct {
		name  string
		steps []scriptedStep
		want  saferetry.Outcome
	}{
		{"performed last wins", []scriptedStep{lost, answers(503), answers(429), answers(201)}, saferetry.Performed},
		{"performed after not sent", []scriptedStep{dial, answers(201)}, saferetry.Performed},
		{"refused after unknown", []scriptedStep{answers(503), answers(422)}, saferetry.Unknown},
		{"refused after in progress", []scriptedStep{busy, answers(422)}, saferetry.Unknown},
		{"not sent after unknown", []scriptedStep{lost, dial}, saferetry.Unknown},
		{"unknown after refused", []scriptedStep{answers(429), lost}, saferetry.Unknown},
		{"refused after not sent", []scriptedStep{dial, answers(422)}, saferetry.Refused},
		{"not sent after refused", []scriptedStep{answers(429), dial}, saferetry.Refused},
		{"refused every time", []scriptedStep{answers(429), answers(429), answers(401)}, saferetry.Refused},
		{"never sent", []scriptedStep{dial, dial, dial}, saferetry.NotSent},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.want, outcomeOf(t, test.steps...)) })
	}
}

// The first POST's answer is lost, the token expires, and the retry gets 401:
// nobody knows whether the first was performed.
func TestUnauthorizedAfterALostAnswerIsRefused(t *testing.T) {
	resp, report, err := perform(t, script(loses(io.ErrUnexpectedEOF), answers(401)), scriptedPost(t.Context()), withoutWaits)
	require.NoError(t, err)
	assert.Equal(t, 401, resp.StatusCode)
	assert.Equal(t, saferetry.Answered, report.Reason)
	assert.Equal(t, saferetry.Unknown, report.Outcome)
}

// A classifier that waits for another answer has the operation sent again after
// it was performed: what follows may be about that second time.
func TestErrorAfterAPerformedAnswerIsNotPerformed(t *testing.T) {
	polling := saferetry.WithClassifier(func(a saferetry.Attempt) saferetry.Decision {
		if a.Response != nil && a.Response.StatusCode == http.StatusAccepted {
			return saferetry.Retry
		}
		return saferetry.Stop
	})
	for want, last := range map[saferetry.Outcome][]scriptedStep{
		saferetry.Unknown:   {loses(io.ErrUnexpectedEOF), answers(401), loses(syscall.ECONNREFUSED)},
		saferetry.Performed: {answers(200)},
	} {
		for i, step := range last {
			_, report, _ := perform(t, script(answers(202), step), scriptedPost(t.Context()), withoutWaits, polling)
			assert.Equal(t, want, report.Outcome, i)
			assert.Equal(t, 2, report.Attempts)
		}
	}
}

func TestOutcomeAndStopReasonAndTheirNames(t *testing.T) {
	for outcome, name := range map[saferetry.Outcome]string{
		saferetry.Unknown: "unknown", saferetry.NotSent: "not sent", saferetry.Refused: "refused", saferetry.Performed: "performed",
		4: "Outcome(4)", -1: "Outcome(-1)",
	} {
		assert.Equal(t, name, outcome.String())
		assert.Equal(t, name, fmt.Sprint(outcome))
	}
	for reason, name := range map[saferetry.StopReason]string{
		saferetry.Answered: "answered", saferetry.Permanent: "permanent", saferetry.Exhausted: "exhausted",
		saferetry.Deadline: "deadline", saferetry.RetryAfterTooLong: "retry-after too long", saferetry.BudgetSpent: "budget spent",
		saferetry.NotReplayable: "not replayable", saferetry.NotRepeatable: "not repeatable", saferetry.Canceled: "canceled",
		9: "StopReason(9)", -1: "StopReason(-1)",
	} {
		assert.Equal(t, name, reason.String())
	}
	var zero saferetry.Report
	assert.Equal(t, saferetry.Unknown, zero.Outcome, "what nobody set is not known")
}
