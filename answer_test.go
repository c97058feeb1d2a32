package saferetry_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

const drainLimit = 64 << 10

// countedAnswer is the body of an answer that counts what is read of it.
type countedAnswer struct {
	countedBody
	read  atomic.Int64
	ended atomic.Bool // read to its end
}

func newAnswer(r io.Reader) *countedAnswer {
	a := new(countedAnswer)
	a.Reader = r
	return a
}

func (a *countedAnswer) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	a.read.Add(int64(n))
	a.ended.Store(err == io.EOF)
	return n, err
}

// zeros is a reader without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// script is a base transport that answers the n-th request with the n-th
// function, and every further one with the last.
func scriptedBase(answers ...func(*http.Request) (*http.Response, error)) http.RoundTripper {
	var made atomic.Int32
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			req.Body.Close()
		}
		return answers[min(int(made.Add(1)), len(answers))-1](req)
	})
}

// says answers status with a body of unknown length.
func says(status int, body io.ReadCloser) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, ContentLength: -1}, nil
	}
}

func TestDiscardedAnswerIsDrainedUpTo64KiB(t *testing.T) {
	for _, c := range []struct {
		name   string
		body   io.Reader
		length int64
		read   int64
		ended  bool
	}{
		{"without end", zeros{}, -1, drainLimit, false},
		{"longer, as it says itself", zeros{}, drainLimit + 1, 0, false},
		{"as long as that, though it does not say so", io.LimitReader(zeros{}, drainLimit), -1, drainLimit, true},
		{"short", strings.NewReader("busy"), 4, 4, true},
		{"broken off", io.MultiReader(strings.NewReader("bu"), iotest.ErrReader(io.ErrUnexpectedEOF)), 4, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			discarded := newAnswer(c.body)
			client := saferetry.NewClient(&http.Client{Transport: scriptedBase(
				func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 503, Body: discarded, ContentLength: c.length}, nil
				},
				says(200, http.NoBody),
			)}, atOnce()...)
			resp, err := client.Get("http://a.test/")
			require.NoError(t, err)
			resp.Body.Close()

			assert.Equal(t, 2, reportOf(t, resp, err).Attempts)
			assert.Equal(t, c.read, discarded.read.Load())
			assert.Equal(t, c.ended, discarded.ended.Load())
			assert.EqualValues(t, 1, discarded.closed.Load())
		})
	}
}

// A drip would hold up the next attempt.
func TestDiscardedAnswerThatDripsIsDroppedAfter250ms(t *testing.T) {
	for name, drip := range map[string]func(w http.ResponseWriter, r *http.Request){
		"a byte a second": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ".")
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		},
		"ten bytes of 64 KiB": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "ten bytes.")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int32
				base := bubbleTransport(t, func(w http.ResponseWriter, r *http.Request) {
					if requests.Add(1) == 1 {
						w.Header().Set("Content-Length", strconv.Itoa(drainLimit))
						w.WriteHeader(503)
						drip(w, r)
					}
				})
				client := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...)
				start := time.Now()
				resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
				require.NoError(t, err)
				resp.Body.Close()

				assert.Equal(t, 250*time.Millisecond, time.Since(start))
				assert.Equal(t, 200, resp.StatusCode)
				assert.Equal(t, 2, reportOf(t, resp, err).Attempts)
			})
		})
	}
}

// inTroubleUntil answers like a server in trouble until the n-th request.
func inTroubleUntil(n int32, body string, chunked bool) http.HandlerFunc {
	var requests atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == n {
			w.WriteHeader(201)
			return
		}
		w.WriteHeader(503)
		if chunked {
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, body)
	}
}

func TestAttemptsShareOneConnectionWhereTheAnswerCanBeDrained(t *testing.T) {
	for _, c := range []struct {
		name    string
		size    int
		chunked bool
		dials   int32
	}{
		{"1 KB", 1000, false, 1},
		{"1 KB, chunked", 1000, true, 1},
		{"64 KiB", drainLimit, false, 1},
		{"64 KiB, chunked", drainLimit, true, 1},
		{"100 KB", 100_000, false, 4},
		{"100 KB, chunked", 100_000, true, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := strings.Repeat("x", c.size)
			server := httptest.NewUnstartedServer(inTroubleUntil(4, body, c.chunked))
			var dials atomic.Int32
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					dials.Add(1)
				}
			}
			server.Start()
			t.Cleanup(server.Close)
			base := ownTransport(t)
			base.MaxConnsPerHost = 1 // an answer that is kept open blocks the next attempt for good
			client := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...)
			resp, err := client.Post(server.URL, "", strings.NewReader("charge"))
			require.NoError(t, err)
			resp.Body.Close()

			assert.Equal(t, 201, resp.StatusCode)
			assert.Equal(t, 4, reportOf(t, resp, err).Attempts)
			assert.Equal(t, c.dials, dials.Load())
		})
	}
}

