package idempotency_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// What a request has to be: the scope, and rules 1 to 3.

func TestRuleScopeComesBeforeAnythingElse(t *testing.T) {
	h, store := &handler{}, newStore(t)
	nobody := func(*http.Request) (string, error) { return "", errors.New("secret reason") }
	for name, opts := range map[string][]idempotency.Option{"": nil, "optional key": {idempotency.WithOptionalKey()}} {
		s := serve(t, idempotency.Middleware(store, nobody, append(opts, idempotency.WithBodyLimit(1))...)(h))
		for _, header := range [][]string{
			nil,
			{"Idempotency-Key", ""},
			{"Idempotency-Key", "k"},
		} {
			r := s.do(t.Context(), "POST", "/", "too large", header...)
			wantProblem(t, r, 401, "scope_unresolved")
			assert.NotContains(t, r.body, "secret", name)
		}
		assert.Equal(t, 201, s.do(t.Context(), "GET", "/", "").status, "other methods pass")
	}
	assert.EqualValues(t, 2, h.runs.Load(), "the GETs")
	assert.Zero(t, store.Len())
}

func TestRule1PostAndPatchNeedAKey(t *testing.T) {
	h := &handler{}
	s := serve(t, protect(t, h.ServeHTTP))
	for _, method := range []string{"POST", "PATCH"} {
		wantProblem(t, s.do(t.Context(), method, "/", ""), 400, "idempotency_key_missing")
	}
	assert.Zero(t, h.runs.Load())
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		for range 2 {
			r := s.do(t.Context(), method, "/", "", "Idempotency-Key", "k")
			assert.Equal(t, 201, r.status)
			assert.False(t, r.replayed())
		}
	}
	assert.EqualValues(t, 8, h.runs.Load())
}

func TestRule1AKeyThatIsNotValid(t *testing.T) {
	h := &handler{}
	for _, opts := range [][]idempotency.Option{nil, {idempotency.WithOptionalKey()}} {
		s := serve(t, protect(t, h.ServeHTTP, opts...))
		for _, key := range []string{"", " ", `""`, "a b", "ü", `"k`, `"k\`, strings.Repeat("k", 256)} {
			wantProblem(t, s.post(key, ""), 400, "idempotency_key_invalid")
		}
		wantProblem(t, s.post("k", "", "Idempotency-Key", "k"), 400, "idempotency_key_invalid")
	}
	assert.Zero(t, h.runs.Load())
}

func TestRule1QuotedAndBareAreOneKey(t *testing.T) {
	keys := make(chan string, 2)
	s := serve(t, protect(t, func(w http.ResponseWriter, r *http.Request) {
		keys <- idempotency.Key(r.Context())
		create(w, r)
	}))
	wantCreated(t, s.post(`"a\"b,c"`, "body"), "body", false)
	wantCreated(t, s.post(`a"b,c`, "body"), "body", true)
	assert.Equal(t, `a"b,c`, <-keys)
	assert.Empty(t, keys)
}

func TestRule1OptionalKeyAndOtherMethods(t *testing.T) {
	h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "key: "+idempotency.Key(r.Context()))
		idempotency.Performed(r.Context()) // does nothing without a key
	}}
	s := serve(t, protect(t, h.ServeHTTP, idempotency.WithOptionalKey(), idempotency.WithMethods("PUT")))
	assert.Equal(t, "key: ", s.do(t.Context(), "PUT", "/", "").body)
	assert.Equal(t, "key: ", s.do(t.Context(), "PUT", "/", "").body)
	assert.Equal(t, "key: k", s.do(t.Context(), "PUT", "/", "", "Idempotency-Key", "k").body)
	assert.True(t, s.do(t.Context(), "PUT", "/", "", "Idempotency-Key", "k").replayed())
	assert.Equal(t, "key: ", s.post("k", "").body, "POST passes")
	assert.EqualValues(t, 4, h.runs.Load())
}

func TestRule2TheHandlerGetsTheWholeBody(t *testing.T) {
	s := serve(t, protect(t, create, idempotency.WithBodyLimit(100_000)))
	for _, n := range []int{0, 1, 511, 512, 513, 65535, 65536, 65537, 100_000} {
		body := strings.Repeat("0123456789", n/10+1)[:n]
		key := strconv.Itoa(n)
		wantCreated(t, s.post(key, body), body, false)
		wantCreated(t, s.chunked(key, body), body, true)
		wantCreated(t, s.chunked(key+"-chunked", body), body, false)
	}
}

// chunked is post with a body of unknown length.
func (s *server) chunked(key, body string) reply {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.url+"/v1/charges", struct{ io.Reader }{strings.NewReader(body)})
	require.NoError(s.t, err)
	req.Header.Set("Idempotency-Key", key)
	return s.send(req)
}

