package idempotency_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// How a handler can end, and what becomes of its key: rules 7 and 10.

// What a retry finds.
const (
	stored    = "stored"     // a replay
	notStored = "not stored" // 409, no Retry-After
	released  = "released"   // a run of its own
)

// An ending is a way for a handler to end, and what becomes of it.
type ending struct {
	name   string
	end    http.HandlerFunc
	status int    // what the client gets; 0: a broken connection
	body   string // as far as it comes
	record string
}

func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }

var errBoom = errors.New("boom")

var endings = []ending{
	{"return without writing", func(w http.ResponseWriter, r *http.Request) {}, 200, "", stored},
	{"status only", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, 204, "", stored},
	{"redirect", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(303) }, 303, "", stored},
	{"body only", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "body") }, 200, "body", stored},
	{"second status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); w.WriteHeader(500) }, 201, "", stored},
	{"empty write", func(w http.ResponseWriter, r *http.Request) { w.Write(nil) }, 200, "", stored},
	{"read from", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, onlyReader("body")) }, 200, "body", stored},
	{"serve content", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("content"))
	}, 200, "content", stored},
	{"1xx first", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.WriteHeader(102)
		w.WriteHeader(201)
		w.WriteHeader(103) // too late
		io.WriteString(w, "body")
	}, 201, "body", stored},
	{"1xx only", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103) }, 200, "", stored},

	{"4xx", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "bad", 400) }, 400, "bad\n", released},
	{"5xx", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) }, 503, "down\n", released},
	{"flushed 4xx", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404); flush(w) }, 404, "", released},
	{"panic", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); panic(errBoom) }, 0, "", released},
	{"panic with ErrAbortHandler", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, 0, "", released},
	{"panic by an invalid status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(99) }, 0, "", released},
	{"Goexit", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "body"); runtime.Goexit() }, 0, "", released},
	{"panic after a flushed 4xx", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(404)
		io.WriteString(w, "part")
		flush(w)
		panic(errBoom)
	}, 404, "part", released},
	{"hijack", hijack("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown"), 200, "own", released},
	{"hijack after a status", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(201)
		hijack("own")(w, r)
	}, 201, "own", notStored},

	{"flush", func(w http.ResponseWriter, r *http.Request) { flush(w); io.WriteString(w, "body") }, 200, "body", notStored},
	{"flush in between", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "bo")
		flush(w)
		io.Copy(w, onlyReader("dy"))
		flush(w)
	}, 200, "body", notStored},
	{"flush at the end", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "body"); flush(w) }, 200, "body", notStored},
	{"over the limit", func(w http.ResponseWriter, r *http.Request) {
		for i := range limit + 1 {
			w.Write([]byte{'a' + byte(i%26)})
		}
	}, 200, alphabet(limit + 1), notStored},
	{"over the limit by ReadFrom", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "a")
		n, err := io.Copy(w, onlyReader(alphabet(limit + 1)[1:]))
		io.WriteString(w, fmt.Sprint(n, err))
	}, 200, alphabet(limit+1) + fmt.Sprint(limit, " <nil>"), notStored},
	{"far over the limit by ReadFrom", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, onlyReader(alphabet(200_000)))
	}, 200, alphabet(200_000), notStored},
	{"at the limit", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, alphabet(limit)) }, 200, alphabet(limit), stored},
	{"at the limit by ReadFrom", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, onlyReader(alphabet(limit)))
	}, 200, alphabet(limit), stored},
	{"large content served", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader(alphabet(100_000)))
	}, 200, alphabet(100_000), notStored},
	{"panic after a flushed 2xx", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "part")
		flush(w)
		panic(errBoom)
	}, 200, "part", notStored},
	{"Goexit after a flushed 3xx", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(303)
		flush(w)
		runtime.Goexit()
	}, 303, "", notStored},
	{"shorter than declared", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "part")
	}, 200, "part", notStored},

	{"performed, then 4xx", performed(func(w http.ResponseWriter) { w.WriteHeader(402) }), 402, "", stored},
	{"performed, then 5xx", performed(func(w http.ResponseWriter) { http.Error(w, "mail", 500) }), 500, "mail\n", stored},
	{"performed, then panic", performed(func(w http.ResponseWriter) { panic(errBoom) }), 0, "", notStored},
	{"performed, then Goexit", performed(func(w http.ResponseWriter) { runtime.Goexit() }), 0, "", notStored},
	{"performed, then flushed 5xx", performed(func(w http.ResponseWriter) { w.WriteHeader(500); flush(w) }), 500, "", notStored},
	{"performed, then hijack", performed(func(w http.ResponseWriter) {
		hijack("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown")(w, nil)
	}), 200, "own", notStored},
}

