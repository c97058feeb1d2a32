package idempotency_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// What a replay is: rule 6.

// sameButForDate wants the header of a replay to be that of the first answer.
func sameButForDate(t *testing.T, first, replay http.Header) {
	t.Helper()
	first, replay = first.Clone(), replay.Clone()
	first.Del("Date")
	replay.Del("Date")
	replay.Del("Idempotent-Replayed")
	assert.Equal(t, first, replay)
}

func TestRule6ReplaysLeaveOutWhatIsNotTheirs(t *testing.T) {
	s := serve(t, protect(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Set-Cookie", "session=secret")
		h.Set("WWW-Authenticate", "Bearer")
		h.Set("Proxy-Authenticate", "Basic")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Connection", "keep-alive, x-hop")
		h.Set("X-Hop", "1")
		h.Set("Upgrade", "h2c")
		h.Set("Date", "Mon, 01 Jan 2001 00:00:00 GMT")
		h.Set("Idempotent-Replayed", "false")
		h["set-cookie"] = []string{"written=by-hand"}
		h.Set("ETag", `"1"`)
		w.WriteHeader(http.StatusCreated)
	}))
	first := s.post("k", "")
	assert.Len(t, first.header["Set-Cookie"], 2)
	assert.Equal(t, "1", first.header.Get("X-Hop"))
	replay := s.post("k", "")
	assert.Equal(t, 201, replay.status)
	assert.NotContains(t, replay.header.Get("Date"), "2001")
	assert.Equal(t, []string{"true"}, replay.header["Idempotent-Replayed"])
	assert.Equal(t, `"1"`, replay.header.Get("ETag"))
	assert.ElementsMatch(t, []string{"Date", "Idempotent-Replayed", "Etag", "Content-Length"}, keysOf(replay.header))
}

func keysOf(h http.Header) []string {
	var names []string
	for name := range maps.Keys(h) {
		names = append(names, name)
	}
	return names
}

func TestRule6RepeatedHeadersKeepTheirOrder(t *testing.T) {
	links := []string{"</c>; rel=next", "</a>; rel=prev", "</c>; rel=last"}
	s := serve(t, protect(t, func(w http.ResponseWriter, r *http.Request) {
		for _, link := range links {
			w.Header().Add("Link", link)
		}
	}))
	assert.Equal(t, links, s.post("k", "").header["Link"])
	assert.Equal(t, links, s.post("k", "").header["Link"])
}

// outside sets header fields before the middleware sees the request.
func outside(h http.Handler, set func(http.Header)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set(w.Header())
		h.ServeHTTP(w, r)
	})
}

func TestRule6HeadersSetOutsideAreTheRequestsOwn(t *testing.T) {
	var requests atomic.Int64
	inner := protect(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Set("Cache-Control", "private")
		w.Header().Del("X-Frame-Options")
		w.Header().Set("Etag", `"1"`)
		w.WriteHeader(http.StatusCreated)
	})
	s := serve(t, outside(inner, func(h http.Header) {
		h.Set("X-Request-Id", fmt.Sprint("request-", requests.Add(1)))
		h.Set("Vary", "Origin")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Frame-Options", "DENY")
	}))
	for i := range 3 {
		r := s.post("k", "")
		assert.Equal(t, i > 0, r.replayed())
		assert.Equal(t, []string{fmt.Sprint("request-", i+1)}, r.header["X-Request-Id"])
		assert.Equal(t, []string{"Origin", "Accept"}, r.header["Vary"], "added to")
		assert.Equal(t, []string{"private"}, r.header["Cache-Control"], "replaced")
		assert.NotContains(t, r.header, "X-Frame-Options", "taken away")
		assert.Equal(t, []string{`"1"`}, r.header["Etag"])
	}
}

func TestRule6ProblemsKeepHeadersSetOutside(t *testing.T) {
	s := serve(t, outside(protect(t, create), func(h http.Header) {
		h.Set("X-Request-Id", "7")
		h.Set("Content-Length", "1")
		h.Set("Content-Encoding", "br")
	}))
	r := s.do(t.Context(), "POST", "/", "")
	wantProblem(t, r, 400, "idempotency_key_missing")
	assert.Equal(t, "7", r.header.Get("X-Request-Id"))
	assert.Empty(t, r.header.Get("Content-Encoding"))
}

func TestRule6AnAnswerIsACopy(t *testing.T) {
	h := protect(t, func(w http.ResponseWriter, r *http.Request) {
		body := []byte("as it was")
		w.Header().Set("Etag", `"1"`)
		etag := w.Header()["Etag"]
		w.Write(body)
		body[0] = 'X'
		etag[0] = "changed after the header was written"
		w.Header().Set("Location", "/too/late")
	})
	for key, h := range map[string]http.Handler{
		"bare": h, "within": outside(h, func(h http.Header) { h.Set("X-Request-Id", "7") }),
	} {
		s := serve(t, h)
		for range 2 {
			r := s.post(key, "")
			assert.Equal(t, "as it was", r.body)
			assert.Equal(t, `"1"`, r.header.Get("Etag"))
			assert.Empty(t, r.header.Get("Location"))
		}
	}
}

