package saferetry_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

const story = "the quick brown fox jumps over the lazy dog"

// cutShort answers with a body of which only the first n bytes come.
func cutShort(n int, header ...string) wireStep {
	return func(c *wireConn) bool {
		c.read()
		fmt.Fprintf(c, "HTTP/1.1 201 Created\r\nContent-Length: %d\r\n%s\r\n%s", len(story), lines(header), story[:n])
		return false
	}
}

func lines(header []string) (s string) {
	for _, line := range header {
		s += line + "\r\n"
	}
	return s
}

// postTo posts through a new client and returns the answer, whose body the test reads.
func postTo(t *testing.T, url string, opts ...saferetry.Option) *http.Response {
	t.Helper()
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce(opts...)...)
	resp, err := client.Post(url, "text/plain", strings.NewReader("body"))
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestBodyResumeGoesOnAfterTheBytesDelivered(t *testing.T) {
	chunks := func(c *wireConn, cut string) bool {
		c.read()
		fmt.Fprintf(c, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nthe quick\r\n%s", cut)
		return false
	}
	for name, breaks := range map[string]wireStep{
		"short Content-Length": cutShort(12),
		"nothing of the body":  cutShort(0),
		"reset": func(c *wireConn) bool {
			cutShort(12)(c)
			c.reset()
			return false
		},
		"broken chunk":       func(c *wireConn) bool { return chunks(c, "22\r\n brown") },
		"garbage for a size": func(c *wireConn) bool { return chunks(c, "zz\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newWireServer(t, breaks, answering(201, story, "Idempotent-Replayed: true"))
			resp := postTo(t, s.url)

			body, err := io.ReadAll(resp.Body)

			require.NoError(t, err)
			require.Equal(t, story, string(body))
			requests := s.seen()
			require.Len(t, requests, 2)
			require.Equal(t, requests[0].key(), requests[1].key())
			require.Equal(t, "body", string(requests[1].body))
			report := reportOf(t, resp, nil)
			require.Equal(t, 2, report.Attempts, "a resume's attempts count")
			require.Equal(t, saferetry.Performed, report.Outcome)
			require.Equal(t, saferetry.Answered, report.Reason)
			require.Len(t, report.Failed, 1)
			require.Error(t, report.Failed[0].Err)
		})
	}
}

func TestBodyResumeGoesOnMoreThanOnce(t *testing.T) {
	s := newWireServer(t, cutShort(5), answering(503, ""), cutShort(3), answering(201, story))
	resp := postTo(t, s.url)

	body, err := io.ReadAll(resp.Body)

	require.NoError(t, err)
	require.Equal(t, story, string(body))
	require.Equal(t, 4, reportOf(t, resp, nil).Attempts)
}

func TestBodyResumeOfAGzippedAnswer(t *testing.T) {
	var attempts atomic.Int32
	text := randomText(64 << 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		out := io.Writer(w)
		if attempts.Add(1) == 1 {
			out = &limitedWriter{w, 20 << 10}
		}
		compress := gzip.NewWriter(out)
		io.WriteString(compress, text)
		if compress.Close() != nil {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	resp := postTo(t, server.URL)

	body, err := io.ReadAll(resp.Body)

	require.NoError(t, err)
	require.True(t, resp.Uncompressed)
	require.True(t, text == string(body), "the text differs")
	require.EqualValues(t, 2, attempts.Load())
}

func randomText(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", random.Uint64())
	}
	return b.String()
}

type limitedWriter struct {
	io.Writer
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		n, _ := w.Writer.Write(p[:w.left])
		return n, io.ErrShortWrite
	}
	w.left -= len(p)
	return w.Writer.Write(p)
}

func TestBodyResumeAfterAnHTTP2StreamReset(t *testing.T) {
	var attempts atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, story[:9])
		if attempts.Add(1) == 1 {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, story[9:])
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	resp, err := saferetry.NewClient(server.Client(), atOnce()...).Post(server.URL, "", strings.NewReader("x"))
	require.NoError(t, err)
	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)

	require.NoError(t, err)
	require.Equal(t, 2, resp.ProtoMajor)
	require.Equal(t, story, string(body))
	require.EqualValues(t, 2, attempts.Load())
}

