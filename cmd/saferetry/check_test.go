package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/saferetry/saferetry/conformance"
	"github.com/saferetry/saferetry/testserver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const template = `{"amount":{{n}},"currency":"usd","customer":"cus_1"}`

func TestCheckOfTenantsOnTheReferenceServer(t *testing.T) { // the other checks are in the docs' transcripts
	s := testserver.New(t, testserver.WithTenant(func(r *http.Request) (string, error) {
		switch who := r.Header.Get("Authorization"); who {
		case "Bearer one", "Bearer two":
			return who, nil
		}
		return "", errors.New("who?")
	}))
	junit := filepath.Join(t.TempDir(), "junit.xml")
	code, stdout, stderr := call(t, "check", "-json", "-junit", junit, "-d", template, "-H", "Authorization: Bearer one",
		"-other-caller", "Authorization: Bearer two", "-refused", "Authorization: Bearer nobody",
		"-effects-url", s.URL+"/v1/charges", "-only", "caller.other,caller.refused,caller.unauthorized,flight.conflict",
		s.URL+"/v1/charges")
	require.Equal(t, ok, code, stderr+stdout)
	var report struct {
		OK                      bool
		Passed, Failed, Skipped int
		Results                 []conformance.Result
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	assert.True(t, report.OK)
	assert.Equal(t, []int{3, 0, 1}, []int{report.Passed, report.Failed, report.Skipped})
	assert.Len(t, report.Results, 4)
	text, err := os.ReadFile(junit)
	require.NoError(t, err)
	var suites struct {
		Suite struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Skipped  int `xml:"skipped,attr"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(text, &suites))
	assert.Equal(t, []int{4, 0, 1}, []int{suites.Suite.Tests, suites.Suite.Failures, suites.Suite.Skipped})
}

// forgetful performs whatever comes, and forgets it.
func forgetful(t *testing.T) (address string, performed *atomic.Int64) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n.Add(1)
		}
		fmt.Fprintf(w, `{"data":{"made":[0,%d]}}`, n.Load())
	}))
	t.Cleanup(server.Close)
	return server.URL, &n
}

func TestCheckExitsWith1OnAFailedMustAlone(t *testing.T) {
	u, _ := forgetful(t)
	code, stdout, stderr := call(t, "check", "-d", "{{n}}", "-only", "key.missing,replay.same", u)
	assert.Equal(t, differs, code)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "POST "+u+", profile draft\n\n")
	assert.Contains(t, stdout, "fail  should  key.missing           a request without a key\n"+
		"      sent  POST /, no key\n      came  200, 23 bytes\n      want  400, and nothing is performed\n"+
		"      why   answered 200: want 400\n      rule  draft-ietf-httpapi-idempotency-key-header, section 2.7\n")
	assert.Contains(t, stdout, "FAIL  must    replay.same ")
	assert.Regexp(t, `\n2 checks: 0 passed, 2 failed \(1 must\), 0 skipped; 5 requests in `, stdout)
	code, stdout, _ = call(t, "check", "-only", "key.missing,flight.conflict", u)
	assert.Equal(t, ok, code)
	assert.Contains(t, stdout, "1 failed (no must), 1 skipped")
	assert.Contains(t, stdout, "skip  must    flight.conflict       the same request again while the first is under way\n      why   no way")
	code, stdout, _ = call(t, "check", "-v", "-only", "replay.get", u)
	assert.Equal(t, ok, code)
	assert.Contains(t, stdout, "pass  must    replay.get            a GET under the key of an operation\n      sent  POST /, key A\n")
}

func TestAPlanSendsNothing(t *testing.T) {
	u, performed := forgetful(t)
	code, stdout, _ := call(t, "check", "-plan", "-d", "{{n}}", u)
	assert.Equal(t, ok, code)
	assert.Contains(t, stdout, "  2          prepare               two fresh operations with the same body\n")
	assert.Contains(t, stdout, " 50  must    concurrent.answers    the same request 50 times at once: what comes back  all at once\n")
	assert.Contains(t, stdout, "  skip: no way to make the endpoint slow")
	assert.Regexp(t, `\n\d+ requests at most, and 0 to count effects; \d+ checks skipped\n$`, stdout)
	code, stdout, _ = call(t, "check", "-plan", "-json", u)
	assert.Equal(t, ok, code)
	var steps []conformance.Step
	require.NoError(t, json.Unmarshal([]byte(stdout), &steps))
	assert.Equal(t, "prepare", steps[0].ID)
	assert.Zero(t, performed.Load())
}

func TestManyRequestsAtOnceNeedYesWhereItIsNotLoopback(t *testing.T) {
	_, stdout, _ := call(t, "check", "-plan", "http://api.example.com/x")
	assert.Contains(t, stdout, "skip: sends many requests at once, and the address is not loopback (Target.Load; -yes)")
	_, stdout, _ = call(t, "check", "-plan", "-yes", "http://api.example.com/x")
	assert.NotContains(t, stdout, "not loopback")
}

func TestEffectsAreCountedAsTheFlagsSay(t *testing.T) {
	u, performed := forgetful(t)
	count := filepath.Join(t.TempDir(), "count")
	for name, c := range map[string]struct {
		args []string
		want string // on standard error; "": exit code 0
	}{
		"by a path":       {[]string{"-effects-url", u, "-effects-path", "data.made.1"}, ""},
		"by a command":    {[]string{"-effects-command", "echo x >> " + count + "; echo $(( 2 * ($(wc -l < " + count + ") - 1) ))"}, ""},
		"not a number":    {[]string{"-effects-command", "echo many"}, "-effects-command: want a number and nothing else on its standard output"},
		"a failing one":   {[]string{"-effects-command", "echo lost >&2; exit 3"}, "-effects-command: exit status 3: lost"},
		"one that hangs":  {[]string{"-timeout", "100ms", "-effects-command", "sleep 60"}, "not done within 100ms"},
		"no such member":  {[]string{"-effects-url", u, "-effects-path", "data.sold"}, `-effects-path: "data.sold": the answer has no member "sold"`},
		"no such element": {[]string{"-effects-url", u, "-effects-path", "data.made.2"}, `-effects-path: "data.made.2": the answer has no element "2"`},
		"nothing below":   {[]string{"-effects-url", u, "-effects-path", "data.made.1.x"}, `-effects-path: "data.made.1.x": nothing is below "x"`},
		"not an integer":  {[]string{"-effects-url", u, "-effects-path", "data"}, `-effects-path: "data": not an integer`},
		"a length":        {[]string{"-effects-url", u, "-effects-path", "data.made.length"}, "2 fresh operations changed the number of effects by 0"},
		"does not answer": {[]string{"-effects-url", "http://127.0.0.1:1/"}, "-effects-url: connection refused"},
		"is not there":    {[]string{"-effects-url", notFound(t)}, "-effects-url: answered 404 Not Found: want 2xx"},
		"is not JSON":     {[]string{"-effects-url", text(t)}, "-effects-path: the answer is not JSON"},
	} {
		performed.Store(0)
		code, stdout, stderr := call(t, append(append([]string{"check", "-only", "replay.get"}, c.args...), u)...)
		if c.want == "" {
			assert.Equal(t, ok, code, name+stdout+stderr)
			continue
		}
		assert.Equal(t, misused, code, name)
		assert.Contains(t, stderr, c.want, name)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	}
}

func notFound(t *testing.T) string {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.URL
}

func text(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "many") }))
	t.Cleanup(server.Close)
	return server.URL
}

func TestCredentialsGoToTheSameOriginAlone(t *testing.T) {
	var seen atomic.Pointer[string]
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Authorization")
		seen.Store(&who)
		http.Error(w, "", http.StatusTeapot)
	}))
	t.Cleanup(other.Close)
	u, _ := forgetful(t)
	_, _, stderr := call(t, "check", "-H", "Authorization: Bearer secret", "-only", "expiry.kept",
		"-advance-url", other.URL+"/by?d={{d}}&s={{s}}", u)
	assert.Equal(t, "saferetry check: -advance-url: answered 418 I'm a teapot: want 2xx\n", stderr)
	assert.Equal(t, "POST /by?d=23h59m0s&s=86340 ", *seen.Load())
	_, _, stderr = call(t, "check", "-H", "Authorization: Bearer secret", "-effects-url", other.URL+"/n", other.URL+"/")
	assert.Contains(t, stderr, "418")
	assert.Equal(t, "GET /n Bearer secret", *seen.Load())
	_, _, stderr = call(t, "check", "-only", "expiry.kept", "-advance-command", "echo {{s}} >&2; exit 1", u)
	assert.Equal(t, "saferetry check: -advance-command: exit status 1: 86340\n", stderr)
}

func TestTheWaysOfCheckAreRead(t *testing.T) {
	way, err := readWay("slow", []string{"X-Slow: 1s", "delay=3", "note=a=b", "?wait=1", "X-Slow: 2s"})
	require.NoError(t, err)
	assert.Equal(t, http.Header{"X-Slow": {"1s", "2s"}}, way.Header)
	assert.Equal(t, "1", way.Query.Get("wait"))
	assert.Equal(t, `3`, string(way.Body["delay"]))
	assert.Equal(t, `"a=b"`, string(way.Body["note"]))
	way, err = readWay("slow", []string{"X-Fault: answer=500;x=y"})
	require.NoError(t, err)
	assert.Equal(t, "answer=500;x=y", way.Header.Get("X-Fault"))
	assert.Empty(t, way.Body)
}

func TestCheckEndsWhenInterrupted(t *testing.T) {
	u, arrived := hanging(t)
	ctx, cancel := context.WithCancel(t.Context())
	var interruptedAt time.Time
	go func() {
		<-arrived
		interruptedAt = time.Now()
		cancel()
	}()
	var out, errs strings.Builder
	assert.Equal(t, interrupted, run(ctx, []string{"check", "-d", template, u}, &out, &errs))
	assert.Less(t, time.Since(interruptedAt), time.Second)
	assert.Equal(t, "saferetry check: interrupted\n", errs.String())
}

func TestASignalEndsACommandWithinASecond(t *testing.T) {
	for _, verb := range []string{"send", "check"} {
		u, arrived := hanging(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0], verb, "-d", "x", u)
		cmd.Env = append(os.Environ(), "SAFERETRY_TEST_MAIN=1")
		require.NoError(t, cmd.Start())
		<-arrived
		signalled := time.Now()
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		assert.Error(t, cmd.Wait())
		assert.Equal(t, interrupted, cmd.ProcessState.ExitCode(), verb)
		assert.Less(t, time.Since(signalled), time.Second, verb)
	}
}
