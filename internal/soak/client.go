package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

// A client makes one operation after the other.
type client struct {
	name    string
	station *station
	random  *rand.Rand
	made    []*operation
	charge  string // ID of one that no operation has changed yet; "" for none
}

// An operation makes a charge, or changes one that no other operation changes:
// by content, whatever the keys, its effects can be told from all others.
type operation struct {
	customer string // of the charge it makes; "" if it changes one
	charge   string // the charge it changes
	report   saferetry.Report
	effects  int // under its key when it was over
	wrong    string
}

func (c *client) work(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			c.operate()
		}
	}
}

// operate makes an operation: three of four are charges, and there are callers
// of little patience, who cancel, and who do not read the answer.
func (c *client) operate() {
	op := &operation{customer: fmt.Sprintf("%s_%d", c.name, len(c.made))}
	if c.charge != "" && c.random.IntN(4) == 0 {
		op.customer, op.charge, c.charge = "", c.charge, ""
	}
	c.made = append(c.made, op)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch c.random.IntN(16) {
	case 0, 1:
		ctx, cancel = context.WithTimeout(ctx, c.moment())
		defer cancel()
	case 2:
		defer time.AfterFunc(c.moment(), cancel).Stop()
	}
	req := c.request(ctx, op)
	resp, err := c.station.client.Do(req)
	var content []byte
	if err == nil {
		if c.random.IntN(8) > 0 {
			content, err = io.ReadAll(resp.Body)
		}
		resp.Body.Close()
	}
	report, ok := saferetry.ReportOf(resp, err)
	if resp != nil && err != nil { // the answer broke off: the report is still the response's
		report, ok = saferetry.ReportOf(resp, nil)
	}
	op.report, op.effects = report, c.station.server.Executions(report.Key)
	if !ok {
		op.wrong = "no report"
	}
	if err == nil && len(content) > 0 && report.Outcome == saferetry.Performed {
		c.check(op, content)
	}
}

func (c *client) moment() time.Duration {
	return time.Duration(1+c.random.IntN(200)) * time.Millisecond
}

// request is what asks for op. Half of the bodies cannot be rewound.
func (c *client) request(ctx context.Context, op *operation) *http.Request {
	method, path, content := http.MethodPost, "/v1/charges", `{"amount":2500,"currency":"usd","customer":"`+op.customer+`"}`
	if op.charge != "" {
		method, path, content = http.MethodPatch, path+"/"+op.charge, `{"op":"increment","field":"retries"}`
	}
	var body io.Reader = strings.NewReader(content)
	if c.random.IntN(2) == 0 {
		body = io.MultiReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.station.server.URL+path, body)
	if err != nil {
		panic(err) // all of it is our own
	}
	return req
}

// check reads the answer, which must be this operation's.
func (c *client) check(op *operation, content []byte) {
	var charge testserver.Charge
	d := json.NewDecoder(bytes.NewReader(content))
	err := d.Decode(&charge)
	switch {
	case err != nil:
		op.wrong = "the answer is no charge: " + err.Error()
	case op.charge != "" && (charge.ID != op.charge || charge.Retries != 1), op.charge == "" && charge.Customer != op.customer:
		op.wrong = fmt.Sprintf("the answer to %+v is %s", *op, content)
	case op.customer != "":
		c.charge = charge.ID
	}
}

// askAgain asks, under its key, for every operation of which nothing is known.
// No fault strikes any more.
func (c *client) askAgain() {
	for _, op := range c.made {
		if op.report.Outcome != saferetry.Unknown {
			continue
		}
		resp, err := c.station.asker.Do(c.request(saferetry.WithKey(context.Background(), op.report.Key), op))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if report, _ := saferetry.ReportOf(resp, nil); err != nil || report.Outcome != saferetry.Performed {
			op.wrong = fmt.Sprintf("asked again under %s: %v, %s", op.report.Key, err, report.Outcome)
		}
	}
}
