package saferetry_test

import (
	"bytes"
	"context"
	"fmt"
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

// counted are the bodies that one call was given or made.
type counted struct {
	mu     sync.Mutex
	bodies []*countedBody
}

func (c *counted) body(r io.Reader) *countedBody {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies = append(c.bodies, &countedBody{Reader: r})
	return c.bodies[len(c.bodies)-1]
}

// assertClosed checks that each body is closed, and then once. net/http may
// close one after it has answered.
func (c *counted) assertClosed(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, body := range c.bodies {
		eventually(t, fmt.Sprintf("body %d is closed", i+1), func() bool { return body.closed.Load() > 0 })
		assert.EqualValues(t, 1, body.closed.Load(), "body %d", i+1)
	}
}

// countedFile has positions to read at, as a file has.
type countedFile struct {
	*countedBody
	*bytes.Reader
}

func (f countedFile) Read(p []byte) (int, error) { return f.Reader.Read(p) }

// waysToEnd are ways for a keyed POST to end: what the server does, and what is
// special about the call.
var waysToEnd = []struct {
	name   string
	steps  []wireStep
	opts   func(cancel context.CancelFunc) []saferetry.Option
	change func(*http.Request)
	reason saferetry.StopReason
	sent   int
}{
	{name: "success", steps: []wireStep{answering(201, "{}")}, reason: saferetry.Answered, sent: 1},
	{name: "refusal", steps: []wireStep{answering(422, "{}")}, reason: saferetry.Answered, sent: 1},
	{name: "success in the end", steps: []wireStep{hangUp, answering(503, "busy"), answering(201, "{}")}, reason: saferetry.Answered, sent: 3},
	{name: "exhausted by answers", steps: []wireStep{answering(503, "busy")}, reason: saferetry.Exhausted, sent: 4},
	{name: "exhausted by errors", steps: []wireStep{resetRead}, reason: saferetry.Exhausted, sent: 4},
	{name: "Retry-After too long", steps: []wireStep{answering(503, "", "Retry-After: 1000")}, reason: saferetry.RetryAfterTooLong, sent: 1},
	{name: "deadline before the wait ends", steps: []wireStep{answering(503, "", "Retry-After: 50")}, reason: saferetry.Deadline, sent: 1},
	{
		name: "not repeatable", steps: []wireStep{answering(503, "busy")}, reason: saferetry.NotRepeatable, sent: 1,
		opts: func(context.CancelFunc) []saferetry.Option {
			return []saferetry.Option{saferetry.WithKeyedMethods()}
		},
	},
	{
		name: "permanent error", steps: []wireStep{answering(201, "")}, reason: saferetry.Permanent, sent: 0,
		change: func(req *http.Request) { req.Header.Set("X-Bad", "a\nb") },
	},
	{
		name: "key refused", steps: []wireStep{answering(201, "")}, reason: saferetry.Permanent, sent: 0,
		change: func(req *http.Request) { req.Header.Set(saferetry.KeyHeader, "not a key") },
	},
	{
		name: "cancelled in the wait", steps: []wireStep{answering(503, "busy")}, reason: saferetry.Canceled, sent: 1,
		opts: func(cancel context.CancelFunc) []saferetry.Option {
			return []saferetry.Option{saferetry.WithHooks(saferetry.Hooks{
				Wait: func(saferetry.Attempt, time.Duration) { cancel() },
			})}
		},
	},
	{
		name: "cancelled before the first attempt", steps: []wireStep{answering(201, "")}, reason: saferetry.Canceled, sent: 0,
		opts: func(cancel context.CancelFunc) []saferetry.Option {
			cancel()
			return nil
		},
	},
	{
		name: "cancelled after the answer", steps: []wireStep{answering(503, "busy")}, reason: saferetry.Canceled, sent: 1,
		opts: func(cancel context.CancelFunc) []saferetry.Option {
			return []saferetry.Option{saferetry.WithHooks(saferetry.Hooks{
				Attempt: func(saferetry.Attempt) { cancel() },
			})}
		},
	},
}

func TestEveryBodyIsClosedOnceHoweverTheOperationEnds(t *testing.T) {
	kinds := map[string]func(bodies *counted, req *http.Request){
		"GetBody": func(bodies *counted, req *http.Request) {
			req.Body = bodies.body(strings.NewReader("charge"))
			req.GetBody = func() (io.ReadCloser, error) { return bodies.body(strings.NewReader("charge")), nil }
			req.ContentLength = 6
		},
		"file": func(bodies *counted, req *http.Request) {
			req.Body = countedFile{bodies.body(nil), bytes.NewReader([]byte("charge"))}
		},
		"plain reader": func(bodies *counted, req *http.Request) { req.Body = bodies.body(plain("charge")) },
	}
	for _, way := range waysToEnd {
		for name, set := range kinds {
			t.Run(way.name+", "+name, func(t *testing.T) {
				server := newWireServer(t, way.steps...)
				ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
				defer cancel()
				opts := atOnce()
				if way.opts != nil {
					opts = append(opts, way.opts(cancel)...)
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.url, nil)
				require.NoError(t, err)
				if way.change != nil {
					way.change(req)
				}
				var bodies counted
				set(&bodies, req)
				resp, err := saferetry.NewTransport(ownTransport(t), opts...).RoundTrip(req)
				require.NotEqual(t, resp == nil, err == nil, "exactly one of response and error")
				assert.Equal(t, way.reason, reportOf(t, resp, err).Reason)
				assert.Len(t, server.seen(), way.sent)
				if resp != nil {
					resp.Body.Close()
				}
				bodies.assertClosed(t)
			})
		}
	}
}
