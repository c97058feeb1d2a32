package matrix

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

// checkReturn holds what the caller got against the contract.
func (c *course) checkReturn() {
	var e *saferetry.Error
	if (c.resp == nil) == (c.err == nil) || c.err != nil && !errors.As(c.err, &e) {
		c.wrong("response %v and error %v: want one of them, an error being an *Error", c.resp, c.err)
	}
	if c.report.Outcome == saferetry.Performed && c.effects != 1 {
		c.wrong("performed, with %d effects at the time", c.effects)
	}
	if c.deadline > 0 && c.allTook > c.deadline {
		c.wrong("took %v, past the deadline", c.allTook)
	}
	if len(c.done) != 1 || !reflect.DeepEqual(c.done[0], c.report) {
		c.wrong("Hooks.Done had %+v, the caller %+v", c.done, c.report)
	}
	c.checkReport(c.final)
	c.checkContent()
}

func (c *course) checkReport(r saferetry.Report) {
	if r.Key == "" || r.Key != c.report.Key {
		c.wrong("the key is %q, at first %q", r.Key, c.report.Key)
	}
	if r.Attempts != c.attempts || r.Attempts != c.requests || r.Attempts > c.maxAttempts {
		c.wrong("%d attempts in the report, %d told to the hook, %d requests; at most %d allowed", r.Attempts, c.attempts, c.requests, c.maxAttempts)
	}
	if (r.Reason == saferetry.Exhausted) && r.Attempts != c.maxAttempts || r.Reason == saferetry.Deadline && c.deadline == 0 {
		c.wrong("%d attempts, deadline %v, and the reason is %v", r.Attempts, c.deadline, r.Reason)
	}
	switch r.Reason {
	case saferetry.Answered, saferetry.Exhausted, saferetry.Deadline:
	default:
		c.wrong("reason %v", r.Reason)
	}
	var waited time.Duration
	for _, d := range c.waits {
		waited += d
	}
	if r.Waited != waited {
		c.wrong("waited %v in the report, %v told to the hook", r.Waited, waited)
	}
}

// checkContent checks what was read of an answer that says performed.
func (c *course) checkContent() {
	if !c.reads || c.resp == nil || c.report.Outcome != saferetry.Performed {
		return
	}
	const whole = `{"id":"ch_1","amount":2500,"currency":"usd","customer":"cus_9182","retries":0}` + "\n"
	switch {
	case c.resp.StatusCode != http.StatusCreated:
		c.wrong("performed, status %d", c.resp.StatusCode)
	case c.readErr == nil && c.content != whole:
		c.wrong("the answer is %q", c.content)
	case c.readErr != nil && !strings.HasPrefix(whole, c.content):
		c.wrong("the answer began %q, before %v", c.content, c.readErr)
	case c.readErr != nil && c.final.Attempts < c.maxAttempts && c.final.Reason == saferetry.Answered && c.lastFault() != testserver.Answer(400):
		c.wrong("the answer broke off and was not resumed: %v", c.readErr)
	}
}

func (c *course) lastFault() testserver.Fault {
	faults := c.server.Faults()
	return faults[len(faults)-1]
}

// checkServer holds what the server saw, once all is settled, against the
// report.
func (c *course) checkServer() {
	effects := len(c.server.Charges())
	switch {
	case effects > 1, effects != c.server.Executions(c.final.Key):
		c.wrong("%d effects, %d under the key", effects, c.server.Executions(c.final.Key))
	case c.final.Outcome == saferetry.Performed && effects != 1:
		c.wrong("performed, with %d effects", effects)
	case c.final.Outcome == saferetry.NotSent && effects+len(c.server.Requests()) > 0:
		c.wrong("not sent, with %d effects and %d requests", effects, len(c.server.Requests()))
	case c.final.Outcome == saferetry.Refused && effects != 0:
		c.wrong("refused, with %d effects", effects)
	}
	for i, r := range c.server.Requests() {
		if r.Key != c.final.Key {
			c.wrong("request %d has the key %q, the report %q", i, r.Key, c.final.Key)
		}
		if string(r.Body) != charge || !reflect.DeepEqual(r.Header, c.server.Requests()[0].Header) {
			c.wrong("request %d differs from the first: %v %q", i, r.Header, r.Body)
		}
	}
	if n := c.body.closed.Load(); n != 1 {
		c.wrong("the request's body was closed %d times", n)
	}
}
