package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
	"github.com/stretchr/testify/assert"
)

func reasonName(i int) string { return sdk.StopReason(i).String() }

func TestEveryMisuseNamesTheFlag(t *testing.T) {
	const u = "http://127.0.0.1/x"
	for want, args := range map[string]string{
		"saferetry send: want a URL as the last argument":                                             "send",
		"saferetry send: flag -d: want the flags before the URL":                                      "send " + u + " -d x",
		"saferetry send: more than one argument after the flags: want the URL alone":                  "send " + u + " " + u,
		`saferetry send: URL: "127.0.0.1:80/x": want http:// or https:// in front`:                    "send 127.0.0.1:80/x",
		`saferetry send: URL: "http:///x": want a host, as in http://127.0.0.1:8080/v1/charges`:       "send http:///x",
		"saferetry send: URL: not an address that can be read":                                        "send http://%",
		"saferetry send: flag provided but not defined: -z":                                           "send -z " + u,
		`saferetry send: flag -X: "P@ST": want a method, such as POST`:                                "send -X P@ST " + u,
		`saferetry send: flag -H: want a header field, as in "Name: value"`:                           "send -H Name " + u,
		"saferetry send: flag -u: want user:password":                                                 "send -u me " + u,
		`saferetry send: flag -key-header: "a b": want the name of a header field`:                    "send -key-header a_b " + u,
		"saferetry send: flag -d: open /no/such/file: no such file or directory":                      "send -d @/no/such/file " + u,
		`saferetry send: invalid value "soon" for flag -timeout: want a duration, such as 1m30s`:      "send -timeout soon " + u,
		"saferetry send: flag -times: 0: want 1 or more":                                              "send -times 0 " + u,
		"saferetry send: flag -parallel: 0: want 1 or more":                                           "send -parallel 0 " + u,
		"saferetry send: flag -parallel: 1001: want at most 1000":                                     "send -parallel 1001 " + u,
		"saferetry send: flag -parallel: want it without -times":                                      "send -times 2 -parallel 2 " + u,
		"saferetry send: flag -attempts: want it with -retry":                                         "send -attempts 2 " + u,
		"saferetry send: flag -attempts: 0: want 1 or more":                                           "send -retry -attempts 0 " + u,
		"saferetry send: flag -derive: want it without -key, which says the same":                     "send -key a -derive a,b " + u,
		"saferetry send: flag -H: want Idempotency-Key in -key or -derive, not twice":                 "send -key a -H Idempotency-Key:b " + u,
		`saferetry send: flag -derive: "a": want a namespace and one part or more, as in charge,1234`: "send -derive a " + u,
		"saferetry send: flag -key: key is empty: want 1 to 255 visible ASCII characters":             "send -retry -key= " + u,
		"saferetry check: flag -X: GET: want a method that has an effect, such as POST":               "check -X get " + u,
		`saferetry check: flag -profile: "rfc": want draft, stripe or acp`:                            "check -profile rfc " + u,
		`saferetry check: flag -slow: want "Name: value", name=value, ?name=value, or always`:         "check -slow very " + u,
		`saferetry check: flag -large: want "Name: value", name=value, ?name=value, or always`:        "check -large ? " + u,
		`saferetry check: flag -error: want a header field, as in "Name: value"`:                      "check -error a_b:c " + u,
		"saferetry check: flag -slow: name=value sets a member of a JSON body: want one in -d":        "check -slow a=1 " + u,
		`saferetry check: flag -other-caller: want a header field, as in "Name: value"`:               "check -other-caller x " + u,
		`saferetry check: flag -other-url: "x": want http:// or https:// in front`:                    "check -other-url x " + u,
		`saferetry check: flag -only: "all": want IDs of checks, as -plan lists them`:                 "check -only all " + u,
		`saferetry check: flag -only: "key.missing": is not in the profile stripe`:                    "check -profile stripe -only key.missing " + u,
		`saferetry check: flag -effects-url: "x": want http:// or https:// in front`:                  "check -effects-url x " + u,
		"saferetry check: flag -effects-path: want it with -effects-url":                              "check -effects-path x " + u,
		"saferetry check: flag -effects-path: want a path, such as data.length":                       "check -effects-url " + u + " -effects-path= " + u,
		"saferetry check: flag -effects-command: want it without -effects-url, which says the same":   "check -effects-url " + u + " -effects-command ls " + u,
		`saferetry check: flag -advance-url: "x{{d}}": want http:// or https:// in front`:             "check -advance-url x{{d}} " + u,
		"saferetry check: flag -advance-url: want {{d}} or {{s}} in it, for how far":                  "check -advance-url " + u + " " + u,
		"saferetry check: flag -advance-command: want it without -advance-url, which says the same":   "check -advance-command a -advance-url b " + u,
		"saferetry check: flag -junit: open /no/such/dir/x: no such file or directory":                "check -junit /no/such/dir/x " + u,
		`saferetry check: invalid value "0s" for flag -retention: want 1s or more`:                    "check -retention 0s " + u,
		"saferetry key: want new, derive NAMESPACE PART..., or check KEY":                             "key",
		"saferetry key new: want nothing after it":                                                    "key new x",
		"saferetry key derive: want a NAMESPACE and one PART or more":                                 "key derive x",
		"saferetry key check: want one KEY":                                                           "key check",
		"saferetry key: flag provided but not defined: -x":                                            "key -x",
	} {
		fields := strings.Fields(args)
		for i := range fields {
			fields[i] = strings.Replace(fields[i], "a_b", "a b", 1)
		}
		code, stdout, stderr := call(t, fields...)
		assert.Equal(t, misused, code, args)
		assert.Equal(t, want+"\n", strings.Replace(stderr, `"x0s"`, `"x{{d}}"`, 1), args)
		assert.Empty(t, stdout, args)
	}
}

