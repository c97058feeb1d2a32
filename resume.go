package saferetry

import (
	"context"
	"hash/crc32"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// delivered is what was read of an answer, as far as it must be known to tell
// whether another begins with the same bytes: not the bytes, but their number
// and two checksums of different polynomials.
type delivered struct {
	count            int64
	ieee, castagnoli uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write adds what was read. It cannot fail.
func (d *delivered) Write(p []byte) (int, error) {
	d.count += int64(len(p))
	d.ieee = crc32.Update(d.ieee, crc32.IEEETable, p)
	d.castagnoli = crc32.Update(d.castagnoli, castagnoli, p)
	return len(p), nil
}

// isResumable is false too where there could be no further attempt, so that no
// checksums are made in vain.
func (op *httpOperation) isResumable(resp *http.Response) bool {
	return op.cfg.bodyResume && op.key != "" && op.attempts < op.cfg.maxAttempts &&
		resp.StatusCode >= 200 && resp.StatusCode < 300 && resp.Body != http.NoBody && op.replayable()
}

// resumption goes on with the body of a 2xx answer to an operation with a key,
// once that broke off: it asks for the operation again under that key, and reads
// on in the new answer after the bytes that were already delivered.
type resumption struct {
	answer *answerBody    // that the caller holds
	op     *httpOperation // made the body that is being read: answer's, or one that went on from it
	read   delivered
	broke  error                  // what the body broke off with
	over   bool                   // and that is final
	report atomic.Pointer[Report] // once there was a resume

	mu   sync.Mutex         // for Close, which may come during a Read
	body io.ReadCloser      // nil before the first resume
	stop context.CancelFunc // ends op's attempts; nil as well
}

func (r *resumption) Read(p []byte) (int, error) {
	for {
		if r.broke != nil && !r.resume() {
			return 0, r.broke
		}
		n, err := r.body.Read(p)
		r.read.Write(p[:n])
		switch {
		case err == io.EOF:
			r.end()
			return n, err
		case err != nil:
			r.broke = err
		}
		if n > 0 || err == nil {
			return n, nil
		}
	}
}

// Close ends a resume that is under way.
func (r *resumption) Close() error {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}

// end lets go of what only a further attempt would need.
func (r *resumption) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer.of.op.releaseSource()
	if r.stop != nil {
		r.stop()
	}
}

// resume puts the rest of a new answer in place of the body that broke off. It
// is false where that cannot be had: then the error stands.
func (r *resumption) resume() bool {
	if r.over {
		return false
	}
	op := r.fork()
	if op == nil {
		r.over = true
		return false
	}
	body := op.goOn(r)
	report := op.report()
	report.Outcome = Performed // the answer that broke off had said so
	r.report.Store(&report)

	r.mu.Lock()
	defer r.mu.Unlock()
	if body != nil && r.answer.closed.Load() {
		body.Close()
		body = nil
	}
	if body == nil {
		r.over = true
		r.answer.of.op.releaseSource()
		r.stop()
		return false
	}
	r.op, r.body, r.broke = op, body, nil
	return true
}

// fork closes the body that broke off and returns a copy of its operation, to
// make the attempts that are left; nil when the caller has closed the answer.
// The first operation stays as the caller may be reading it.
func (r *resumption) fork() *httpOperation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer.closed.Load() {
		return nil
	}
	if r.body != nil {
		r.body.Close()
		r.stop()
	}
	first := r.answer.of.op
	op := &httpOperation{operation: r.op.operation, base: first.base, ownKey: first.ownKey,
		keyValue: first.keyValue, shared: first.shared, source: first.source, current: r.op.current}
	op.handed = nil
	op.released.Store(true) // that is for first to do
	op.failed = append([]Attempt(nil), r.op.failed...)
	op.ctx, r.stop = context.WithCancel(first.ctx)
	return op
}

// goOn makes attempts until one brings what r was reading, and returns its
// body, read up to where r stands; nil if none does.
func (op *httpOperation) goOn(r *resumption) io.ReadCloser {
	a := Attempt{Number: op.attempts, Request: op.current.req, Err: r.broke}
	for {
		wait, again := op.another(op, floor{})
		if !again || op.repeat(op, a, wait) != nil {
			return nil
		}
		next, err := op.attempt(op)
		if err != nil {
			return nil
		}
		op.current.deliver(next.Response, new(answerBody))
		same, err := r.catchUp(next.Response)
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
func (r *resumption) catchUp(resp *http.Response) (same bool, err error) {
	if !isReplay(resp.Header) && resp.StatusCode != r.answer.of.op.answer.StatusCode {
		return false, nil
	}
	var again delivered
	switch _, err := io.CopyN(&again, resp.Body, r.read.count); err {
	case nil:
		return again == r.read, nil
	case io.EOF:
		return false, nil
	default:
		return false, err
	}
}
