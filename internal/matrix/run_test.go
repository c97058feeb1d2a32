package matrix

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

const charge = `{"amount":2500,"currency":"usd","customer":"cus_9182"}`

// A course is what one operation did under a script, and what became of it.
type course struct {
	setting
	maxAttempts int
	server      *testserver.Server
	client      *saferetry.Transport
	body        requestBody

	// what the hooks said
	attempts int
	waits    []time.Duration
	done     []saferetry.Report

	// when RoundTrip had returned
	resp    *http.Response
	err     error
	report  saferetry.Report
	took    time.Duration
	effects int

	// when the answer was read, if it was, and closed
	content  string
	readErr  error
	final    saferetry.Report
	allTook  time.Duration
	requests int // that had arrived, NeverSaw's included

	problems []string
}

// run makes one operation under the script, in a bubble of its own.
func run(t *testing.T, s setting, script []testserver.Fault, maxAttempts int) (c *course) {
	c = &course{setting: s, maxAttempts: maxAttempts}
	defer func() {
		if r := recover(); r != nil { // synctest's: something of the bubble was left running
			c.wrong("%v", r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		c.begin(script)
		c.operate()
		c.checkReturn()
		c.settle()
		c.checkServer()
		c.askAgain()
		c.server.Close()
	})
	return c
}

func (c *course) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *course) begin(script []testserver.Fault) {
	server, err := testserver.Start(testserver.WithoutListener(), testserver.WithLatency(c.latency()),
		testserver.WithLease(lease))
	if err != nil {
		panic(err)
	}
	server.Script(script...)
	c.server = server
	c.client = saferetry.NewTransport(server.Transport(),
		saferetry.WithMaxAttempts(c.maxAttempts),
		saferetry.WithAttemptTimeout(attemptTimeout),
		saferetry.WithFullJitter(0, 0), // nothing random on top of a Retry-After
		saferetry.WithBackOff(func() backoff.BackOff { return backoff.NewConstantBackOff(c.wait()) }),
		saferetry.WithHooks(saferetry.Hooks{
			Attempt: func(saferetry.Attempt) { c.attempts++ },
			Wait:    func(_ saferetry.Attempt, d time.Duration) { c.waits = append(c.waits, d) },
			Done:    func(_ *http.Request, r saferetry.Report) { c.done = append(c.done, r) },
		}))
}

// operate makes the operation, as a caller would.
func (c *course) operate() {
	ctx := context.Background()
	if c.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.deadline)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.URL+"/v1/charges", &c.body)
	if err != nil {
		panic(err)
	}
	c.body.Reader = strings.NewReader(charge)
	req.ContentLength = int64(len(charge))
	if !c.overlapping { // one kind of body for each kind of attempts
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(charge)), nil }
	}
	start := time.Now()
	c.resp, c.err = c.client.RoundTrip(req)
	c.took = time.Since(start)
	report, ok := saferetry.ReportOf(c.resp, c.err)
	if !ok {
		c.wrong("no report")
	}
	c.report = report
	c.effects = len(c.server.Charges())
	if c.resp != nil {
		c.finishAnswer()
	}
	c.final, _ = saferetry.ReportOf(c.resp, c.err)
	c.allTook = time.Since(start)
	c.requests = len(c.server.Faults())
}

func (c *course) finishAnswer() {
	if c.reads {
		content, err := io.ReadAll(c.resp.Body)
		c.content, c.readErr = string(content), err
	}
	if err := c.resp.Body.Close(); err != nil {
		c.wrong("closing the answer: %v", err)
	}
}

// settle waits until the server has ended what it began, and every lease.
func (c *course) settle() { time.Sleep(time.Minute) }

// askAgain asks under the key of an operation of which more is to be known.
func (c *course) askAgain() {
	if c.final.Outcome == saferetry.Performed {
		return
	}
	req, err := http.NewRequest(http.MethodPost, c.server.URL+"/v1/charges", strings.NewReader(charge))
	if err != nil {
		panic(err)
	}
	req.Header.Set(saferetry.KeyHeader, c.final.Key)
	resp, err := c.server.Client().Do(req)
	if err != nil {
		c.wrong("asking again: %v", err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusCreated {
		c.wrong("asking again: %s, %v", resp.Status, err)
	}
	if n := len(c.server.Charges()); n != 1 {
		c.wrong("after asking again: %d effects, want 1", n)
	}
}

// requestBody counts how often it is closed.
type requestBody struct {
	io.Reader
	closed atomic.Int32
}

func (b *requestBody) Close() error {
	b.closed.Add(1)
	return nil
}
