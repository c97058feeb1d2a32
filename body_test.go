package saferetry_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// fileAt returns a file with content behind something else, standing where the
// content begins.
func fileAt(t testing.TB, content string) *os.File {
	before := "not this: "
	path := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(path, []byte(before+content), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	_, err = file.Seek(int64(len(before)), io.SeekStart)
	require.NoError(t, err)
	return file
}

// plain hides all that a reader can do but Read.
func plain(content string) io.Reader { return struct{ io.Reader }{strings.NewReader(content)} }

// bodyKind is a way to hand over a body.
type bodyKind struct {
	name   string
	open   func(t testing.TB, content string) io.Reader
	length bool // known
}

var bodyKinds = []bodyKind{
	{"GetBody", func(_ testing.TB, c string) io.Reader { return strings.NewReader(c) }, true},
	{"GetBody, unknown length", func(_ testing.TB, c string) io.Reader { return strings.NewReader(c) }, false},
	{"file", func(t testing.TB, c string) io.Reader { return fileAt(t, c) }, true},
	{"file, unknown length", func(t testing.TB, c string) io.Reader { return fileAt(t, c) }, false},
	{"plain reader", func(_ testing.TB, c string) io.Reader { return plain(c) }, true},
	{"plain reader, unknown length", func(_ testing.TB, c string) io.Reader { return plain(c) }, false},
	{"pipe", openPipe, false},
}

// openPipe returns an *os.File that has no positions to read at.
func openPipe(t testing.TB, content string) io.Reader {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	var written sync.WaitGroup
	written.Go(func() {
		_, _ = io.WriteString(w, content)
		w.Close()
	})
	t.Cleanup(func() {
		r.Close()
		written.Wait()
	})
	return r
}

// postOf makes a POST of content by the way of that name.
func postOf(t testing.TB, name, url, content string) *http.Request {
	kind := bodyKinds[slices.IndexFunc(bodyKinds, func(k bodyKind) bool { return k.name == name })]
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, kind.open(t, content))
	require.NoError(t, err)
	req.ContentLength = -1
	if kind.length {
		req.ContentLength = int64(len(content))
	}
	return req
}

// A second body that is short or empty is what a server takes for another request.
func TestBodyIsTheSameOnEveryAttempt(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 40)[:628]
	for name, step := range map[string]wireStep{
		"503":                         answering(503, "busy"),
		"503 with Connection: close":  answering(503, "busy", "Connection: close"),
		"hang-up":                     hangUp,
		"reset when the request read": resetRead,
	} {
		for _, kind := range bodyKinds {
			t.Run(name+", "+kind.name, func(t *testing.T) {
				// The first request warms the connection.
				server := newWireServer(t, answering(200, "warm"), step, step, answering(201, ""))
				client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
				resp, err := client.Get(server.url)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				resp.Body.Close()

				resp, err = client.Do(postOf(t, kind.name, server.url, content))
				require.NoError(t, err)
				defer resp.Body.Close()
				assert.Equal(t, 201, resp.StatusCode)
				key := reportOf(t, resp, err).Key
				seen := server.seen()
				require.Len(t, seen, 4)
				for _, r := range seen[1:] {
					require.NoError(t, r.err)
					assert.Equal(t, key, r.key())
					assert.Equal(t, content, string(r.body))
					if kind.length {
						assert.EqualValues(t, 628, r.ContentLength)
						assert.Empty(t, r.TransferEncoding)
					} else {
						assert.EqualValues(t, -1, r.ContentLength)
						assert.Equal(t, []string{"chunked"}, r.TransferEncoding)
					}
				}
			})
		}
	}
}