func TestBodyResumeLeavesTheErrorWhereTheAnswerIsAnother(t *testing.T) {
	for name, second := range map[string]wireStep{
		"its first bytes differ":       answering(201, "THE"+story[3:], "Idempotent-Replayed: true"),
		"it is shorter":                answering(201, story[:7], "Idempotent-Replayed: true"),
		"its status differs":           answering(200, story),
		"the key is no longer honored": answering(422, story),
	} {
		t.Run(name, func(t *testing.T) {
			s := newWireServer(t, cutShort(12), second)
			resp := postTo(t, s.url)

			body, err := io.ReadAll(resp.Body)

			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Equal(t, story[:12], string(body))
			_, err = resp.Body.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "and again")
			require.Len(t, s.seen(), 2)
			report := reportOf(t, resp, nil)
			require.Equal(t, 2, report.Attempts)
			require.Equal(t, saferetry.Performed, report.Outcome, "the first answer said so")
		})
	}
}

func TestBodyResumeTakesAReplayWithAnotherStatus(t *testing.T) {
	s := newWireServer(t, cutShort(12), answering(200, story, "Idempotent-Replayed: true"))
	body, err := io.ReadAll(postTo(t, s.url).Body)
	require.NoError(t, err)
	require.Equal(t, story, string(body))
}

func TestBodyResumeEndsWithTheAttempts(t *testing.T) {
	s := newWireServer(t, cutShort(5))
	resp := postTo(t, s.url, saferetry.WithMaxAttempts(3))

	body, err := io.ReadAll(resp.Body)

	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, story[:5], string(body))
	require.Len(t, s.seen(), 3)
	require.Equal(t, saferetry.Exhausted, reportOf(t, resp, nil).Reason)
}

func TestBodyResumeIsNotTriedWhereItCannotBeSafe(t *testing.T) {
	for name, resp := range map[string]func(url string) (*http.Response, error){
		"no key": func(url string) (*http.Response, error) { return saferetry.NewClient(nil).Get(url) },
		"switched off": func(url string) (*http.Response, error) {
			return saferetry.NewClient(nil, saferetry.WithBodyResume(false)).Post(url, "", nil)
		},
		"a body that cannot be sent again": func(url string) (*http.Response, error) {
			body := struct{ io.Reader }{strings.NewReader("long")}
			return saferetry.NewClient(nil, saferetry.WithBodyBuffer(2)).Post(url, "", body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWireServer(t, cutShort(5))
			resp, err := resp(s.url)
			require.NoError(t, err)
			defer resp.Body.Close()

			_, err = io.ReadAll(resp.Body)

			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Len(t, s.seen(), 1)
		})
	}
}

func TestBodyResumeReachesHooksAndCostsTheBudget(t *testing.T) {
	s := newWireServer(t, cutShort(5))
	var attempts, waits []int
	doneAt := 0
	resp := postTo(t, s.url, saferetry.WithBudget(saferetry.NewBudget(0, 2)), saferetry.WithHooks(saferetry.Hooks{
		Attempt: func(a saferetry.Attempt) { attempts = append(attempts, a.Number) },
		Wait:    func(a saferetry.Attempt, _ time.Duration) { waits = append(waits, a.Number) },
		Done:    func(*http.Request, saferetry.Report) { doneAt = len(attempts) },
	}))

	_, err := io.ReadAll(resp.Body)

	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, []int{1, 2, 3}, attempts)
	require.Equal(t, []int{1, 2}, waits)
	require.Equal(t, 1, doneAt, "Done has run by then")
	require.Equal(t, saferetry.BudgetSpent, reportOf(t, resp, nil).Reason)
}