func TestAServerThatIsNotReachedIsOneLine(t *testing.T) {
	plain := testserver.New(t)
	secure := testserver.New(t, testserver.WithTLS())
	closed := httptest.NewServer(nil)
	closed.Close()
	host := func(u string) string { return u[strings.Index(u, "//")+2:] }
	for _, verb := range []string{"send", "check"} {
		for want, u := range map[string]string{
			host(closed.URL) + ": connection refused":                                                 closed.URL,
			host(secure.URL) + ": TLS: x509: certificate signed by unknown authority (-k accepts it)": secure.URL,
			host(plain.URL) + ": TLS: http: server gave HTTP response to HTTPS client":                "https://" + host(plain.URL),
			"nosuch.invalid: no such host":                                                            "http://nosuch.invalid/x",
		} {
			code, stdout, stderr := call(t, verb, u)
			assert.Equal(t, misused, code)
			assert.Equal(t, "saferetry "+verb+": "+want+"\n", stderr)
			assert.Empty(t, stdout)
		}
	}
	code, stdout, stderr := call(t, "send", "-retry", "-attempts", "2", closed.URL)
	assert.Equal(t, misused, code)
	assert.Contains(t, stdout, "not sent: no further attempt because no attempts are left")
	assert.Equal(t, "saferetry send: "+host(closed.URL)+": connection refused\n", stderr)
	code, stdout, _ = call(t, "send", "-k", "-d", charge, secure.URL+"/v1/charges")
	assert.Equal(t, ok, code)
	assert.Contains(t, stdout, "201 Created")
	code, _, stderr = call(t, "send", "-parallel", "3", closed.URL)
	assert.Equal(t, misused, code)
	assert.Equal(t, "saferetry send: "+host(closed.URL)+": connection refused\n", stderr)
}

func TestKeyMakesAndChecksKeys(t *testing.T) {
	code, stdout, _ := call(t, "key", "new")
	assert.Equal(t, ok, code)
	assert.NoError(t, sdk.ValidateKey(strings.TrimSpace(stdout)))
	code, stdout, _ = call(t, "key", "derive", "charge", "1234", "")
	assert.Equal(t, ok, code)
	assert.Equal(t, sdk.DeriveKey("charge", "1234", "")+"\n", stdout)
	code, stdout, _ = call(t, "key", "check", "order-1")
	assert.Equal(t, ok, code)
	assert.Equal(t, "valid\n", stdout)
	code, stdout, _ = call(t, "key", "check", "order 1")
	assert.Equal(t, differs, code)
	assert.Equal(t, "not valid: key has byte 0x20 at index 5: want visible ASCII characters only\n", stdout)
	code, stdout, _ = call(t, "key", "-h")
	assert.Equal(t, ok, code)
	assert.Contains(t, stdout, "usage: saferetry key [FLAGS] new | derive NAMESPACE PART... | check KEY\n")
}
