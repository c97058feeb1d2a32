package saferetry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// A happening is what comes back from one attempt, with what the design says of
// it: its verdict, and why nothing follows it.
type happening struct {
	what    string
	comes   func(req *http.Request, cancel context.CancelFunc) (*http.Response, error)
	verdict saferetry.Outcome
	ends    saferetry.StopReason // goesOn: another attempt may follow
	keyless *happening           // where it is different for a request without a key
	lost    bool                 // there is an answer that was lost besides
}

const goesOn saferetry.StopReason = -1

// happenings are what histories are made of.
var happenings = []happening{
	{"201", thatAnswers(201), saferetry.Performed, saferetry.Answered, nil, false},
	{"302", thatAnswers(302), saferetry.Performed, saferetry.Answered, nil, false},
	{"307", thatAnswers(307), saferetry.Refused, saferetry.Answered, nil, false},
	{"400", thatAnswers(400), saferetry.Refused, saferetry.Answered, nil, false},
	{"401", thatAnswers(401), saferetry.Refused, saferetry.Answered, nil, false},
	{"408", thatAnswers(408), saferetry.Unknown, goesOn, nil, false},
	{"422", thatAnswers(422), saferetry.Refused, saferetry.Answered, nil, false},
	{"429", thatAnswers(429), saferetry.Refused, goesOn, nil, false},
	{"429 for an hour", thatAnswers(429, "Retry-After", "3600"), saferetry.Refused, saferetry.RetryAfterTooLong, nil, false},
	{"500", thatAnswers(500), saferetry.Unknown, goesOn, nil, false},
	{"503", thatAnswers(503, "Retry-After", "0"), saferetry.Unknown, goesOn, nil, false},
	{"409 in progress", thatAnswers(409, "", `{"error":"idempotency_key_in_progress"}`), saferetry.Unknown, goesOn,
		&happening{verdict: saferetry.Refused, ends: saferetry.Answered}, false},
	{"409 of another kind", thatAnswers(409, "", `{"code":"email_in_use"}`), saferetry.Refused, saferetry.Answered, nil, false},
	{"stored 500", thatAnswers(500, "Idempotent-Replayed", "true"), saferetry.Unknown, saferetry.Answered, nil, false},
	{"503, do not retry", thatAnswers(503, "X-Should-Retry", "false"), saferetry.Unknown, saferetry.Answered, nil, false},
	{"201, do retry", thatAnswers(201, "X-Should-Retry", "true"), saferetry.Performed, goesOn, nil, false},
	{"400, do retry", thatAnswers(400, "X-Should-Retry", "true"), saferetry.Refused, goesOn, nil, false},
	{"reset", thatFails(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), saferetry.Unknown, goesOn, nil, false},
	{"EOF", thatFails(io.EOF), saferetry.Unknown, goesOn, nil, false},
	{"refused connection", thatFails(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), saferetry.NotSent, goesOn, nil, false},
	{"no such host", thatFails(&net.DNSError{}), saferetry.NotSent, goesOn, nil, false},
	{"error nobody knows", thatFails(errors.New("?")), saferetry.Unknown, goesOn, nil, false},
	{"unknown authority", thatFails(x509.UnknownAuthorityError{}), saferetry.NotSent, saferetry.Permanent, nil, false},
	{"our certificate refused", thatFails(tls.AlertError(42)), saferetry.Unknown, saferetry.Permanent, nil, false},
	{"neither answer nor error", thatFails(nil), saferetry.Unknown, goesOn, nil, false},
	{"no connection, by the trace", on(noConnection, thatFails(errors.New("?"))), saferetry.NotSent, goesOn, nil, false},
	{"a connection, by the trace", on(oneConnection, thatFails(syscall.ECONNREFUSED)), saferetry.Unknown, goesOn, nil, false},
	{"sent twice, 400", on(twoConnections, thatAnswers(400)), saferetry.Refused, saferetry.Answered, nil, true},
	{"cancelled", thatIsCanceled, saferetry.Unknown, saferetry.Canceled, nil, false},
}

type coming = func(*http.Request, context.CancelFunc) (*http.Response, error)

// thatAnswers gives an answer with a header line, or, under the empty name, a body.
func thatAnswers(status int, line ...string) coming {
	return func(*http.Request, context.CancelFunc) (*http.Response, error) {
		resp := &http.Response{StatusCode: status, Header: make(http.Header), ContentLength: -1}
		body := "answer"
		switch {
		case len(line) == 2 && line[0] == "":
			body = line[1]
		case len(line) == 2:
			resp.Header.Set(line[0], line[1])
		}
		resp.Body = &countedBody{Reader: strings.NewReader(body)}
		return resp, nil
	}
}

func thatFails(err error) coming {
	return func(*http.Request, context.CancelFunc) (*http.Response, error) { return nil, err }
}

func thatIsCanceled(req *http.Request, cancel context.CancelFunc) (*http.Response, error) {
	cancel()
	<-req.Context().Done()
	return nil, req.Context().Err()
}

const noConnection, oneConnection, twoConnections = 0, 1, 2

