package saferetry

import (
	"context"
	"hash/maphash"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// resumableBody is the body of a 2xx answer to an operation with a key. When it
// breaks off, the operation is asked for again under that key, and the reading
// goes on in the new answer, after the bytes that were already delivered. These
// are not kept: a hash of them tells whether the new answer begins the same.
type resumableBody struct {
	first *httpOperation         // whose answer the caller holds
	later atomic.Pointer[Report] // its report, once there was a resume

	op    *httpOperation // made the answer that is being read: first, or one that went on from it
	seen  maphash.Hash   // of the bytes delivered
	count int64          // of them
	broke error          // what the present body broke off with
	over  bool           // and that is final

	mu     sync.Mutex // for Close, which may come while Read resumes
	body   io.ReadCloser
	stop   context.CancelFunc // ends op's attempts; nil while op is first
	closed bool
}

// isResumable is false too where there could be no further attempt, so that
// nothing is hashed in vain.
func (op *httpOperation) isResumable(resp *http.Response) bool {
	return op.cfg.bodyResume && op.key != "" && op.attempts < op.cfg.maxAttempts &&
		resp.StatusCode >= 200 && resp.StatusCode < 300 && resp.Body != http.NoBody && op.replayable()
}

func newResumableBody(op *httpOperation, body io.ReadCloser) *resumableBody {
	b := &resumableBody{first: op, op: op, body: body}
	op.later = &b.later
	return b
}

func (b *resumableBody) Read(p []byte) (int, error) {
	for {
		if b.broke != nil && !b.resume() {
			return 0, b.broke
		}
		n, err := b.body.Read(p)
		b.seen.Write(p[:n])
		b.count += int64(n)
		switch {
		case err == io.EOF:
			b.end()
			return n, err
		case err != nil:
			b.broke = err
		}
		if n > 0 || err == nil {
			return n, nil
		}
	}
}

// Close closes the answer. A resume that is under way ends.
func (b *resumableBody) Close() error {
	b.mu.Lock()
	body := b.body
	b.closed = true
	b.mu.Unlock()
	b.end()
	return body.Close()
}

// end lets go of what only a further attempt would need.
func (b *resumableBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first.releaseSource()
	if b.stop != nil {
		b.stop()
	}
}

// resume puts the rest of a new answer in place of the body that broke off. It
// is false where that cannot be had: then the error stands.
func (b *resumableBody) resume() bool {
	if b.over {
		return false
	}
	op := b.fork()
	if op == nil {
		b.over = true
		return false
	}
	body := op.goOn(b)
	report := op.report()
	report.Outcome = Performed // the answer that broke off had said so
	b.later.Store(&report)

	b.mu.Lock()
	defer b.mu.Unlock()
	if body != nil && b.closed {
		body.Close()
		body = nil
	}
	if body == nil {
		b.over = true
		b.first.releaseSource()
		b.stop()
		return false
	}
	b.op, b.body, b.broke = op, body, nil
	return true
}

// fork closes the body that broke off and returns a copy of its operation, to
// make the attempts that are left; nil when the caller has closed the answer.
// The first operation stays as the caller may be reading it.
func (b *resumableBody) fork() *httpOperation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.body.Close()
	if b.stop != nil {
		b.stop()
	}
	op := &httpOperation{operation: b.op.operation, base: b.op.base, ownKey: b.op.ownKey,
		keyValue: b.op.keyValue, source: b.op.source, current: b.op.current}
	op.later = nil
	op.failed = append([]Attempt(nil), b.op.failed...)
	op.ctx, b.stop = context.WithCancel(b.first.ctx)
	return op
}

// goOn makes attempts until one brings what b was reading, and returns its
// body, read up to where b stands; nil if none does.
func (op *httpOperation) goOn(b *resumableBody) io.ReadCloser {
	a := Attempt{Number: op.attempts, Request: op.current.req, Err: b.broke}
	for {
		wait, again := op.another(op, floor{})
		if !again || op.repeat(op, a, wait) != nil {
			return nil
		}
		next, err := op.attempt(op)
		if err != nil {
			return nil
		}
		op.current.deliver(next.Response)
		same, err := b.catchUp(next.Response)
		if same {
			return next.Response.Body
		}
		next.Response.Body.Close()
		if err == nil {
			return nil
		}
		a = Attempt{Number: op.attempts, Request: next.Request, Err: err}
	}
}

// catchUp reads as many bytes of a new answer as were delivered, and reports
// whether they are the same. An error means that the new answer broke off too.
func (b *resumableBody) catchUp(resp *http.Response) (same bool, err error) {
	if !isReplay(resp.Header) && resp.StatusCode != b.first.answer.StatusCode {
		return false, nil
	}
	var again maphash.Hash
	again.SetSeed(b.seen.Seed())
	switch _, err := io.CopyN(&again, resp.Body, b.count); err {
	case nil:
		return again.Sum64() == b.seen.Sum64(), nil
	case io.EOF:
		return false, nil
	default:
		return false, err
	}
}
