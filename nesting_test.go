package saferetry_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// Two transports would make 16 attempts of 4.
func TestTransportBelowATransportDoesNotMultiplyAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		above  []saferetry.Option
		fields int // of the header
	}{
		"keyed":                           {http.MethodPost, nil, 1},
		"without a key":                   {http.MethodGet, nil, 0},
		"with another header for the key": {http.MethodPost, []saferetry.Option{saferetry.WithKeyHeader("X-Request-Id")}, 1},
		"with the key quoted":             {http.MethodPost, []saferetry.Option{saferetry.WithQuotedKey()}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var headers []http.Header
			below := saferetry.NewTransport(script(func(req *http.Request) (*http.Response, error) {
				headers = append(headers, req.Header)
				return says(503, http.NoBody)(req)
			}), atOnce()...)
			client := saferetry.NewClient(&http.Client{Transport: below}, atOnce(c.above...)...)
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://a.test/", nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			report := reportOf(t, resp, err)

			assert.Equal(t, 4, report.Attempts)
			require.Len(t, headers, 4)
			assert.Len(t, headers[0], c.fields)
			for _, h := range headers {
				assert.Equal(t, headers[0], h, "every attempt carries the one key, and no other")
			}
		})
	}
}

// tokenSource is a base transport that gets a token before each request, by a
// client of its own, under the request's context.
type tokenSource struct {
	client *http.Client
	url    string
	base   http.RoundTripper
}

func (s *tokenSource) RoundTrip(req *http.Request) (*http.Response, error) {
	ask, err := http.NewRequestWithContext(req.Context(), http.MethodPost, s.url, strings.NewReader("grant"))
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(ask)
	if err != nil {
		req.Body.Close()
		return nil, err
	}
	resp.Body.Close()
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer t")
	return s.base.RoundTrip(req)
}

// A token that is asked for under the caller's key would be the charge to a
// server that has seen the key, or the other way round.
func TestTokenFetchedUnderTheAttemptsContextHasAKeyOfItsOwn(t *testing.T) {
	for name, key := range map[string]string{"generated key": "", "key in the context": "order-1"} {
		t.Run(name, func(t *testing.T) {
			tokens := newWireServer(t, answering(503, ""), answering(200, "t"), answering(200, "t"))
			api := newWireServer(t, answering(503, "busy"), answering(201, ""))
			source := &tokenSource{
				client: saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...),
				url:    tokens.url,
				base:   ownTransport(t),
			}
			client := saferetry.NewClient(&http.Client{Transport: source}, atOnce()...)
			ctx := t.Context()
			if key != "" {
				ctx = saferetry.WithKey(ctx, key)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, api.url, strings.NewReader("charge"))
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			report := reportOf(t, resp, err)

			assert.Equal(t, 201, resp.StatusCode)
			assert.Equal(t, 2, report.Attempts)
			charges, grants := api.seen(), tokens.seen()
			require.Len(t, charges, 2)
			assert.Equal(t, report.Key, charges[0].key())
			assert.Equal(t, report.Key, charges[1].key())
			require.Len(t, grants, 3, "the token's own retry, and one token per attempt")
			assert.NotEmpty(t, grants[0].key())
			assert.Equal(t, grants[0].key(), grants[1].key())
			assert.NotEqual(t, grants[1].key(), grants[2].key())
			for _, grant := range grants {
				assert.NotEqual(t, report.Key, grant.key())
				assert.Equal(t, "grant", string(grant.body))
			}
		})
	}
}

// The charge was never sent, so it is not to be feared for.
func TestTokenThatCannotBeFetchedLeavesTheOperationNotSent(t *testing.T) {
	source := &tokenSource{
		client: saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce(saferetry.WithMaxAttempts(1))...),
		url:    "http://" + deadAddress(t),
	}
	client := saferetry.NewClient(&http.Client{Transport: source}, atOnce(saferetry.WithMaxAttempts(2))...)
	resp, err := client.Post("http://a.test/", "", strings.NewReader("charge"))
	require.Nil(t, resp)
	assert.Equal(t, saferetry.NotSent, reportOf(t, resp, err).Outcome)
}

func TestCallersTraceSeesEveryAttempt(t *testing.T) {
	server := newWireServer(t, answering(503, "busy"), hangUp, answering(201, ""))
	var asked, had, wrote, first atomic.Int32
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn:              func(string) { asked.Add(1) },
		GotConn:              func(httptrace.GotConnInfo) { had.Add(1) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { wrote.Add(1) },
		GotFirstResponseByte: func() { first.Add(1) },
	})
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.url, strings.NewReader("x"))
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	resp.Body.Close()

	require.Len(t, server.seen(), 3)
	assert.EqualValues(t, 3, asked.Load())
	assert.EqualValues(t, 3, had.Load())
	assert.EqualValues(t, 3, wrote.Load())
	assert.EqualValues(t, 2, first.Load())
}

// Whether a connection was had is learned with the caller's trace in place too.
func TestNotSentIsKnownBesideACallersTrace(t *testing.T) {
	var handshakes atomic.Int32
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		TLSHandshakeDone: func(tls.ConnectionState, error) { handshakes.Add(1) },
	})
	server := newWireServer(t, hangUp)
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.Replace(server.url, "http:", "https:", 1), strings.NewReader("x"))
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.Nil(t, resp)

	assert.Equal(t, saferetry.NotSent, reportOf(t, resp, err).Outcome)
	assert.EqualValues(t, 4, handshakes.Load())
}