// on has a base transport report so many connections, and a request on each.
func on(connections int, then coming) coming {
	return func(req *http.Request, cancel context.CancelFunc) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		trace.GetConn("")
		for range connections {
			trace.GotConn(httptrace.GotConnInfo{})
			trace.WroteHeaders()
		}
		return then(req, cancel)
	}
}

// FuzzReport compares the reports on random histories of attempts with what the
// design says of each attempt. The first byte says how many attempts there may
// be, whether there is a key, and a budget; the others are happenings.
func FuzzReport(f *testing.F) {
	for i := range happenings {
		f.Add([]byte{keyed, byte(i)})
		f.Add([]byte{0, byte(i)})
		f.Add([]byte{5 | keyed, byte(i)})
		f.Add([]byte{5, 9, byte(i)})
		f.Add([]byte{3 | keyed | budgeted, 17, byte(i), 19})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 0 {
			playHistory(t, input[0], input[1:])
		}
	})
}

const (
	keyed    = 1 << 3
	budgeted = 1 << 4
)

func playHistory(t *testing.T, config byte, history []byte) {
	var told []string
	event := func(n int) happening {
		if n >= len(history) {
			return happenings[0]
		}
		return happenings[int(history[n])%len(happenings)]
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answered []*http.Response
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		req.Body.Close()
		e := event(len(told))
		told = append(told, e.what)
		resp, err := e.comes(req, cancel)
		answered = append(answered, resp)
		return resp, err
	})
	var done []saferetry.Report
	opts := atOnce(saferetry.WithMaxAttempts(1+int(config&7)), saferetry.WithHooks(saferetry.Hooks{
		Done: func(_ *http.Request, r saferetry.Report) { done = append(done, r) },
	}))
	if config&keyed == 0 {
		opts = append(opts, saferetry.WithKeyedMethods())
	}
	if config&budgeted != 0 {
		opts = append(opts, saferetry.WithBudget(saferetry.NewBudget(0, 2)))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server/", strings.NewReader("x"))
	require.NoError(t, err)
	resp, err := saferetry.NewTransport(base, opts...).RoundTrip(req)
	report := reportOf(t, resp, err)

	attempts, outcome, reason := expected(config, event)
	assert.Equal(t, outcome, report.Outcome, told)
	assert.Equal(t, reason, report.Reason, told)
	assert.Equal(t, attempts, report.Attempts, told)
	require.Len(t, told, attempts)
	require.Len(t, report.Failed, attempts-1)
	for i, a := range report.Failed {
		assert.Equal(t, i+1, a.Number)
		assert.NotEqual(t, a.Response == nil, a.Err == nil, told)
	}
	assert.Equal(t, config&keyed != 0, report.Key != "")
	require.Len(t, done, 1)
	assert.True(t, reflect.DeepEqual(done[0], report), told)
	checkHandedOver(t, resp, err, answered)
}

// checkHandedOver checks that the last answer, and it alone, is the caller's.
func checkHandedOver(t *testing.T, resp *http.Response, err error, answered []*http.Response) {
	last := answered[len(answered)-1]
	require.NotEqual(t, resp == nil, err == nil)
	require.Same(t, last, resp)
	for _, earlier := range answered[:len(answered)-1] {
		if earlier != nil {
			_, err := earlier.Body.Read(make([]byte, 1))
			assert.Error(t, err, "an answer given up was not drained")
		}
	}
	if resp != nil {
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		assert.NotEmpty(t, body, "the answer was read already")
		assert.NoError(t, resp.Body.Close())
	}
}

// expected is what the design says of a history.
func expected(config byte, event func(int) happening) (attempts int, outcome saferetry.Outcome, reason saferetry.StopReason) {
	var verdicts []saferetry.Outcome
	retries := 0
	for {
		e := event(attempts)
		if config&keyed == 0 && e.keyless != nil {
			e = *e.keyless
		}
		attempts++
		if e.lost {
			verdicts = append(verdicts, saferetry.Unknown)
		}
		verdicts = append(verdicts, e.verdict)
		outcome = follows(verdicts)
		switch {
		case e.ends != goesOn && e.ends != saferetry.RetryAfterTooLong:
			return attempts, outcome, e.ends
		case attempts == 1+int(config&7):
			return attempts, outcome, saferetry.Exhausted
		case config&keyed == 0 && outcome != saferetry.NotSent:
			return attempts, outcome, saferetry.NotRepeatable
		case e.ends == saferetry.RetryAfterTooLong:
			return attempts, outcome, e.ends
		case config&budgeted != 0 && retries == 2:
			return attempts, outcome, saferetry.BudgetSpent
		}
		retries++
	}
}

// follows is the outcome that follows from the verdicts: the last if that is
// Performed; else Unknown if one is, or if one is a Performed that was not
// believed; else Refused if one is; else NotSent.
func follows(verdicts []saferetry.Outcome) saferetry.Outcome {
	switch {
	case verdicts[len(verdicts)-1] == saferetry.Performed:
		return saferetry.Performed
	case slices.Contains(verdicts, saferetry.Unknown), slices.Contains(verdicts, saferetry.Performed):
		return saferetry.Unknown
	case slices.Contains(verdicts, saferetry.Refused):
		return saferetry.Refused
	}
	return saferetry.NotSent
}