// The file's own position may be the caller's to use.
func TestFilePositionIsNotMoved(t *testing.T) {
	file := fileAt(t, "content")
	before, err := file.Seek(0, io.SeekCurrent)
	require.NoError(t, err)
	base := script(says(503, http.NoBody), says(201, http.NoBody))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", io.NopCloser(nil))
	require.NoError(t, err)
	req.Body = openFile{file}
	_, err = saferetry.NewTransport(base, atOnce()...).RoundTrip(req)
	require.NoError(t, err)

	after, err := file.Seek(0, io.SeekCurrent)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// openFile is a file that a call leaves open.
type openFile struct{ *os.File }

func (openFile) Close() error { return nil }

// An upload of unknown length must not wait in memory for its end.
func TestFirstByteLeavesBeforeTheLastIsRead(t *testing.T) {
	arrived := make(chan string, 1)
	server := newWireServer(t, func(c *wireConn) bool {
		r := c.readHead()
		first := make([]byte, len("first"))
		_, _ = io.ReadFull(r.Body, first)
		arrived <- string(first)
		r.body, r.err = io.ReadAll(r.Body)
		c.record(r)
		return c.answer(201, "")
	})
	body, feed := io.Pipe()
	var fed sync.WaitGroup
	fed.Go(func() {
		_, _ = io.WriteString(feed, "first")
		assert.Equal(t, "first", <-arrived)
		_, _ = io.WriteString(feed, "last")
		feed.Close()
	})
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
	resp, err := client.Post(server.url, "", body)
	require.NoError(t, err)
	resp.Body.Close()
	fed.Wait()

	assert.Equal(t, "last", string(server.seen()[0].body))
}

// A plain reader is never sent a second time as an empty or short body.
func TestPlainReaderPastTheBufferIsSentOnce(t *testing.T) {
	content := strings.Repeat("x", 100)
	for _, c := range []struct {
		name     string
		length   int64
		buffer   int64
		attempts int
		reason   saferetry.StopReason
	}{
		{"longer than the buffer", -1, 99, 1, saferetry.NotReplayable},
		{"as long as the buffer", -1, 100, 4, saferetry.Exhausted},
		{"longer than the buffer, as it says itself", 100, 99, 1, saferetry.NotReplayable},
		{"as long as the buffer, as it says itself", 100, 100, 4, saferetry.Exhausted},
		{"no buffer", -1, 0, 1, saferetry.NotReplayable},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newWireServer(t, answering(503, "busy"))
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce(saferetry.WithBodyBuffer(c.buffer))...)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url, plain(content))
			require.NoError(t, err)
			req.ContentLength = c.length
			resp, err := client.Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			resp.Body.Close()
			report := reportOf(t, resp, err)

			assert.Equal(t, "busy", string(body))
			assert.Equal(t, c.attempts, report.Attempts)
			assert.Equal(t, c.reason, report.Reason)
			assert.Equal(t, saferetry.Unknown, report.Outcome)
			require.Len(t, server.seen(), c.attempts)
			for _, r := range server.seen() {
				assert.Equal(t, content, string(r.body))
			}
		})
	}
}

func TestLostConnectionWithABodyPastTheBufferIsNotReplayable(t *testing.T) {
	server := newWireServer(t, resetRead)
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce(saferetry.WithBodyBuffer(3))...)
	resp, err := client.Post(server.url, "", plain("more than that"))
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	assert.True(t, isReset(err), "%v", err)
	assert.Equal(t, 1, report.Attempts)
	assert.Equal(t, saferetry.NotReplayable, report.Reason)
	assert.Equal(t, saferetry.Unknown, report.Outcome)
}

var errOfBody = errors.New("disk on fire")

// failingAfter reads content, then fails.
func failingAfter(content string) io.Reader {
	return io.MultiReader(strings.NewReader(content), iotest.ErrReader(errOfBody))
}