func TestRule6AnotherMarker(t *testing.T) {
	s := serve(t, protect(t, create, idempotency.WithReplayHeader("x-idempotent-replayed")))
	s.post("k", "")
	r := s.post("k", "")
	assert.Equal(t, "true", r.header.Get("X-Idempotent-Replayed"))
	assert.False(t, r.replayed())
}

// A content type that net/http detects is the same for the replay, and one that the handler suppressed stays so.
func TestRule6ContentTypeIsAsItWas(t *testing.T) {
	h := protect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			w.Header()["Content-Type"] = nil
		}
		io.WriteString(w, "<ht")
		io.WriteString(w, "ml>")
	})
	s := serve(t, h)
	for path, want := range map[string][]string{"/": {"text/html; charset=utf-8"}, "/none": nil} {
		for range 2 {
			assert.Equal(t, want, s.do(t.Context(), "POST", path, "", "Idempotency-Key", "k").header["Content-Type"])
		}
	}
}

func TestRule6TrailersAreReplayed(t *testing.T) {
	h := protect(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum, x-unset")
		w.Header().Add("Trailer", "X-Count,")
		io.WriteString(w, "body")
		if r.URL.Path == "/streamed" {
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Sum", "42")
		w.Header().Set("X-Count", "4")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
	})
	want := http.Header{"X-Sum": {"42"}, "X-Count": {"4"}, "X-Late": {"yes"}}
	for _, s := range []*server{serve(t, h), serveHTTP2(t, h)} {
		key := s.url
		for i := range 2 {
			r := s.post(key, "")
			assert.Equal(t, "body", r.body)
			assert.Equal(t, i == 1, r.replayed())
			got := r.trailer.Clone()
			maps.DeleteFunc(got, func(_ string, v []string) bool { return v == nil })
			assert.Equal(t, want, got)
			assert.NotContains(t, r.header, "X-Sum")
		}
		r := s.do(t.Context(), "POST", "/streamed", "", "Idempotency-Key", key)
		assert.Equal(t, "body", r.body)
		assert.Equal(t, "42", r.trailer.Get("X-Sum"))
	}
}

// HEAD and the statuses without a body: lengths are those that net/http gives without the middleware.
func TestRule6LengthsAreNetHTTPs(t *testing.T) {
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204", "/304":
			var status int
			fmt.Sscanf(r.URL.Path, "/%d", &status)
			w.WriteHeader(status)
			n, err := io.WriteString(w, "no")
			assert.Zero(t, n)
			assert.Equal(t, http.ErrBodyNotAllowed, err)
			_, err = w.(io.ReaderFrom).ReadFrom(strings.NewReader("no"))
			assert.Equal(t, http.ErrBodyNotAllowed, err)
		case "/declared":
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "12345")
			_, err := io.WriteString(w, "6")
			assert.Equal(t, http.ErrContentLength, err)
		case "/head":
			w.Header().Set("Content-Length", "1000")
		case "/bad-length":
			w.Header().Set("Content-Length", "five")
			io.WriteString(w, "12345")
		default:
			io.WriteString(w, "12345")
		}
	})
	methods := idempotency.WithMethods("POST", "HEAD")
	s, want := serve(t, protect(t, bare, methods)), serve(t, bare)
	for _, method := range []string{"POST", "HEAD"} {
		for _, path := range []string{"/", "/204", "/304", "/declared", "/bad-length", "/head"} {
			if path == "/head" && method == "POST" {
				continue // a lie
			}
			key := "k" + method
			bare := rawAnswer(t, want.url, method, path, key)
			assert.Equal(t, bare, rawAnswer(t, s.url, method, path, key), "%s %s", method, path)
			replay := rawAnswer(t, s.url, method, path, key)
			assert.Contains(t, replay, "Idempotent-Replayed: true")
			assert.Equal(t, bare, strings.Replace(replay, "Idempotent-Replayed: true\r\n", "", 1), "%s %s replayed", method, path)
		}
	}
}

// rawAnswer is an answer as it is on the wire, without its Date.
func rawAnswer(t *testing.T, url, method, path, key string) string {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: %s\r\nContent-Length: 0\r\n\r\n", method, path, key)
	var b strings.Builder
	for r := bufio.NewReader(conn); ; {
		line, err := r.ReadString('\n')
		if !strings.HasPrefix(line, "Date:") {
			b.WriteString(line)
		}
		if err != nil {
			return b.String()
		}
	}
}
