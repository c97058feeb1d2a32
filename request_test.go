package saferetry_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// snapshot is a request as it was: the struct, and what its fields led to.
type snapshot struct {
	request  http.Request
	url      url.URL
	header   http.Header
	trailer  http.Header
	transfer []string
}

func snapshotOf(req *http.Request) snapshot {
	s := snapshot{request: *req, header: req.Header.Clone(), trailer: req.Trailer.Clone(), transfer: slices.Clone(req.TransferEncoding)}
	if req.URL != nil {
		s.url = *req.URL
	}
	return s
}

// assertUnchanged checks that req is byte for byte what it was.
func (s snapshot) assertUnchanged(t *testing.T, req *http.Request) {
	t.Helper()
	now, then := reflect.ValueOf(req).Elem(), reflect.ValueOf(&s.request).Elem()
	for i := range now.NumField() {
		name := now.Type().Field(i).Name
		switch a, b := now.Field(i), then.Field(i); a.Kind() {
		case reflect.Func, reflect.Map, reflect.Slice, reflect.Pointer:
			assert.Equal(t, b.Pointer(), a.Pointer(), name)
		default:
			assert.True(t, a.Equal(b), name)
		}
	}
	if req.URL != nil {
		assert.Equal(t, s.url, *req.URL)
	}
	assert.Equal(t, s.header, req.Header)
	assert.Equal(t, s.trailer, req.Trailer)
	assert.Equal(t, s.transfer, req.TransferEncoding)
}

func TestCallersRequestIsUnchangedHoweverTheOperationEnds(t *testing.T) {
	inEveryWay(t, func(t *testing.T, call *endedCall) {
		call.before.assertUnchanged(t, call.req)
		if call.resp != nil {
			call.resp.Body.Close()
		}
		call.before.assertUnchanged(t, call.req)
	})
}

func TestCallersRequestIsUnchangedWhateverIsInIt(t *testing.T) {
	withHeader := func(name string, values ...string) func(*http.Request) *http.Request {
		return func(req *http.Request) *http.Request {
			req.Header[name] = values
			return req
		}
	}
	for name, change := range map[string]func(*http.Request) *http.Request{
		"no key":           func(req *http.Request) *http.Request { return req },
		"no header":        func(req *http.Request) *http.Request { req.Header = nil; return req },
		"no body":          func(req *http.Request) *http.Request { req.Body, req.GetBody = nil, nil; return req },
		"key":              withHeader(saferetry.KeyHeader, "k"),
		"quoted key":       withHeader(saferetry.KeyHeader, `"k"`),
		"lower-case key":   withHeader("idempotency-key", "k"),
		"key without one":  withHeader(saferetry.KeyHeader),
		"attempt header":   withHeader("X-Attempt", "mine"),
		"two of one field": withHeader("Cookie", "a=b", "c=d"),
		"trailer": func(req *http.Request) *http.Request {
			req.Trailer, req.ContentLength = http.Header{"X-Sum": {"1"}}, -1
			return req
		},
		"key in the context": func(req *http.Request) *http.Request {
			return req.WithContext(saferetry.WithKey(req.Context(), "k"))
		},
	} {
		for options, opts := range map[string][]saferetry.Option{
			"defaults":                      nil,
			"quoted key and attempt header": {saferetry.WithQuotedKey(), saferetry.WithAttemptHeader("X-Attempt")},
		} {
			t.Run(name+", "+options, func(t *testing.T) {
				base := script(says(503, http.NoBody), says(503, http.NoBody), says(201, http.NoBody))
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://u:p@a.test/?q=1", strings.NewReader("x"))
				require.NoError(t, err)
				req = change(req)
				before := snapshotOf(req)
				resp, err := saferetry.NewTransport(base, atOnce(opts...)...).RoundTrip(req)
				require.NoError(t, err)
				resp.Body.Close()

				assert.Equal(t, 3, reportOf(t, resp, err).Attempts)
				before.assertUnchanged(t, req)
			})
		}
	}
}

// A caller may use its request again once the answer is closed (net/http says
// so of RoundTrip): with another key, under another context.
func TestRequestCanBeUsedAgainAfterTheAnswer(t *testing.T) {
	server := newWireServer(t, answering(503, "busy"), answering(201, "{}"), answering(503, "busy"), answering(201, "{}"))
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.url, strings.NewReader("x"))
	require.NoError(t, err)
	var keys []string
	for range 2 {
		resp, err := client.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		keys = append(keys, reportOf(t, resp, err).Key)
		req.Body, err = req.GetBody()
		require.NoError(t, err)
	}
	seen := server.seen()
	require.Len(t, seen, 4)
	assert.NotEqual(t, keys[0], keys[1])
	assert.Equal(t, keys[0], seen[1].key())
	assert.Equal(t, keys[1], seen[2].key())
}