func TestBodyReadErrorIsNotRetried(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"unknown length": func(req *http.Request) { req.ContentLength = -1 },
		"known length":   func(req *http.Request) { req.ContentLength = 628 },
		"GetBody": func(req *http.Request) {
			req.Body = io.NopCloser(bufio.NewReader(failingAfter("half")))
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("half")), nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newWireServer(t, answering(201, ""))
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, saferetry.WithClassifier(
				func(saferetry.Attempt) saferetry.Decision { return saferetry.Retry }))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url, failingAfter("half"))
			require.NoError(t, err)
			change(req)
			resp, err := client.Do(req)
			require.Nil(t, resp)
			report := reportOf(t, resp, err)

			assert.ErrorIs(t, err, errOfBody)
			assert.NotContains(t, err.Error(), "disk on fire") // whose text may hold anything
			assert.Equal(t, 1, report.Attempts)
			assert.Equal(t, saferetry.Permanent, report.Reason)
			assert.Equal(t, saferetry.Unknown, report.Outcome)
		})
	}
}

func TestGetBodyThatFailsIsNotReplayable(t *testing.T) {
	answer := newAnswer(strings.NewReader("busy"))
	var bodies counted
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", bodies.body(strings.NewReader("x")))
	require.NoError(t, err)
	req.GetBody = func() (io.ReadCloser, error) { return nil, errOfBody }
	resp, err := saferetry.NewTransport(script(says(503, answer)), atOnce()...).RoundTrip(req)
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	assert.ErrorIs(t, err, errOfBody)
	assert.ErrorContains(t, err, "GetBody failed")
	assert.NotContains(t, err.Error(), "disk on fire")
	assert.Equal(t, 1, report.Attempts)
	assert.Equal(t, saferetry.NotReplayable, report.Reason)
	assert.Equal(t, saferetry.Unknown, report.Outcome)
	assert.EqualValues(t, 1, answer.closed.Load())
	bodies.assertClosed(t)
}

func TestEmptyBodyIsNeverChunked(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "DELETE", "POST", "PUT", "PATCH"} {
		for name, body := range map[string]io.Reader{"nil": nil, "NoBody": http.NoBody, "empty reader": strings.NewReader("")} {
			t.Run(method+", "+name, func(t *testing.T) {
				server := newWireServer(t, answering(429, ""), answering(200, ""))
				client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
				req, err := http.NewRequestWithContext(t.Context(), method, server.url, body)
				require.NoError(t, err)
				resp, err := client.Do(req)
				require.NoError(t, err)
				resp.Body.Close()

				assert.Equal(t, 200, resp.StatusCode)
				require.Len(t, server.seen(), 2)
				for _, r := range server.seen() {
					assert.Empty(t, r.TransferEncoding)
					assert.Empty(t, r.body)
					if method[0] == 'P' { // POST, PUT and PATCH say so
						assert.Equal(t, "0", r.Header.Get("Content-Length"))
					}
				}
			})
		}
	}
}

// countedWrites is a connection that counts the writes to it.
type countedWrites struct {
	net.Conn
	made *atomic.Int32
}

func (c countedWrites) Write(p []byte) (int, error) {
	c.made.Add(1)
	return c.Conn.Write(p)
}

// net/http sends the header ahead of a body that it does not know, since that
// might take its time: twice the packets for every small POST.
func TestBodyFromMemoryLeavesInOnePacketWithItsHeader(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"bytes.Reader":   bytes.NewReader([]byte("charge")),
		"bytes.Buffer":   bytes.NewBufferString("charge"),
		"strings.Reader": strings.NewReader("charge"),
	} {
		t.Run(name, func(t *testing.T) {
			server := newWireServer(t, answering(503, "busy"), answering(201, ""))
			var writes atomic.Int32
			base := ownTransport(t)
			base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return countedWrites{conn, &writes}, err
			}
			resp, err := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...).Post(server.url, "", body)
			require.NoError(t, err)
			resp.Body.Close()

			assert.Equal(t, 2, reportOf(t, resp, err).Attempts)
			assert.EqualValues(t, 2, writes.Load())
			for _, r := range server.seen() {
				assert.Equal(t, "charge", string(r.body))
			}
		})
	}
}
