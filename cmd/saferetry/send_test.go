package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/saferetry/saferetry/testserver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const charge = `{"amount":2500,"currency":"usd","customer":"cus_9182"}`

// call runs a command line to its end.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// objects reads what -json printed.
func objects(t *testing.T, text string) []result {
	t.Helper()
	var all []result
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var res result
		require.NoError(t, d.Decode(&res))
		all = append(all, res)
	}
	return all
}

func TestSendShowsAReplayAndInWhatItDiffers(t *testing.T) {
	s := testserver.New(t)
	code, stdout, stderr := call(t, "send", "-d", charge, "-key", "order-1", "-times", "2", s.URL+"/v1/charges")
	assert.Equal(t, ok, code)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "Idempotency-Key: order-1\n\n  "+charge+"\n")
	assert.Contains(t, stdout, "   Location: /v1/charges/ch_1\n")
	assert.Contains(t, stdout, `   {"id":"ch_1","amount":2500,`)
	assert.Regexp(t, `(?m)^2  201 Created \(\d+ ms\), marked as a replay$`, stdout)
	assert.Contains(t, stdout, "     header Idempotent-Replayed: true, was none (may differ)\n")
	assert.True(t, strings.HasSuffix(stdout, "2 answers: all agree; 1 marked as a replay\n"), stdout)
	assert.NotContains(t, stdout, "\x1b", "no colour where there is no terminal")
	assert.Equal(t, 1, s.Executions("order-1"))
}

func TestSendOfAnotherBodyUnderTheKeyExitsWith1(t *testing.T) {
	s := testserver.New(t)
	code, stdout, _ := call(t, "send", "-json", "-d", charge, "-then-change-body", s.URL+"/v1/charges")
	all := objects(t, stdout)
	require.Len(t, all, 2)
	assert.Equal(t, differs, code)
	assert.Equal(t, `{"amount":2501,"currency":"usd","customer":"cus_9182"}`, all[1].Changed)
	assert.Equal(t, 422, all[1].Status)
	assert.False(t, all[1].Agrees)
	assert.Equal(t, "status", all[1].Differs[0].Field)
	code, stdout, _ = call(t, "send", "-d", charge, "-then-change-body", s.URL+"/v1/charges")
	assert.Equal(t, differs, code)
	assert.Contains(t, stdout, "2  another body: {\"amount\":2501,")
	assert.Contains(t, stdout, "   differs from the first\n     status: 422, was 201\n")
	assert.Contains(t, stdout, "     body.id: none, was \"ch_2\"\n")
}

func TestSendAtOnceUsesOneKey(t *testing.T) {
	s := testserver.New(t)
	code, stdout, stderr := call(t, "send", "-json", "-d", charge, "-retry", "-parallel", "5", s.URL+"/v1/charges")
	require.Equal(t, ok, code, stdout+stderr)
	all := objects(t, stdout)
	require.Len(t, all, 5)
	for _, res := range all {
		assert.Equal(t, 201, res.Status)
		assert.Equal(t, all[0].Key, res.Key)
		assert.Equal(t, "performed", res.Report.Outcome)
	}
	assert.Len(t, s.Charges(), 1)
}

