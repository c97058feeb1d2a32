package conformance

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var sample = Report{
	URL: "http://localhost/x", Profile: Draft, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 1500 * time.Millisecond,
	Requests: 7,
	Results: []Result{
		{ID: "a.pass", About: "passes", Level: Must, Outcome: Pass, Took: time.Second},
		{ID: "a.fail", About: "fails", Level: Must, Outcome: Fail, Why: "2 < 1", Want: "1", Source: "here", Sent: []Exchange{{"this", "that"}}},
		{ID: "b.should", About: "fails", Level: Should, Outcome: Fail, Why: "no header"},
		{ID: "b.skip", About: "is skipped", Level: Must, Outcome: Skip, Why: "no way"},
	},
}

func TestAReportCountsSkippedChecksApart(t *testing.T) {
	require.Equal(t, 1, sample.Count(Pass))
	require.Equal(t, 2, sample.Count(Fail))
	require.Equal(t, 1, sample.Count(Skip))
	require.Equal(t, []string{"a.fail"}, sample.Failed(Must))
	require.Equal(t, []string{"b.should"}, sample.Failed(Should))
	require.False(t, sample.OK())
	require.True(t, Report{Results: sample.Results[2:]}.OK())
}

func TestJUnitFailsOnAMustAlone(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample.WriteJUnit(&b))
	var back junitSuites
	require.NoError(t, xml.Unmarshal(b.Bytes(), &back))
	suite := back.Suites[0]
	require.Equal(t, []int{4, 1, 2}, []int{suite.Tests, suite.Failures, suite.Skipped})
	require.Equal(t, "1.500", suite.Time)
	require.Equal(t, "2026-01-02T03:04:05", suite.Timestamp)
	require.Nil(t, suite.Cases[0].Failure)
	require.Nil(t, suite.Cases[0].Skipped)
	require.Equal(t, "2 < 1", suite.Cases[1].Failure.Message)
	require.Contains(t, suite.Cases[1].Failure.Text, "sent this\n  came that")
	require.Equal(t, "a should that failed: no header", suite.Cases[2].Skipped.Message)
	require.Equal(t, "no way", suite.Cases[3].Skipped.Message)
	require.Equal(t, "conformance.b", suite.Cases[3].Class)
}

func TestAReportIsJSON(t *testing.T) {
	text, err := json.Marshal(sample)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, sample, back)
	require.Contains(t, string(text), `"exchanges":[{"sent":"this","came":"that"}]`)
}

func TestTestMakesASubtestOfEachCheck(t *testing.T) {
	clock := &clockwork{}
	var handler http.Handler
	target := everything(t, Draft, clock, func(shop http.Handler) http.Handler {
		handler = right(clock)(shop)
		return handler
	})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	target.URL, target.Transport = server.URL+"/orders", nil
	target.Only = []string{"key.quoted", "replay.same", "replay.once", "concurrent.once"}
	var seen []string
	target.Progress = func(res Result) { seen = append(seen, res.ID) }
	Test(t, target)
	require.Equal(t, target.Only, seen)
}

// told is a testing.T that remembers.
type told []string

func (l *told) Skip(args ...any)  { *l = append(*l, "skip "+fmt.Sprint(args...)) }
func (l *told) Error(args ...any) { *l = append(*l, "error "+fmt.Sprint(args...)) }
func (l *told) Log(args ...any)   { *l = append(*l, "log "+fmt.Sprint(args...)) }

func TestASubtestFailsOnAMustAlone(t *testing.T) {
	var l told
	for _, res := range sample.Results {
		res.tell(&l)
	}
	require.Len(t, l, 3)
	require.Contains(t, l[0], "error fails (must): 2 < 1")
	require.Contains(t, l[1], "log fails (should): no header")
	require.Equal(t, "skip no way", l[2])
}
