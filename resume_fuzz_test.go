package saferetry_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// A showing is one attempt's answer to a resume: its two bytes say what it is,
// and where it is cut.
type showing struct {
	kind byte
	cut  int // bytes that come of the body; all of it and its end, if that is less
}

// The kinds of showings.
const (
	brokenOff    = iota // status 201
	replayed            // status 200, marked as stored
	otherStatus         // status 200, not marked
	otherContent        // a byte is another, two before the cut
	shorter             // the body ends where it is cut, as if that were all
	busyServer          // 503
	refusal             // 400
	noAnswer            // the connection breaks
	showingKinds
)

// FuzzBodyResume reads an answer that is cut at random points, again and again,
// and compares what is delivered with what the design says. Of the input's
// bytes the first is the length of the body, the second says how many attempts
// there may be and how it is read, and each two that follow are a showing.
func FuzzBodyResume(f *testing.F) {
	for kind := range byte(showingKinds) {
		f.Add([]byte{43, 5, brokenOff, 12, kind, 30, replayed, 255})
		f.Add([]byte{43, 3, brokenOff, 0, kind, 0, kind, 255})
		f.Add([]byte{43, 7 | together, brokenOff, 20, kind, 5, brokenOff, 20, kind, 43, brokenOff, 255})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) >= 2 {
			playShowings(t, bytes.Repeat([]byte(story), 6)[:input[0]], input[1], input[2:])
		}
	})
}

// together has the last bytes of a body come with its error, in one read.
const together = 1 << 3

var errCut = errors.New("cut")

func playShowings(t *testing.T, whole []byte, config byte, input []byte) {
	show := func(n int) showing {
		if n == 0 && len(input) >= 2 { // what is resumed is a 201
			return showing{brokenOff, int(input[1])}
		}
		if 2*n+1 >= len(input) {
			return showing{replayed, 255}
		}
		return showing{input[2*n] % showingKinds, int(input[2*n+1])}
	}
	var keys []string
	var bodies []*countedBody
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		sent, err := io.ReadAll(req.Body)
		req.Body.Close()
		require.NoError(t, err)
		require.Equal(t, "x", string(sent))
		s := show(len(keys))
		keys = append(keys, req.Header.Get(saferetry.KeyHeader))
		if s.kind == noAnswer {
			return nil, syscall.ECONNRESET
		}
		resp, body := s.answer(whole, config&together != 0)
		bodies = append(bodies, body)
		return resp, nil
	})
	asked := &countedBody{Reader: strings.NewReader("x")}
	req, err := http.NewRequest(http.MethodPost, "http://server/", asked)
	require.NoError(t, err)
	maxAttempts := 1 + int(config&7)
	resp, err := saferetry.NewTransport(base, atOnce(saferetry.WithMaxAttempts(maxAttempts))...).RoundTrip(req)
	require.NoError(t, err)
	delivered, err := io.ReadAll(onlyReader{resp.Body, 1 + int(config>>4)})
	require.NoError(t, resp.Body.Close())

	wanted, complete, attempts := resumed(whole, maxAttempts, show)
	report := reportOf(t, resp, nil)
	assert.Equal(t, string(wanted), string(delivered))
	assert.Equal(t, complete, err == nil, "%v", err)
	assert.True(t, complete || errors.Is(err, errCut), "%v", err)
	assert.Equal(t, attempts, report.Attempts)
	assert.Len(t, report.Failed, attempts-1)
	assert.Equal(t, saferetry.Performed, report.Outcome)
	assert.False(t, complete && report.Reason != saferetry.Answered, report.Reason)
	require.Len(t, keys, attempts)
	for _, key := range keys {
		assert.Equal(t, report.Key, key)
	}
	for _, body := range bodies {
		assert.NotZero(t, body.closed.Load(), "an answer was not closed")
	}
	assert.EqualValues(t, 1, asked.closed.Load())
}

// onlyReader reads at most n bytes at a time.
type onlyReader struct {
	io.Reader
	n int
}

func (r onlyReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(r.n, len(p))]) }

func (s showing) answer(whole []byte, together bool) (*http.Response, *countedBody) {
	resp := &http.Response{StatusCode: http.StatusCreated, Header: make(http.Header), ContentLength: -1}
	switch s.kind {
	case replayed:
		resp.StatusCode = http.StatusOK
		resp.Header.Set("Idempotent-Replayed", "true")
	case otherStatus:
		resp.StatusCode = http.StatusOK
	case busyServer:
		resp.StatusCode = http.StatusServiceUnavailable
	case refusal:
		resp.StatusCode = http.StatusBadRequest
	}
	content, complete := s.content(whole)
	ending := &endingReader{content, io.EOF, together}
	if !complete {
		ending.err = errCut
	}
	body := &countedBody{Reader: ending}
	resp.Body = body
	return resp, body
}

// content is what comes of the body, and whether it seems to be complete.
func (s showing) content(whole []byte) (content []byte, complete bool) {
	if s.cut > len(whole) {
		return whole, true
	}
	content = bytes.Clone(whole[:s.cut])
	if s.kind == otherContent && s.cut >= 2 {
		content[s.cut-2] ^= 1
	}
	return content, s.kind == shorter
}

// endingReader ends with err, after its content or together with the last of it.
type endingReader struct {
	content  []byte
	err      error
	together bool
}

func (r *endingReader) Read(p []byte) (int, error) {
	n := copy(p, r.content)
	r.content = r.content[n:]
	if len(r.content) == 0 && (n == 0 || r.together) && len(p) > 0 {
		return n, r.err
	}
	return n, nil
}

// resumed is what the design says is delivered of the answer.
func resumed(whole []byte, maxAttempts int, show func(int) showing) (delivered []byte, complete bool, attempts int) {
	delivered, complete = show(0).content(whole)
	for attempts = 1; !complete && attempts < maxAttempts; attempts++ {
		s := show(attempts)
		content, seemsComplete := s.content(whole)
		switch {
		case s.kind == busyServer, s.kind == noAnswer:
			continue
		case s.kind == refusal, s.kind == otherStatus:
			return delivered, false, attempts + 1
		case len(content) < len(delivered) && !seemsComplete: // cut off before there is something new
			continue
		case !bytes.HasPrefix(content, delivered):
			return delivered, false, attempts + 1
		}
		delivered, complete = content, seemsComplete
	}
	return delivered, complete, attempts
}
