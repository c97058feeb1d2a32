package saferetry_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// gatedReader hands out its parts one by one; all but the first wait for the gate.
type gatedReader struct {
	parts   []string
	waiting chan struct{} // gets one for each Read at the gate
	gate    chan struct{}
	made    int
}

func (g *gatedReader) Read(p []byte) (int, error) {
	if g.made == len(g.parts) {
		return 0, io.EOF
	}
	if g.made++; g.made > 1 {
		g.waiting <- struct{}{}
		<-g.gate
	}
	return copy(p, g.parts[g.made-1]), nil
}

// The Read that net/http was in when the attempt was given up takes bytes that
// the next attempt needs.
func TestReadThatAGivenUpAttemptIsStillInLosesNothing(t *testing.T) {
	for name, buffer := range map[string]int64{"within the buffer": 1 << 20, "past the buffer": 8} {
		t.Run(name, func(t *testing.T) {
			body := &gatedReader{
				parts:   []string{"first ", "second ", "third"},
				waiting: make(chan struct{}, 2),
				gate:    make(chan struct{}),
			}
			first := func(c *wireConn) wireRequest {
				r := c.readHead()
				_, _ = io.ReadFull(r.Body, make([]byte, len("first ")))
				return r
			}
			server := newWireServer(t,
				func(c *wireConn) bool {
					first(c)
					<-body.waiting
					c.answer(503, "", "Connection: close")
					_, _ = io.Copy(io.Discard, c)
					return false
				},
				func(c *wireConn) bool {
					r := first(c)
					close(body.gate)
					r.body, r.err = io.ReadAll(r.Body)
					c.record(r)
					return c.answer(201, "")
				})
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce(saferetry.WithBodyBuffer(buffer))...)
			resp, err := client.Post(server.url, "", body)
			require.NoError(t, err)
			resp.Body.Close()

			assert.Equal(t, 201, resp.StatusCode)
			assert.Equal(t, 2, reportOf(t, resp, err).Attempts)
			require.Len(t, server.seen(), 1)
			assert.NoError(t, server.seen()[0].err)
			assert.Equal(t, "second third", string(server.seen()[0].body))
		})
	}
}

// The second attempt reads on where the first one stopped, and meets the error.
func TestBodyReadErrorOfALaterAttemptEndsTheOperation(t *testing.T) {
	firstBytes := func(c *wireConn) bool {
		r := c.readHead()
		_, _ = io.ReadFull(r.Body, make([]byte, 4))
		c.answer(503, "", "Connection: close")
		return false
	}
	body, feed := io.Pipe()
	server := newWireServer(t, firstBytes, func(c *wireConn) bool {
		_, _ = io.ReadFull(c.readHead().Body, make([]byte, 4))
		feed.CloseWithError(errOfBody)
		_, _ = io.Copy(io.Discard, c)
		return false
	})
	go io.WriteString(feed, "half")
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
	resp, err := client.Post(server.url, "", body)
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	assert.ErrorIs(t, err, errOfBody)
	assert.Equal(t, 2, report.Attempts)
	assert.Equal(t, saferetry.Permanent, report.Reason)
}

// An upload that goes on after an early answer may outgrow the buffer when the
// next attempt is already decided on.
func TestBodyThatOutgrowsTheBufferBeforeTheNextAttemptIsNotReplayable(t *testing.T) {
	body := &gatedReader{
		parts:   []string{"first ", "second ", "third"},
		waiting: make(chan struct{}, 2),
		gate:    make(chan struct{}),
	}
	answer := newAnswer(strings.NewReader("busy"))
	var sending sync.WaitGroup
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		sending.Go(func() { _, _ = io.Copy(io.Discard, req.Body) })
		<-body.waiting // the first part fits
		return says(503, answer)(req)
	})
	outgrow := saferetry.Hooks{Wait: func(saferetry.Attempt, time.Duration) {
		body.gate <- struct{}{}
		<-body.waiting // the second does not
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", body)
	require.NoError(t, err)
	resp, err := saferetry.NewTransport(base, atOnce(saferetry.WithBodyBuffer(8), saferetry.WithHooks(outgrow))...).RoundTrip(req)
	require.Nil(t, resp)
	report := reportOf(t, resp, err)
	close(body.gate)
	sending.Wait()

	assert.ErrorContains(t, err, "longer than WithBodyBuffer")
	assert.Equal(t, 1, report.Attempts)
	assert.Equal(t, saferetry.NotReplayable, report.Reason)
	assert.Equal(t, saferetry.Unknown, report.Outcome)
	assert.EqualValues(t, 1, answer.closed.Load())
}

// endingWhenClosed takes being closed for its end, as readers over a channel do.
type endingWhenClosed struct {
	io.Reader
	closed chan struct{}
	once   sync.Once
}

func (b *endingWhenClosed) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func (b *endingWhenClosed) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	<-b.closed
	return 0, io.EOF
}

// A base transport that is still sending would send that end: to the server, a
// whole request.
func TestBodyThatEndsWhenItIsClosedIsNotTakenForWhole(t *testing.T) {
	body := func() (io.ReadCloser, error) {
		return &endingWhenClosed{Reader: strings.NewReader("half"), closed: make(chan struct{})}, nil
	}
	sent := make(chan error)
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		begun := make(chan struct{})
		go func() {
			_, _ = io.ReadFull(req.Body, make([]byte, len("half")))
			close(begun)
			_, err := io.Copy(io.Discard, req.Body)
			sent <- err
		}()
		<-begun
		return says(503, http.NoBody)(req)
	})
	first, _ := body()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test/", first)
	require.NoError(t, err)
	req.GetBody = body
	resp, err := saferetry.NewTransport(base, atOnce(saferetry.WithMaxAttempts(2))...).RoundTrip(req)
	require.NoError(t, err)
	assert.Equal(t, 2, reportOf(t, resp, err).Attempts)
	assert.Error(t, <-sent, "half a body was taken for a whole one")
	resp.Body.Close()
	assert.Error(t, <-sent, "half a body was taken for a whole one")
}
