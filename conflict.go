package saferetry

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// What is read of a 409 to learn whether it means this operation's own earlier
// attempt, and how long that may take.
const (
	peekBytes = 1 << 20
	peekTime  = 250 * time.Millisecond
)

// isInProgress reports whether a 409 says that an earlier attempt under the
// same key is still running. known is false where its body did not come whole
// or in time, so that it may have been about to say so.
func isInProgress(a Attempt) (inProgress, known bool) {
	switch body := a.Response.Body; {
	case !isKeyed(a.Request):
		return false, true
	case a.Response.Header.Get("Retry-After") != "":
		return true, true
	case body == nil || body == http.NoBody:
		return false, true
	}
	p := peek(a.Response)
	return p.inProgress, p.known
}

func isKeyed(req *http.Request) bool {
	if req == nil {
		return false
	}
	if op := operationFor(req); op != nil {
		return op.key != ""
	}
	return req.Header.Get(KeyHeader) != ""
}

// saysInProgress looks for the words by which servers name a request that is
// still running, where they put their error codes.
func saysInProgress(body []byte) bool {
	var answer struct{ Code, Error, Type json.RawMessage }
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if json.Unmarshal(body, &answer) != nil {
		return false
	}
	var nested struct{ Code, Type json.RawMessage }
	_ = json.Unmarshal(answer.Error, &nested) // fails where error is a code itself
	for _, field := range []json.RawMessage{answer.Code, answer.Error, answer.Type, nested.Code, nested.Type} {
		var code string
		if json.Unmarshal(field, &code) == nil && isInProgressCode(code) {
			return true
		}
	}
	return false
}

var inProgressWords = regexp.MustCompile(`(^|[^a-z0-9])(in_use|in_progress|in_flight|concurrent|outstanding)($|[^a-z0-9])`)
var ownRequestWords = regexp.MustCompile(`(^|[^a-z0-9])(idempot|requests?($|[^a-z0-9])|keys?($|[^a-z0-9]))`)

// isInProgressCode tells "idempotency-key-in-use" from "email_in_use": what is
// in use must be a key or a request, unless the code says nothing else.
func isInProgressCode(code string) bool {
	code = strings.ReplaceAll(strings.ToLower(code), "-", "_")
	words := inProgressWords.FindString(code)
	return words != "" && (words == code || ownRequestWords.MatchString(code))
}

// peekedBody is a body whose beginning was read ahead, for the one question
// that is asked of it, and is put back for the caller to read. Where the
// beginning does not come in time, its reading goes on until the body is closed.
type peekedBody struct {
	inProgress, known bool

	body  io.ReadCloser
	done  chan struct{} // closed when start and rest are set
	whole bool
	start []byte
	rest  io.Reader
}

func peek(resp *http.Response) *peekedBody {
	if p, ok := resp.Body.(*peekedBody); ok {
		return p
	}
	p := &peekedBody{body: resp.Body, done: make(chan struct{})}
	resp.Body = p
	go p.fill()
	timer := time.NewTimer(peekTime)
	defer timer.Stop()
	select {
	case <-p.done:
		p.inProgress = saysInProgress(p.start)
		p.known = p.whole || p.inProgress
	case <-timer.C:
	}
	return p
}

func (p *peekedBody) fill() {
	defer close(p.done)
	start, err := io.ReadAll(io.LimitReader(p.body, peekBytes))
	p.start, p.rest = start, io.MultiReader(bytes.NewReader(start), p.body)
	p.whole = err == nil && len(start) < peekBytes
	if err != nil {
		p.rest = io.MultiReader(bytes.NewReader(start), failingReader{err})
	}
}

func (p *peekedBody) Read(b []byte) (int, error) {
	<-p.done
	return p.rest.Read(b)
}

func (p *peekedBody) Close() error { return p.body.Close() }

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
