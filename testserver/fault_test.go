package testserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spelled has every kind of fault beside its one spelling.
var spelled = []struct {
	fault Fault
	text  string
}{
	{None(), "none"},
	{Fault{}, "none"},
	{NeverSaw(), "never-saw"},
	{CrashBeforeWrite(), "crash-before-write"},
	{CrashAfterWrite(), "crash-after-write"},
	{DropResponse(0), "drop-response=0"},
	{DropResponse(10), "drop-response=10"},
	{Answer(503), "answer=503"},
	{Answer(503, "Retry-After", "1"), "answer=503;retry-after=1"},
	{Answer(429, "retry-after", "Fri, 31 Dec 1999 23:59:59 GMT"), `answer=429;retry-after="Fri, 31 Dec 1999 23:59:59 GMT"`},
	{Answer(200, "X-A", "1", "X-A", "", "X-B", `a "b" \ ;c`), `answer=200;x-a=1;x-a="";x-b="a \"b\" \\ ;c"`},
	{Answer(599, "ETag", "\xe4\t]"), "answer=599;etag=\"\xe4\t]\""},
	{FailAfterWrite(502), "fail-after-write=502"},
	{Stall(0), "stall=0s"},
	{Stall(90 * time.Second), "stall=1m30s"},
	{StallAfterWrite(150 * time.Millisecond), "stall-after-write=150ms"},
}

func TestFaultStringIsWhatParseFaultReads(t *testing.T) {
	for _, s := range spelled {
		assert.Equal(t, s.text, s.fault.String())
		got, err := ParseFault(s.text)
		require.NoError(t, err)
		assert.Equal(t, s.fault, got)
	}
}

func TestFaultsAreComparable(t *testing.T) {
	assert.True(t, Answer(503, "retry-after", "1") == Answer(503, "Retry-After", "1"))
	assert.False(t, Answer(503, "Retry-After", "1") == Answer(503, "Retry-After", "2"))
	assert.True(t, None() == Fault{})
}

func TestAWrongFaultPanics(t *testing.T) {
	for want, make := range map[string]func(){
		"testserver: DropResponse: -1: want 0 or more bytes":                            func() { DropResponse(-1) },
		"testserver: Answer: 101: want a status from 200 to 599":                        func() { Answer(101) },
		"testserver: Answer: 600: want a status from 200 to 599":                        func() { Answer(600) },
		`testserver: Answer: 503: want the header as pairs, "Retry-After" has no value`: func() { Answer(503, "Retry-After") },
		`testserver: Answer: 503: want a header name, not "Retry After"`:                func() { Answer(503, "Retry After", "1") },
		`testserver: Answer: 503: want a header name, not ""`:                           func() { Answer(503, "", "1") },
		"testserver: Answer: 503: want no control characters in the value of X-A":       func() { Answer(503, "X-A", "1\r\nX-B: 2") },
		"testserver: FailAfterWrite: 0: want a status from 200 to 599":                  func() { FailAfterWrite(0) },
		"testserver: Stall: -1s: want a duration of 0 or more":                          func() { Stall(-time.Second) },
		"testserver: StallAfterWrite: -1ns: want a duration of 0 or more":               func() { StallAfterWrite(-1) },
	} {
		assert.PanicsWithValue(t, want, make)
	}
}

func TestAGatewaysAnswerHasTheHeaderAsGiven(t *testing.T) {
	w := httptest.NewRecorder()
	f := Answer(503, "Content-Type", "text/html", "X-A", "1", "X-A", "2")
	writeGatewayAnswer(w, f.status, f.headerPairs())
	assert.Equal(t, http.Header{"Content-Type": {"text/html"}, "X-A": {"1", "2"}}, w.Header())
	assert.Equal(t, "503 Service Unavailable\n", w.Body.String())
}

func TestAFailedScriptPrintsAsALineThatRunsItAgain(t *testing.T) {
	var script []Fault
	for _, s := range spelled {
		script = append(script, s.fault)
	}
	got, err := ParseScript(fmt.Sprint(script))
	require.NoError(t, err)
	assert.Equal(t, script, got)
}
