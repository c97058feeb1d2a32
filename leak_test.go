package saferetry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// assertClosed checks that each body was closed, once.
func (c *counted) assertClosed(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, body := range c.bodies {
		assert.EqualValues(t, 1, body.closed.Load(), "body %d", i+1)
	}
}

// countedFile has positions to read at, as a file has.
type countedFile struct {
	*countedBody
	*bytes.Reader
}

func (f countedFile) Read(p []byte) (int, error) { return f.Reader.Read(p) }

// bodiesToCount give a request a body whose closing is counted.
var bodiesToCount = map[string]func(bodies *counted, req *http.Request){
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

// wayToEnd is a way for a keyed POST to end: what the server does, and what is
// special about the call.
type wayToEnd struct {
	name   string
	steps  []wireStep
	opts   []saferetry.Option
	within time.Duration                       // the context's deadline; 0: none
	cancel func(context.CancelFunc) cancelWhen // nil: never
	change func(*http.Request)                 // nil: nothing
	only   string                              // this kind of body; "": any
	reason saferetry.StopReason
	sent   int
}

// cancelWhen are hooks that cancel the call.
type cancelWhen = saferetry.Hooks

func atTheStart(cancel context.CancelFunc) cancelWhen {
	cancel()
	return cancelWhen{}
}

func inASecond(cancel context.CancelFunc) cancelWhen {
	time.AfterFunc(time.Second, cancel)
	return cancelWhen{}
}

func afterTheAttempt(cancel context.CancelFunc) cancelWhen {
	return cancelWhen{Attempt: func(saferetry.Attempt) { cancel() }}
}

func beforeTheWait(cancel context.CancelFunc) cancelWhen {
	return cancelWhen{Wait: func(saferetry.Attempt, time.Duration) { cancel() }}
}

func setHeader(name, value string) func(*http.Request) {
	return func(req *http.Request) { req.Header.Set(name, value) }
}

func breakGetBody(req *http.Request) {
	req.GetBody = func() (io.ReadCloser, error) { return nil, errOfBody }
}

func breakBody(req *http.Request) { req.Body.(*countedBody).Reader = failingAfter("half") }

var waysToEnd = []wayToEnd{
	{name: "success", steps: []wireStep{answering(201, "{}")}, reason: saferetry.Answered, sent: 1},
	{name: "success without a body", steps: []wireStep{answering(201, "")}, reason: saferetry.Answered, sent: 1},
	{name: "success in the end", steps: []wireStep{hangUp, answering(503, "busy"), answering(201, "{}")}, reason: saferetry.Answered, sent: 3},
	{name: "refusal", steps: []wireStep{answering(422, "{}")}, reason: saferetry.Answered, sent: 1},
	{name: "short answers", steps: []wireStep{answering(503, "busy")}, reason: saferetry.Exhausted, sent: 4},
	{name: "long answers", steps: []wireStep{answering(503, strings.Repeat("x", drainLimit+1))}, reason: saferetry.Exhausted, sent: 4},
	{name: "answers that stall", steps: []wireStep{stalling}, reason: saferetry.Exhausted, sent: 4},
	{name: "errors", steps: []wireStep{resetRead}, reason: saferetry.Exhausted, sent: 4},
	{name: "timeouts", steps: []wireStep{hanging}, reason: saferetry.Exhausted, sent: 4},
	{name: "Retry-After too long", steps: []wireStep{answering(503, "", "Retry-After: 1000")}, reason: saferetry.RetryAfterTooLong, sent: 1},
	{name: "not repeatable", steps: []wireStep{answering(503, "busy")}, opts: []saferetry.Option{saferetry.WithKeyedMethods()}, reason: saferetry.NotRepeatable, sent: 1},
	{name: "not replayable", steps: []wireStep{answering(503, "busy")}, opts: []saferetry.Option{saferetry.WithBodyBuffer(1)}, only: "plain reader", reason: saferetry.NotReplayable, sent: 1},
	{name: "GetBody fails", steps: []wireStep{answering(503, "busy")}, change: breakGetBody, only: "GetBody", reason: saferetry.NotReplayable, sent: 1},
	{name: "body fails", steps: []wireStep{hanging}, change: breakBody, only: "plain reader", reason: saferetry.Permanent, sent: 1},
	{name: "header refused", steps: []wireStep{hanging}, change: setHeader("X-Bad", "a\nb"), reason: saferetry.Permanent},
	{name: "key refused", steps: []wireStep{hanging}, change: setHeader(saferetry.KeyHeader, "not a key"), reason: saferetry.Permanent},
	{name: "deadline before the start", steps: []wireStep{hanging}, within: -1, reason: saferetry.Deadline},
	{name: "deadline in an attempt", steps: []wireStep{hanging}, within: time.Second, reason: saferetry.Deadline, sent: 1},
	{name: "deadline nearer than the wait", steps: []wireStep{answering(503, "", "Retry-After: 50")}, within: 40 * time.Second, reason: saferetry.Deadline, sent: 1},
	{name: "cancelled before the start", steps: []wireStep{hanging}, cancel: atTheStart, reason: saferetry.Canceled},
	{name: "cancelled in an attempt", steps: []wireStep{hanging}, cancel: inASecond, reason: saferetry.Canceled, sent: 1},
	{name: "cancelled after an attempt", steps: []wireStep{answering(503, "busy")}, cancel: afterTheAttempt, reason: saferetry.Canceled, sent: 1},
	{name: "cancelled before the wait", steps: []wireStep{answering(503, "busy")}, cancel: beforeTheWait, reason: saferetry.Canceled, sent: 1},
	{name: "cancelled in the wait", steps: []wireStep{answering(503, "busy", "Retry-After: 50")}, cancel: inASecond, reason: saferetry.Canceled, sent: 1},
}

// endedCall is a call that has ended, and what it used.
type endedCall struct {
	req      *http.Request
	before   snapshot // of req
	resp     *http.Response
	err      error
	bodies   counted
	answers  []*countedAnswer
	contexts []context.Context // of the attempts
}

// watch keeps hold of what the attempts get and are given.
func (c *endedCall) watch(base http.RoundTripper) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		c.contexts = append(c.contexts, req.Context())
		resp, err := base.RoundTrip(req)
		if err == nil && resp.Body != http.NoBody {
			answer := newAnswer(resp.Body)
			answer.closer = resp.Body
			resp.Body = answer
			c.answers = append(c.answers, answer)
		}
		return resp, err
	})
}

