package idempotency_test

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry/idempotency"
)

// What a handler can do with its ResponseWriter and its request, and what is around the middleware.

func TestResponseControllerReachesTheConnection(t *testing.T) {
	s := serve(t, protect(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		assert.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
		assert.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
		assert.NoError(t, c.EnableFullDuplex())
		create(w, r)
	}))
	wantCreated(t, s.post("k", "body"), "body", false)
	wantCreated(t, s.post("k", "body"), "body", true)
}

// A plainWriter has nothing but the three methods.
type plainWriter struct{ w http.ResponseWriter }

func (p plainWriter) Header() http.Header         { return p.w.Header() }
func (p plainWriter) WriteHeader(status int)      { p.w.WriteHeader(status) }
func (p plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }

// A wrappedWriter is one more writer around another, as a logging middleware has.
type wrappedWriter struct{ http.ResponseWriter }

func (w wrappedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestWhatTheConnectionCannotDoChangesNothing(t *testing.T) {
	inner := protect(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		assert.ErrorIs(t, c.Flush(), http.ErrNotSupported)
		_, _, err := c.Hijack()
		assert.ErrorIs(t, err, http.ErrNotSupported)
		w.(http.Flusher).Flush()
		create(w, r)
	})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(wrappedWriter{plainWriter{w}}, r)
	}))
	wantCreated(t, s.post("k", "body"), "body", false)
	wantCreated(t, s.post("k", "body"), "body", true)
}

func TestFlushAndHijackReachThroughOtherWriters(t *testing.T) {
	inner := protect(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flush" {
			assert.NoError(t, http.NewResponseController(w).Flush())
			return
		}
		hijack("HTTP/1.1 204 No Content\r\n\r\n")(w, r)
		_, err := io.WriteString(w, "too late")
		assert.ErrorIs(t, err, http.ErrHijacked)
		assert.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrHijacked)
		w.WriteHeader(500)
		_, _, err = http.NewResponseController(w).Hijack()
		assert.ErrorIs(t, err, http.ErrHijacked)
	})
	var log safeBuffer
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(http.ServerContextKey).(*http.Server).ErrorLog.SetOutput(&log)
		inner.ServeHTTP(wrappedWriter{wrappedWriter{w}}, r)
	}))
	assert.Equal(t, 200, s.do(t.Context(), "POST", "/flush", "", "Idempotency-Key", "k").status)
	assert.Equal(t, 204, s.do(t.Context(), "POST", "/hijack", "", "Idempotency-Key", "k").status)
	s.close()
	assert.Empty(t, log.String(), "net/http was told nothing about a connection that is not its own")
}

// A copier notes what is copied to it in its own way.
type copier struct {
	*httptest.ResponseRecorder
	copied int64
	err    error
}

func (c *copier) ReadFrom(src io.Reader) (int64, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := io.Copy(c.ResponseRecorder, src)
	c.copied += n
	return n, err
}

func TestAStreamIsCopiedInTheConnectionsOwnWay(t *testing.T) {
	content := alphabet(100_000)
	for name, h := range map[string]http.HandlerFunc{
		"declared": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader(content))
		},
		"flushed": func(w http.ResponseWriter, r *http.Request) {
			flush(w)
			n, err := io.Copy(w, onlyReader(content))
			assert.NoError(t, err)
			assert.EqualValues(t, len(content), n)
		},
	} {
		w := &copier{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Idempotency-Key", "k")
		protect(t, h, idempotency.WithAnswerLimit(limit)).ServeHTTP(w, r)
		assert.EqualValues(t, len(content), w.copied, name)
		assert.Equal(t, content, w.Body.String(), name)
	}
}

func TestReadFromReportsErrors(t *testing.T) {
	errSource, errWrite := errors.New("source"), errors.New("write")
	w := &copier{ResponseRecorder: httptest.NewRecorder(), err: errWrite}
	h := protect(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(w, io.MultiReader(onlyReader("part"), failingReader{errSource}))
		assert.EqualValues(t, 4, n)
		assert.Equal(t, errSource, err)
		n, err = io.Copy(w, onlyReader(alphabet(100_000)))
		assert.EqualValues(t, 32<<10, n, "the chunk with which it began to stream")
		assert.Equal(t, errWrite, err)
	}, idempotency.WithAnswerLimit(limit))
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Idempotency-Key", "k")
	h.ServeHTTP(w, r)
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// http.TimeoutHandler answers in the handler's place, and the operation ends all the same.
func TestATimeoutOutsideDoesNotUndoTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{then: func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			create(w, r)
		}}
		s := serveInBubble(t, http.TimeoutHandler(protect(t, h.ServeHTTP), time.Second, "too slow"))
		r := s.post("k", "body")
		assert.Equal(t, 503, r.status)
		synctest.Wait()
		wantCreated(t, s.post("k", "body"), "body", true)
		assert.EqualValues(t, 1, h.runs.Load())
	})
}

func TestItWorksAroundAndWithinAMux(t *testing.T) {
	seen := make(chan string, 2)
	charge := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.PathValue("id")) }
	around := http.NewServeMux()
	around.HandleFunc("POST /charges/{id}", charge)
	within := http.NewServeMux()
	within.Handle("POST /charges/{id}", protect(t, charge))
	for _, h := range []http.Handler{protect(t, around.ServeHTTP), within} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			seen <- r.Pattern
		}))
		assert.Equal(t, "7", s.do(t.Context(), "POST", "/charges/7", "", "Idempotency-Key", "k").body)
		assert.Equal(t, "7", s.do(t.Context(), "POST", "/charges/7", "", "Idempotency-Key", "k").body)
		assert.Equal(t, "POST /charges/{id}", <-seen, "as a log outside of it would say")
		<-seen
	}
}

// The server removes the temporary files of a form that the handler parsed.
func TestAFormLeavesNoFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	protected := protect(t, func(w http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.ParseMultipartForm(1))
		files, err := os.ReadDir(os.TempDir())
		assert.NoError(t, err)
		assert.Len(t, files, 1)
		io.WriteString(w, r.FormValue("name"))
	}, idempotency.WithBodyLimit(100<<20))
	s := serve(t, protected)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	require.NoError(t, form.WriteField("name", "value"))
	file, err := form.CreateFormFile("file", "a.txt")
	require.NoError(t, err)
	file.Write(bytes.Repeat([]byte("x"), 11<<20)) // more than net/http holds in memory
	require.NoError(t, form.Close())
	r := s.post("k", body.String(), "Content-Type", form.FormDataContentType())
	assert.Equal(t, "value", r.body)
	s.close()
	files, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, files)
}

// A client that upgrades its connection can do so with a key.
func TestAnUpgradeReleasesTheKey(t *testing.T) {
	store := newStore(t)
	protected := idempotency.Middleware(store, oneTenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		io.CopyN(conn, rw, 4)
	}))
	ended := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protected.ServeHTTP(w, r)
		close(ended)
	}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nConnection: upgrade\r\nUpgrade: echo\r\nContent-Length: 0\r\n\r\nping")
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Contains(t, string(answer), "HTTP/1.1 101 Switching Protocols\r\n")
	assert.True(t, strings.HasSuffix(string(answer), "\r\n\r\nping"), "%q", answer)
	<-ended
	assert.Zero(t, store.Len())
}