// HTTP/2 lets go of an answer only when the request's body does, so closing it
// could take as long as that one's next byte.
func TestDiscardedAnswerDoesNotWaitForABlockedUpload(t *testing.T) {
	for _, size := range []int{10, drainLimit + 1} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				w.Header().Set("Content-Length", strconv.Itoa(size))
				w.WriteHeader(503)
				_, _ = w.Write(make([]byte, size))
			}))
			server.EnableHTTP2 = true
			server.StartTLS()
			t.Cleanup(server.Close)
			pipe, end := io.Pipe()
			t.Cleanup(func() { end.Close() })
			client := saferetry.NewClient(server.Client(), atOnce()...)
			resp, err := client.Post(server.URL, "", pipe) // never gets a byte
			require.NoError(t, err)
			defer resp.Body.Close()

			assert.Equal(t, 503, resp.StatusCode)
			assert.Equal(t, saferetry.Exhausted, reportOf(t, resp, err).Reason)
			assert.EqualValues(t, 4, requests.Load())
		})
	}
}

func TestReturnedAnswerIsUnread(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		reason saferetry.StopReason
	}{
		"success":   {200, saferetry.Answered},
		"refusal":   {422, saferetry.Answered},
		"exhausted": {503, saferetry.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newAnswer(strings.NewReader("whole"))
			client := saferetry.NewClient(&http.Client{Transport: scriptedBase(says(c.status, answer))}, saferetry.WithMaxAttempts(1))
			resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
			require.NoError(t, err)
			assert.Equal(t, c.reason, reportOf(t, resp, err).Reason)
			assert.Zero(t, answer.read.Load())
			assert.Zero(t, answer.closed.Load())

			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "whole", string(body))
			require.NoError(t, resp.Body.Close())
			assert.EqualValues(t, 1, answer.closed.Load())
		})
	}
}

func TestUpgradePassesStraightThrough(t *testing.T) {
	server := newWireServer(t, func(c *wireConn) bool {
		r := c.read()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
		_, _ = io.Copy(c, c.in)
		return false
	})
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, saferetry.WithAttemptTimeout(time.Nanosecond))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url, nil)
	require.NoError(t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()

	require.Equal(t, 101, resp.StatusCode)
	conn, ok := resp.Body.(io.ReadWriter)
	require.True(t, ok, "%T", resp.Body)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello\n", line)
	assert.Empty(t, server.seen()[0].key())
	_, ok = saferetry.ReportOf(resp, err)
	assert.False(t, ok)
}

func TestConnectPassesStraightThrough(t *testing.T) {
	refusal := newAnswer(strings.NewReader(""))
	base := scriptedBase(says(503, refusal))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, "http://a.test:443", nil)
	require.NoError(t, err)
	resp, err := saferetry.NewTransport(base, atOnce()...).RoundTrip(req)
	require.NoError(t, err)

	assert.Equal(t, 503, resp.StatusCode)
	assert.Same(t, refusal, resp.Body)
	_, ok := saferetry.ReportOf(resp, err)
	assert.False(t, ok)
}

// Mocks leave out the body, which net/http never does.
func TestAnswerOfAMockWithoutABody(t *testing.T) {
	client := saferetry.NewClient(&http.Client{Transport: scriptedBase(says(503, nil), says(201, nil))}, atOnce()...)
	resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
	require.NoError(t, err)
	require.NotNil(t, resp.Body)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Empty(t, body)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 2, reportOf(t, resp, nil).Attempts)
}

// A base transport that breaks its contract must not make ours break ours.
func TestBaseTransportThatReturnsNeitherOrBoth(t *testing.T) {
	lost := io.ErrUnexpectedEOF
	answer := newAnswer(strings.NewReader("x"))
	for name, c := range map[string]struct {
		resp *http.Response
		err  error
		is   error
	}{
		"neither": {nil, nil, nil},
		"both":    {&http.Response{StatusCode: 200, Body: answer}, lost, lost},
	} {
		t.Run(name, func(t *testing.T) {
			base := scriptedBase(func(*http.Request) (*http.Response, error) { return c.resp, c.err })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", nil)
			require.NoError(t, err)
			resp, err := saferetry.NewTransport(base, saferetry.WithMaxAttempts(1)).RoundTrip(req)
			require.Nil(t, resp)
			assert.Equal(t, saferetry.Unknown, reportOf(t, resp, err).Outcome)
			if c.is != nil {
				assert.ErrorIs(t, err, c.is)
				assert.EqualValues(t, 1, answer.closed.Load())
			}
		})
	}
}