func TestSendShowsTheAttemptsOfTheSDK(t *testing.T) {
	s := testserver.New(t)
	s.Script(testserver.CrashAfterWrite(), testserver.Answer(503), testserver.None())
	code, stdout, stderr := call(t, "send", "-retry", "-d", charge, s.URL+"/v1/charges")
	require.Equal(t, ok, code, stderr)
	assert.Regexp(t, `(?s)attempt 1: connection reset, after \d+ ms\n   waiting \S+\n   attempt 2: 503 Service Unavailable, after \d+ ms\n`+
		`   waiting \S+\n   attempt 3: 201 Created, after \d+ ms\n`+
		`   performed: no further attempt because this answer is not to be retried; 3 in all, \d+ ms waited\n1  201 Created`, stdout)
	assert.Len(t, s.Charges(), 1)

	s.Script(testserver.Answer(503), testserver.Answer(503))
	code, stdout, _ = call(t, "send", "-json", "-retry", "-attempts", "2", "-d", charge, s.URL+"/v1/charges")
	assert.Equal(t, ok, code)
	res := objects(t, stdout)[0]
	require.Len(t, res.Attempts, 2)
	assert.Equal(t, 503, res.Attempts[0].Status)
	assert.NotNil(t, res.Attempts[0].WaitMS)
	assert.Equal(t, "exhausted", res.Report.Reason)
	code, stdout, _ = call(t, "send", "-retry", "-parallel", "2", "-d", charge, s.URL+"/v1/charges")
	assert.Equal(t, ok, code)
	assert.Contains(t, stdout, "   request 2, attempt 1: ")
}

func TestEveryReasonOfTheSDKHasWords(t *testing.T) {
	for reason := range 9 {
		assert.NotEmpty(t, because[reasonName(reason)], reasonName(reason))
	}
}

func TestSendHasCurlsWaysToGiveABody(t *testing.T) {
	var got atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := r.Method + " " + r.Header.Get("Content-Type") + " " + r.Header.Get("X-A") + " " + string(body)
		got.Store(&text)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(file, []byte(`{"from":"a file"}`), 0o600))
	before := stdin
	t.Cleanup(func() { stdin = before })
	for want, args := range map[string][]string{
		`POST application/json  {"from":"a file"}`:               {"-d", "@" + file},
		"POST application/x-www-form-urlencoded  a=1":            {"-d", "-"},
		"PUT application/x-www-form-urlencoded b, c  a=2&b=3":    {"-X", "put", "-d", "a=2&b=3", "-H", "X-A: b, c "},
		"POST text/plain  1":                                     {"-d", "1", "-H", "content-type: text/plain"},
		"POST   ":                                                {},
		"POST application/x-www-form-urlencoded  from the key -": {"-d", "from the key -", "-key", ""},
	} {
		stdin = strings.NewReader("a=1")
		code, stdout, stderr := call(t, append(append([]string{"send"}, args...), server.URL)...)
		require.Equal(t, ok, code, stdout+stderr)
		require.Equal(t, strings.Join(strings.Fields(want), " "), strings.Join(strings.Fields(*got.Load()), " "))
	}
}

func TestTheKeyOfSend(t *testing.T) {
	s := testserver.New(t)
	for want, args := range map[string][]string{
		"order-7":                              {"-key", "order-7"},
		"3b8be8da-62fb-8942-8af3-5d1f79b8ca38": {"-derive", "a,b"},
		"from-the-header":                      {"-H", "idempotency-key: from-the-header"},
	} {
		code, _, stderr := call(t, append(append([]string{"send", "-d", charge}, args...), s.URL+"/v1/charges")...)
		require.Equal(t, ok, code, stderr)
		assert.Equal(t, 1, s.Executions(want), want)
	}
	code, stdout, _ := call(t, "send", "-json", "-key-header", "X-Key", "-d", charge, s.URL+"/v1/charges")
	assert.Equal(t, ok, code)
	assert.Equal(t, 400, objects(t, stdout)[0].Status, "the server knows Idempotency-Key alone")
}