// inBubble posts through a client in a synctest bubble, to a base transport of
// which the first answer breaks off after five bytes.
func inBubble(ctx context.Context, next func(*http.Request) (*http.Response, error), opts ...saferetry.Option) (*http.Response, error) {
	n := 0
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		if n++; n > 1 {
			return next(req)
		}
		body := io.MultiReader(strings.NewReader(story[:5]), brokenReader{syscall.ECONNRESET})
		return &http.Response{StatusCode: 201, ContentLength: -1, Body: io.NopCloser(body)}, nil
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/", nil)
	if err != nil {
		return nil, err
	}
	return saferetry.NewClient(&http.Client{Transport: base}, opts...).Do(req)
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

func TestBodyResumeWaitsAsOtherRetriesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		n := 0
		resp, err := inBubble(t.Context(), func(*http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return &http.Response{StatusCode: 409, Header: http.Header{"Retry-After": {"7"}}, Body: http.NoBody}, nil
			}
			return &http.Response{StatusCode: 201, Body: io.NopCloser(strings.NewReader(story))}, nil
		}, atOnce()...)
		require.NoError(t, err)

		body, err := io.ReadAll(resp.Body)

		require.NoError(t, err)
		require.Equal(t, story, string(body))
		require.Equal(t, 7*time.Second, time.Since(start))
		require.Equal(t, 7*time.Second, reportOf(t, resp, nil).Waited)
		require.NoError(t, resp.Body.Close())
	})
}

func TestBodyResumeDoesNotWaitPastTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		resp, err := inBubble(ctx, nil, saferetry.WithBackOff(constantly(2*time.Second)))
		require.NoError(t, err)

		_, err = io.ReadAll(resp.Body)

		require.ErrorIs(t, err, syscall.ECONNRESET, "the original error stands")
		require.Zero(t, time.Since(start))
		require.Equal(t, saferetry.Deadline, reportOf(t, resp, nil).Reason)
		require.NoError(t, resp.Body.Close())
	})
}

func TestCloseEndsABodyResume(t *testing.T) {
	for name, opts := range map[string][]saferetry.Option{
		"in the wait":    {saferetry.WithBackOff(constantly(time.Hour))},
		"in the attempt": atOnce(saferetry.WithAttemptTimeout(0)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resp, err := inBubble(t.Context(), func(req *http.Request) (*http.Response, error) {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}, opts...)
				require.NoError(t, err)
				read := make(chan error)
				go func() {
					_, err := io.ReadAll(resp.Body)
					read <- err
				}()
				synctest.Wait()

				require.NoError(t, resp.Body.Close())

				require.ErrorIs(t, <-read, syscall.ECONNRESET)
			})
		})
	}
}

func TestCloseWhileABodyResumeSucceedsClosesTheNewAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		second := &countedBody{Reader: strings.NewReader(story)}
		resp, err := inBubble(t.Context(), func(*http.Request) (*http.Response, error) {
			<-release
			return &http.Response{StatusCode: 201, Body: second}, nil
		}, atOnce()...)
		require.NoError(t, err)
		read := make(chan error)
		go func() {
			_, err := io.ReadAll(resp.Body)
			read <- err
		}()
		synctest.Wait()

		require.NoError(t, resp.Body.Close())
		close(release)

		require.ErrorIs(t, <-read, syscall.ECONNRESET)
		require.EqualValues(t, 1, second.closed.Load())
	})
}

func TestBodyResumeDoesNotDelayAStream(t *testing.T) {
	events := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for event := range events {
			fmt.Fprintf(w, "data: %s\n\n", event)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(server.Close)
	go func() { events <- "first" }()
	resp := postTo(t, server.URL)

	first := make([]byte, len("data: first\n\n"))
	_, err := io.ReadFull(resp.Body, first)
	require.NoError(t, err)
	require.Equal(t, "data: first\n\n", string(first), "before the second is sent")
	close(events)
	_, err = resp.Body.Read(first)
	require.Equal(t, io.EOF, err)
}

func TestBodyResumeClosesTheRequestBodyOnceInTheEnd(t *testing.T) {
	for name, last := range map[string]wireStep{"resumed": answering(201, story), "broken": cutShort(3)} {
		t.Run(name, func(t *testing.T) {
			s := newWireServer(t, cutShort(5), last)
			body := &countedBody{Reader: strings.NewReader("once")}
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
			resp, err := client.Post(s.url, "", body)
			require.NoError(t, err)
			require.EqualValues(t, 0, body.closed.Load(), "another attempt may need it")

			_, err = io.Copy(io.Discard, resp.Body)

			require.Equal(t, name == "broken", errors.Is(err, io.ErrUnexpectedEOF))
			require.NoError(t, resp.Body.Close())
			require.Eventually(t, func() bool { return body.closed.Load() == 1 }, 5*time.Second, time.Millisecond)
			for _, r := range s.seen() {
				require.Equal(t, "once", string(r.body))
			}
		})
	}
}
