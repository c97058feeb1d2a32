package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	sdk "github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/internal/answer"
)

const longestAnswer = 64 << 20

// A result is what came of sending a request. Its exported fields are what -json
// prints.
type result struct {
	N        int                 `json:"n"` // from 1
	Key      string              `json:"key"`
	Changed  string              `json:"changed_body,omitempty"`
	Status   int                 `json:"status,omitempty"`
	Header   http.Header         `json:"header,omitempty"` // without the values of credentials
	Body     *string             `json:"body,omitempty"`   // of an answer that is UTF-8
	Bytes    []byte              `json:"body_base64,omitempty"`
	Error    string              `json:"error,omitempty"` // why there is no answer
	Replayed bool                `json:"replayed"`        // marked as a stored answer
	TookMS   int64               `json:"took_ms"`
	Differs  []answer.Difference `json:"differs,omitempty"` // from the first answer
	Agrees   bool                `json:"agrees"`            // with the first answer, in what counts
	Attempts []attempt           `json:"attempts,omitempty"`
	Report   *report             `json:"report,omitempty"`

	answer answer.Answer
	err    error
	first  *result // what it is compared with; maybe itself
}

// An attempt is one of those that the SDK made.
type attempt struct {
	Number int    `json:"number"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	TookMS int64  `json:"took_ms"`
	WaitMS *int64 `json:"wait_ms,omitempty"` // until the next
}

// A report is what the SDK knows at the end.
type report struct {
	Attempts int    `json:"attempts"`
	Outcome  string `json:"outcome"`
	Reason   string `json:"reason"`
	WaitedMS int64  `json:"waited_ms"`
}

// once sends the request, and returns when the answer has been read.
func (s *sending) once(ctx context.Context, n int) *result {
	res := &result{N: n, Key: s.key, Agrees: true}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %s (-timeout)", s.timeout))
	defer cancel()
	start := time.Now()
	res.err = s.exchange(ctx, res)
	res.TookMS = time.Since(start).Milliseconds()
	if res.err != nil {
		if context.Cause(ctx) != nil && ctx.Err() != nil {
			res.err = context.Cause(ctx)
		}
		res.Error = explain(res.err)
		res.Agrees = false
	}
	return res
}

func (s *sending) exchange(ctx context.Context, res *result) error {
	req, err := http.NewRequestWithContext(ctx, s.method, s.url.String(), bytes.NewReader(s.body))
	if err != nil {
		return err
	}
	req.Header = s.header.Clone()
	req.Header[http.CanonicalHeaderKey(s.keyHeader)] = []string{s.key}
	resp, err := s.client(res).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("the answer (%d) broke off after %d bytes: %w", resp.StatusCode, len(body), err)
	case len(body) > longestAnswer:
		return fmt.Errorf("the answer (%d) has more than %d MiB", resp.StatusCode, longestAnswer>>20)
	}
	res.take(answer.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body})
	return nil
}

// client sends once, or through the SDK, whose attempts it shows as they go.
func (s *sending) client(res *result) *http.Client {
	base := &http.Client{
		Transport:     s.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if !s.retry {
		return base
	}
	return sdk.NewClient(base,
		sdk.WithKeyHeader(s.keyHeader), sdk.WithKeyedMethods(s.method), sdk.WithMaxAttempts(s.attempts),
		sdk.WithAttemptTimeout(s.timeout),
		sdk.WithHooks(sdk.Hooks{
			Attempt: func(a sdk.Attempt) {
				made := attempt{Number: a.Number, TookMS: a.Duration.Milliseconds()}
				if a.Err != nil {
					made.Error = explain(a.Err)
				} else {
					made.Status = a.Response.StatusCode
				}
				res.Attempts = append(res.Attempts, made)
				s.out.attempt(res, made)
			},
			Wait: func(_ sdk.Attempt, d time.Duration) {
				ms := d.Milliseconds()
				res.Attempts[len(res.Attempts)-1].WaitMS = &ms
				s.out.wait(res, d)
			},
			Done: func(_ *http.Request, r sdk.Report) {
				res.Report = &report{r.Attempts, r.Outcome.String(), r.Reason.String(), r.Waited.Milliseconds()}
				s.out.done(res)
			},
		}))
}

// take keeps an answer.
func (res *result) take(a answer.Answer) {
	res.answer, res.Status, res.Replayed = a, a.Status, a.Replayed()
	res.Header = a.Header.Clone()
	for name := range res.Header {
		if answer.Secret(name) {
			res.Header[name] = []string{"(redacted)"}
		}
	}
	if utf8.Valid(a.Body) {
		text := string(a.Body)
		res.Body = &text
	} else {
		res.Bytes = a.Body
	}
}

// performed is 1 for what looks like the operation's own answer, which the others
// of those sent at once are compared with.
func (res *result) performed() int {
	if res.err == nil && !res.Replayed && res.Status/100 == 2 {
		return 1
	}
	return 0
}

// compare says in what res is not as the first.
func (res *result) compare(first *result) {
	res.first = first
	switch {
	case res.err != nil || first.err != nil:
		res.Agrees = false
	default:
		res.Differs = answer.Compare(first.answer, res.answer)
		res.Agrees = answer.Agree(res.Differs)
	}
}