func TestNoCredentialIsShown(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, given := r.BasicAuth(); !given || r.Header.Get("Cookie") == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		w.Header().Add("Set-Cookie", "session=secret-"+fmt.Sprint(time.Now().UnixNano()))
		fmt.Fprint(w, "\x1b[31mred\x1b[0m")
	}))
	t.Cleanup(server.Close)
	withUser := strings.Replace(server.URL, "http://", "http://me:secret@", 1) + "/?token=secret"
	for _, args := range [][]string{
		{"-u", "me:secret", "-H", "Cookie: id=secret", "-times", "2", server.URL + "/?token=secret"},
		{"-json", "-u", "me:secret", "-H", "Cookie: id=secret", "-times", "2", server.URL},
		{"-H", "Cookie: id=secret", "-retry", withUser},
		{"-H", "Authorization: Bearer secret", strings.Replace(withUser, "http:", "https:", 1)},
		{"-H", "Authorization Bearer secret", withUser},
		{"-H", "Authorization: Bearer secret\n", withUser},
		{"-u", "secret", withUser}, {"-X", "@", withUser},
		{"me:secret@127.0.0.1/?token=secret"}, {"http://me:secret@/x"}, {"http://me:secret@%/"}, {"-key", "a\nb", withUser},
	} {
		_, stdout, stderr := call(t, append([]string{"send"}, args...)...)
		assert.NotContains(t, stdout, "secret", args)
		assert.NotContains(t, stderr, "secret", args)
		if !strings.Contains(stdout, `"n"`) { // JSON escapes them
			assert.NotContains(t, stdout, "\x1b", args)
		}
		assert.NotEmpty(t, stdout+stderr)
	}
}

func TestAnAnswerThatIsMissingOrBrokenIsShown(t *testing.T) {
	s := testserver.New(t)
	s.Script(testserver.None(), testserver.DropResponse(5), testserver.CrashAfterWrite(), testserver.Stall(time.Hour))
	code, stdout, stderr := call(t, "send", "-d", charge, "-times", "4", "-timeout", "300ms", s.URL+"/v1/charges")
	assert.Equal(t, differs, code)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "2  no answer: the answer (201) broke off after 5 bytes: unexpected EOF")
	assert.Contains(t, stdout, "3  no answer: connection reset")
	assert.Contains(t, stdout, "4  no answer: no answer within 300ms (-timeout)")
	assert.Contains(t, stdout, "4 answers: 3 not as the first; 0 marked as a replay\n")
}

// hanging is a server that never answers, and tells when it was asked.
func hanging(t *testing.T) (address string, arrived chan struct{}) {
	arrived = make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // then net/http watches the connection
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL, arrived
}

func TestSendEndsWhenInterrupted(t *testing.T) {
	u, arrived := hanging(t)
	ctx, cancel := context.WithCancel(t.Context())
	var interruptedAt time.Time
	go func() {
		<-arrived
		interruptedAt = time.Now()
		cancel()
	}()
	var out, errs bytes.Buffer
	assert.Equal(t, interrupted, run(ctx, []string{"send", "-d", charge, "-times", "3", u}, &out, &errs))
	assert.Less(t, time.Since(interruptedAt), time.Second)
	assert.Equal(t, "saferetry send: interrupted\n", errs.String())
	assert.Empty(t, out.String())
}

func TestAChangedBodyIsAnotherRequest(t *testing.T) {
	for body, want := range map[string]string{
		`{"a1":"2","b":3}`: `{"a1":"2","b":4}`,
		`{"a":19}`:         `{"a":18}`,
		`{"a":"\"1"}`:      `{"changed":true,"a":"\"1"}`,
		`{}`:               `{"changed":true}`,
		`a=1&b=2`:          `a=2&b=2`,
		`"text"`:           `"text" `,
		"":                 " ",
	} {
		assert.Equal(t, want, string(changedBody([]byte(body))))
	}
}

func TestBodiesThatAreNotText(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			fmt.Fprint(w, strings.Repeat("é", 20<<10))
			return
		}
		w.Write([]byte{0xff, 0})
	}))
	t.Cleanup(server.Close)
	_, stdout, _ := call(t, "send", server.URL)
	assert.Contains(t, stdout, "   (2 bytes that are not text)\n")
	_, stdout, _ = call(t, "send", "-json", server.URL)
	assert.Equal(t, []byte{0xff, 0}, objects(t, stdout)[0].Bytes)
	_, stdout, _ = call(t, "send", server.URL+"/long")
	assert.Contains(t, stdout, "é… (40960 bytes in all)\n")
}
