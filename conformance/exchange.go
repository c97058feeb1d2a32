package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/saferetry/saferetry/internal/answer"
)

const (
	longestAnswer = 16 << 20
	// settle is how long a request that has been written is given to reach the
	// handler, before another is to find it there.
	settle = 50 * time.Millisecond
)

// A reply is an answer, or the lack of one.
type reply struct {
	answer.Answer
	err error
}

func (a *reply) ok() bool      { return a.err == nil && a.Status >= 200 && a.Status <= 299 }
func (a *reply) refused() bool { return a.err == nil && a.Status >= 400 && a.Status <= 499 }

// words says what came.
func (p *probe) cameAs(a *reply) string {
	if a.err != nil {
		return "no answer: " + a.err.Error()
	}
	text := fmt.Sprintf("%d, %d bytes", a.Status, len(a.Body))
	if a.Replayed(p.target.ReplayHeader) {
		text += ", marked as a replay"
	}
	return text
}

// send sends op and returns its answer. Without one the check has failed.
func (p *probe) send(op operation) *reply {
	a := p.exchange(p.ctx, op, nil)
	p.log(Exchange{p.words(op), p.cameAs(a)})
	if a.err != nil {
		p.failWithout(a.err)
	}
	return a
}

// perform sends an operation that is to take effect.
func (p *probe) perform(op operation) *reply {
	a := p.send(op)
	switch {
	case a.ok() && !a.Replayed(p.target.ReplayHeader):
		return a
	case a.ok():
		p.fail("a fresh operation was answered with a stored answer")
	case len(op.notes) == 0:
		p.fail("a fresh operation was answered %d: want 2xx", a.Status)
	}
	p.skip("the operation (%s) was answered %d: want 2xx", op.notes[len(op.notes)-1], a.Status)
	return nil
}

// together sends op n times at once.
func (p *probe) together(op operation, n int) []*reply {
	replies := make([]*reply, n)
	var all sync.WaitGroup
	for i := range replies {
		all.Go(func() { replies[i] = p.exchange(p.ctx, op, nil) })
	}
	all.Wait()
	tally := make(map[string]int)
	var order []string
	for _, a := range replies {
		came := p.cameAs(a)
		if tally[came]++; tally[came] == 1 {
			order = append(order, came)
		}
	}
	for _, came := range order {
		p.log(Exchange{fmt.Sprintf("%s, %d at once: %d of them", p.words(op), n, tally[came]), came})
	}
	return replies
}

// A flight is a request under way.
type flight struct {
	reply *reply
	ended chan struct{} // closed once reply is there
}

// begin sends op and returns when it is likely to be in the handler.
func (p *probe) begin(ctx context.Context, op operation) *flight {
	f := &flight{ended: make(chan struct{})}
	written := make(chan struct{})
	p.flights.Go(func() {
		defer close(f.ended)
		f.reply = p.exchange(ctx, op, sync.OnceFunc(func() { close(written) }))
	})
	select {
	case <-written:
	case <-f.ended:
	case <-time.After(settle * 20): // a Transport that does not tell
	}
	p.pause(settle)
	return f
}

// over reports whether the answer is there.
func (f *flight) over() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// land waits for the answer to op.
func (p *probe) land(op operation, f *flight) *reply {
	<-f.ended // within Target.Timeout
	p.log(Exchange{p.words(op) + ", begun first", p.cameAs(f.reply)})
	if f.reply.err != nil {
		p.failWithout(f.reply.err)
	}
	return f.reply
}

// exchange sends op once. written, unless nil, is called when it is on its way.
func (p *probe) exchange(ctx context.Context, op operation, written func()) *reply {
	ctx, cancel := context.WithTimeoutCause(ctx, p.target.Timeout, fmt.Errorf("none within %s", p.target.Timeout))
	defer cancel()
	req, err := op.request(p.target.KeyHeader)
	if err == nil {
		err = p.spend(&p.sent, p.check.requests)
	}
	if err != nil {
		return &reply{err: err}
	}
	if written != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { written() },
		})
	}
	client := http.Client{
		Transport:     p.target.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		return &reply{err: plain(ctx, err)}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer+1))
	switch {
	case err != nil:
		return &reply{err: plain(ctx, err)}
	case len(text) > longestAnswer:
		return &reply{err: fmt.Errorf("the answer has more than %d MiB", longestAnswer>>20)}
	}
	return &reply{Answer: answer.Answer{Status: resp.StatusCode, Header: resp.Header, Body: text}}
}

// plain is err without the address, which may have credentials, and with the
// reason of a context that ended.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