// limit is the answer limit of the tests.
const limit = 100

func alphabet(n int) string {
	return strings.Repeat("abcdefghijklmnopqrstuvwxyz", n/26+1)[:n]
}

// onlyReader has no methods but Read.
func onlyReader(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

func performed(then func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		idempotency.Performed(r.Context())
		then(w)
	}
}

// hijack takes the connection over, writes raw to it and closes it.
func hijack(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		rw.WriteString(raw)
		rw.Flush()
	}
}

func TestRules7And10EveryWayAHandlerCanEnd(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			h := &handler{then: e.end}
			store := newStore(t)
			protected := idempotency.Middleware(store, oneTenant, idempotency.WithAnswerLimit(limit))(h)
			ended := make(chan struct{}, 2)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { ended <- struct{}{} }()
				protected.ServeHTTP(w, r)
			}))
			wantEnding(t, s, h, e, func() { <-ended })
			if e.record == released {
				assert.Zero(t, store.Len())
			}
		})
	}
}

func TestRules7And10EveryWayAHandlerCanEndOverHTTP2(t *testing.T) {
	for _, e := range endings {
		if strings.Contains(e.name, "hijack") {
			continue // there is no such thing
		}
		t.Run(e.name, func(t *testing.T) {
			h := &handler{then: e.end}
			s := serveHTTP2(t, protect(t, h.ServeHTTP, idempotency.WithAnswerLimit(limit)))
			wantEnding(t, s, h, e, func() {})
		})
	}
}

// wantEnding sends a request and, after a wait for its end (of a connection taken over the client cannot tell), its
// retry.
func wantEnding(t *testing.T, s *server, h *handler, e ending, wait func()) {
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	first := s.post("k", "")
	assert.Equal(t, e.status, first.status)
	assert.Equal(t, e.body, first.body)
	assert.False(t, first.replayed())
	require.EqualValues(t, 1, h.runs.Load())
	assert.Empty(t, first.header.Get("Link"), "of a 1xx")

	wait()
	retry := s.post("k", "")
	switch e.record {
	case stored:
		require.NoError(t, first.err)
		assert.EqualValues(t, 1, h.runs.Load())
		assert.Equal(t, e.status, retry.status)
		assert.Equal(t, e.body, retry.body)
		assert.True(t, retry.replayed())
		sameButForDate(t, first.header, retry.header)
	case notStored:
		assert.EqualValues(t, 1, h.runs.Load())
		wantProblem(t, retry, 409, "idempotency_response_not_stored")
		assert.Empty(t, retry.header.Get("Retry-After"))
	case released:
		wait()
		assert.EqualValues(t, 2, h.runs.Load(), "the key was not released")
		assert.Equal(t, e.status, retry.status)
		assert.False(t, retry.replayed())
	}
	broken := e.status == 0 || strings.HasPrefix(e.name, "panic") || strings.HasPrefix(e.name, "Goexit") || e.name == "shorter than declared"
	assert.Equal(t, broken, first.err != nil, "%v", first.err)
}