// end makes a call that ends in this way, in the bubble that it runs in.
func (way *wayToEnd) end(t *testing.T, setBody func(*counted, *http.Request)) *endedCall {
	server, base := newBubbleServer(t, way.steps...)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	if way.within != 0 {
		ctx, cancel = context.WithTimeout(ctx, way.within)
		t.Cleanup(cancel)
	}
	opts := atOnce(way.opts...)
	if way.cancel != nil {
		opts = append(opts, saferetry.WithHooks(way.cancel(cancel)))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.url, nil)
	require.NoError(t, err)
	call := &endedCall{req: req}
	setBody(&call.bodies, req)
	if way.change != nil {
		way.change(req)
	}
	call.before = snapshotOf(req)
	call.resp, call.err = saferetry.NewTransport(call.watch(base), opts...).RoundTrip(req)
	require.NotEqual(t, call.resp == nil, call.err == nil, "want exactly one of response and error")
	assert.Equal(t, way.reason, reportOf(t, call.resp, call.err).Reason)
	synctest.Wait()
	assert.Len(t, server.seen(), way.sent)
	return call
}

// inEveryWay runs test in a bubble for every way to end and every kind of body.
// A goroutine left behind makes the bubble fail.
func inEveryWay(t *testing.T, test func(*testing.T, *endedCall)) {
	for _, way := range waysToEnd {
		for kind, setBody := range bodiesToCount {
			if way.only != "" && way.only != kind {
				continue
			}
			t.Run(way.name+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, way.end(t, setBody)) })
			})
		}
	}
}

func TestNothingIsLeftBehindOnceTheAnswerIsClosed(t *testing.T) {
	inEveryWay(t, func(t *testing.T, call *endedCall) {
		if call.resp != nil {
			if last := call.returned(); last != nil {
				assert.Zero(t, last.read.Load())
				assert.Zero(t, last.closed.Load())
			}
			require.NoError(t, call.resp.Body.Close())
		}
		synctest.Wait()
		call.assertEnded(t)
	})
}

func TestNothingIsLeftBehindOnceTheAnswerIsRead(t *testing.T) {
	inEveryWay(t, func(t *testing.T, call *endedCall) {
		if call.resp != nil {
			_, _ = io.Copy(io.Discard, call.resp.Body) // to its end, or where it breaks off
			defer call.resp.Body.Close()
			if call.returned() != nil { // the caller's to close
				call.answers = call.answers[:len(call.answers)-1]
			}
		}
		synctest.Wait()
		call.assertEnded(t)
	})
}

// returned is the body of the answer that the call returned; nil: it has none.
func (c *endedCall) returned() *countedAnswer {
	if c.resp.ContentLength == 0 {
		return nil
	}
	return c.answers[len(c.answers)-1]
}

func (c *endedCall) assertEnded(t *testing.T) {
	c.bodies.assertClosed(t)
	for i, answer := range c.answers {
		assert.EqualValues(t, 1, answer.closed.Load(), "answer %d", i+1)
	}
	for i, ctx := range c.contexts {
		assert.Error(t, ctx.Err(), "the context of attempt %d", i+1)
	}
}