func TestRule2ABodyOverTheLimit(t *testing.T) {
	h, store := &handler{}, newStore(t)
	s := serve(t, idempotency.Middleware(store, oneTenant, idempotency.WithBodyLimit(10))(h))
	wantProblem(t, s.post("k", "01234567890"), 413, "request_too_large")
	wantProblem(t, s.chunked("k", "01234567890"), 413, "request_too_large")
	assert.Zero(t, h.runs.Load())
	assert.Zero(t, store.Len())
	wantCreated(t, s.post("k", "0123456789"), "0123456789", false)

	limited := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 5)
		idempotency.Middleware(store, oneTenant)(h).ServeHTTP(w, r)
	})
	wantProblem(t, serve(t, limited).post("outer", "0123456789"), 413, "request_too_large")
}

func TestRule2ATooLargeBodyIsNotAskedFor(t *testing.T) {
	s := serve(t, protect(t, create, idempotency.WithBodyLimit(10)))
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n")
	answer := make([]byte, 12)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1 413", string(answer))
}

func TestRule2ABodyThatBreaksOff(t *testing.T) {
	h, store := &handler{}, newStore(t)
	s := serve(t, idempotency.Middleware(store, oneTenant)(h))
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 10\r\n\r\n01234")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Contains(t, string(answer), "HTTP/1.1 400")
	assert.Contains(t, string(answer), "request_unreadable")
	assert.Zero(t, h.runs.Load())
	assert.Zero(t, store.Len())
}

// A request made by hand may have no body at all.
func TestRule2NoBody(t *testing.T) {
	h := protect(t, create)
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		r := httptest.NewRequest("POST", "/v1/charges", nil)
		r.Body = body
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, 201, w.Code)
		assert.Empty(t, w.Body.String())
	}
}

func TestRule3ARecordIsScopeMethodPathAndKey(t *testing.T) {
	h := &handler{}
	byHeader := func(r *http.Request) (string, error) { return r.Header.Get("Tenant"), nil }
	s := serve(t, idempotency.Middleware(newStore(t), byHeader)(h))
	for i, of := range []struct{ tenant, method, path, key string }{
		{"a", "POST", "/v1/charges", "k"},
		{"b", "POST", "/v1/charges", "k"},
		{"", "POST", "/v1/charges", "k"},
		{"a", "PATCH", "/v1/charges", "k"},
		{"a", "POST", "/v1/charges/", "k"},
		{"a", "POST", "/v1%2Fcharges", "k"},
		{"a", "POST", "/v1/charges", "K"},
	} {
		for n := range 2 {
			r := s.do(t.Context(), of.method, of.path, "", "Tenant", of.tenant, "Idempotency-Key", of.key)
			assert.Equal(t, 201, r.status)
			assert.Equal(t, n == 1, r.replayed(), "%+v", of)
		}
		assert.EqualValues(t, i+1, h.runs.Load(), "%+v", of)
	}
}

func TestRule3AFingerprintIsQueryAndRawBody(t *testing.T) {
	s := serve(t, protect(t, create))
	send := func(path, body string) reply {
		return s.do(context.Background(), "POST", path, body, "Idempotency-Key", "k")
	}
	wantCreated(t, send("/?ab", "c"), "c", false)
	wantCreated(t, send("/?ab", "c"), "c", true)
	for _, other := range [][2]string{{"/?a", "bc"}, {"/?abc", ""}, {"/", "abc"}, {"/?ab", "C"}, {"/?ab", "c "}, {"/?ab=", "c"}} {
		wantProblem(t, send(other[0], other[1]), 422, "idempotency_key_reuse")
	}
}

func TestRule3JSONFingerprint(t *testing.T) {
	s := serve(t, protect(t, create, idempotency.WithFingerprint(idempotency.JSONFingerprint)))
	send := func(key, query, body string) reply {
		return s.do(context.Background(), "POST", "/"+query, body, "Idempotency-Key", key)
	}
	first := `{"amount":1.0,"currency":"usd","note":"\u00e9"}`
	wantCreated(t, send("k", "?q", first), first, false)
	wantCreated(t, send("k", "?q", ` { "note": "é", "currency":"usd", "amount":1 }`), first, true)
	for _, other := range []string{`{"amount":2,"currency":"usd","note":"é"}`, `{"amount":1.0}`, `nonsense`, ``} {
		wantProblem(t, send("k", "?q", other), 422, "idempotency_key_reuse")
	}
	wantProblem(t, send("k", "", first), 422, "idempotency_key_reuse")

	// What has no canonical form counts byte by byte.
	for key, body := range map[string]string{"not-json": "{a:1}", "empty": "", "twice": `{"a":1,"a":1}`} {
		wantCreated(t, send(key, "", body), body, false)
		wantCreated(t, send(key, "", body), body, true)
		wantProblem(t, send(key, "", body+" "), 422, "idempotency_key_reuse")
	}
}

func TestRule3AFingerprintFunctionThatFails(t *testing.T) {
	h, store := &handler{}, newStore(t)
	fail := func(*http.Request, []byte) ([]byte, error) { return nil, errors.New("secret reason") }
	s := serve(t, idempotency.Middleware(store, oneTenant, idempotency.WithFingerprint(fail))(h))
	r := s.post("k", "")
	wantProblem(t, r, 400, "fingerprint_failed")
	assert.NotContains(t, r.body, "secret")
	assert.Zero(t, h.runs.Load())
	assert.Zero(t, store.Len())
}