func TestRule7ThePanicGoesOn(t *testing.T) {
	for _, then := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(errBoom) },
		performed(func(http.ResponseWriter) { panic(errBoom) }),
		func(w http.ResponseWriter, _ *http.Request) { flush(w); panic(errBoom) },
	} {
		seen := make(chan any, 1)
		inner := protect(t, then)
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				v := recover()
				seen <- v
				panic(v)
			}()
			inner.ServeHTTP(w, r)
		}))
		require.Error(t, s.post("k", "").err)
		assert.Equal(t, errBoom, <-seen)
	}
}

// A recovery outside of the middleware can still answer, and nothing the handler set is in its way.
func TestRule7AfterAPanicTheHeaderIsClean(t *testing.T) {
	inner := protect(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/v1/charges/ch_1")
		w.WriteHeader(103)
		w.WriteHeader(201)
		panic(errBoom)
	})
	s := serve(t, outside(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			recover()
			http.Error(w, "recovered", 500)
		}()
		inner.ServeHTTP(w, r)
	}), func(h http.Header) { h.Set("Location", "/outside") }))
	r := s.post("k", "")
	assert.Equal(t, 500, r.status)
	assert.Equal(t, "/outside", r.header.Get("Location"))
}

func TestRule7AnOptionStoresMoreOrLess(t *testing.T) {
	h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
		var status int
		fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
	}}
	s := serve(t, protect(t, h.ServeHTTP, idempotency.WithStoredStatus(func(status int) bool { return status == 404 })))
	for path, replayed := range map[string]bool{"/404": true, "/200": false, "/503": false} {
		s.do(t.Context(), "POST", path, "", "Idempotency-Key", "k")
		assert.Equal(t, replayed, s.do(t.Context(), "POST", path, "", "Idempotency-Key", "k").replayed(), path)
	}
}

// Whatever a function of the user's own panics with, the key is free.
func TestRule7APanicOfAnOptionFreesTheKey(t *testing.T) {
	var boom atomic.Bool
	for name, opt := range map[string]idempotency.Option{
		"stored status": idempotency.WithStoredStatus(func(int) bool {
			if boom.Load() {
				panic(errBoom)
			}
			return true
		}),
		"observer": idempotency.WithObserver(func(e idempotency.Event) {
			if boom.Load() && e.Kind == idempotency.EventClaimed {
				panic(errBoom)
			}
		}),
		"fingerprint": idempotency.WithFingerprint(func(*http.Request, []byte) ([]byte, error) {
			if boom.Load() {
				panic(errBoom)
			}
			return nil, nil
		}),
	} {
		boom.Store(true)
		s := serve(t, protect(t, create, opt))
		require.Error(t, s.post("k", "").err, name)
		boom.Store(false)
		assert.Equal(t, 201, s.post("k", "").status, name)
	}
}

func TestRule10AStreamLeavesAsItIsWritten(t *testing.T) {
	next := make(chan struct{})
	s := serve(t, protect(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "%d\n", i)
			assert.NoError(t, http.NewResponseController(w).Flush())
			<-next
		}
	}))
	req, err := http.NewRequest("POST", s.url, nil)
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k")
	resp, err := s.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	for i := range 3 {
		line := make([]byte, 2)
		_, err := io.ReadFull(resp.Body, line)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%d\n", i), string(line))
		r := s.do(t.Context(), "POST", "/", "", "Idempotency-Key", "k")
		wantProblem(t, r, 409, "idempotency_key_in_progress")
		next <- struct{}{}
	}
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Empty(t, rest)
	wantProblem(t, s.do(t.Context(), "POST", "/", "", "Idempotency-Key", "k"), 409, "idempotency_response_not_stored")
}

func TestRule10NoLimitIsNoTrouble(t *testing.T) {
	const all = 1<<63 - 1
	s := serve(t, protect(t, create, idempotency.WithAnswerLimit(all), idempotency.WithBodyLimit(all)))
	body := string(bytes.Repeat([]byte{0}, 3<<20))
	wantCreated(t, s.post("k", body), body, false)
	wantCreated(t, s.chunked("k", body), body, true)
}
