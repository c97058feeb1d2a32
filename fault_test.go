package saferetry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// isReset is true for what a connection that the server reset shows,
// depending on whether the client is reading or writing at that moment.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// isMalformedAnswer looks at the text: net/http exports no type for this.
func isMalformedAnswer(err error) bool {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return strings.Contains(err.Error(), "malformed HTTP")
}

var connectionFaults = []struct {
	name string
	step wireStep
	is   func(error) bool
}{
	{"reset before the request is read", resetUnread, isReset},
	{"reset after the request is read", resetRead, isReset},
	{"half a status line", halfStatusLine, isMalformedAnswer},
	{"EOF on a fresh connection", hangUp, func(err error) bool { return errors.Is(err, io.EOF) }},
}

func TestLostConnectionIsRetriedUnderTheSameKey(t *testing.T) {
	for _, fault := range connectionFaults {
		t.Run(fault.name, func(t *testing.T) {
			server := newWireServer(t, fault.step, answering(201, "{}"))
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
			resp, err := client.Post(server.url, "application/json", strings.NewReader(`{"amount":1}`))
			require.NoError(t, err)
			defer resp.Body.Close()
			report := reportOf(t, resp, err)

			assert.Equal(t, 201, resp.StatusCode)
			assert.Equal(t, 2, report.Attempts)
			assert.Equal(t, saferetry.Answered, report.Reason)
			assert.Equal(t, saferetry.Performed, report.Outcome)
			require.Len(t, report.Failed, 1)
			assert.True(t, fault.is(report.Failed[0].Err), "%v", report.Failed[0].Err)
			for _, r := range server.seen() {
				assert.Equal(t, report.Key, r.key())
				assert.Equal(t, `{"amount":1}`, string(r.body))
				assert.EqualValues(t, 12, r.ContentLength)
			}
		})
	}
}

func TestLostConnectionEveryTimeLeavesTheOutcomeUnknown(t *testing.T) {
	for _, fault := range connectionFaults {
		t.Run(fault.name, func(t *testing.T) {
			server := newWireServer(t, fault.step)
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
			resp, err := client.Post(server.url, "application/json", strings.NewReader(`{"amount":1}`))
			require.Nil(t, resp)
			report := reportOf(t, resp, err)

			assert.True(t, fault.is(err), "%v", err)
			assert.Equal(t, 4, report.Attempts)
			assert.Equal(t, saferetry.Exhausted, report.Reason)
			assert.Equal(t, saferetry.Unknown, report.Outcome)
			assert.Equal(t, 4, server.dialed())
		})
	}
}

// A request with neither a key nor an idempotent method may have been performed.
func TestLostConnectionIsNotRetriedWithoutAKey(t *testing.T) {
	for _, fault := range connectionFaults {
		t.Run(fault.name, func(t *testing.T) {
			server := newWireServer(t, fault.step)
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce(saferetry.WithKeyedMethods())...)
			resp, err := client.Post(server.url, "", strings.NewReader("once"))
			require.Nil(t, resp)
			report := reportOf(t, resp, err)

			assert.True(t, fault.is(err), "%v", err)
			assert.Equal(t, 1, report.Attempts)
			assert.Equal(t, saferetry.NotRepeatable, report.Reason)
			assert.Equal(t, saferetry.Unknown, report.Outcome)
		})
	}
}

// deadAddress is an address at which nobody listens.
func deadAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func TestRefusedConnectionIsNotSent(t *testing.T) {
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
	resp, err := client.Post("http://"+deadAddress(t), "", strings.NewReader("x"))
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.Equal(t, 4, report.Attempts)
	assert.Equal(t, saferetry.Exhausted, report.Reason)
	assert.Equal(t, saferetry.NotSent, report.Outcome)
}

// Nothing can have reached the server, so even a POST without a key is repeated.
func TestRefusedConnectionIsRetriedWithoutAKey(t *testing.T) {
	server := newWireServer(t, answering(201, ""))
	base := ownTransport(t)
	dials, dead := 0, deadAddress(t)
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials++; dials <= 2 {
			address = dead
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	client := saferetry.NewClient(&http.Client{Transport: base}, atOnce(saferetry.WithKeyedMethods())...)
	resp, err := client.Post(server.url, "", strings.NewReader("x"))
	require.NoError(t, err)
	defer resp.Body.Close()
	report := reportOf(t, resp, err)

	assert.Equal(t, 3, report.Attempts)
	assert.Equal(t, saferetry.Performed, report.Outcome)
	require.Len(t, server.seen(), 1)
	assert.Empty(t, server.seen()[0].key())
}

// net/http itself sends a keyed request again when a connection that it reuses
// dies before a byte of the answer.
func TestEOFOnAReusedConnection(t *testing.T) {
	for name, body := range map[string]struct {
		reader   io.Reader
		attempts int
	}{
		"sent again by net/http where it can rewind the body":    {strings.NewReader("628"), 1},
		"sent again by the Transport where it alone can do that": {io.MultiReader(strings.NewReader("628")), 2},
	} {
		t.Run(name, func(t *testing.T) {
			server := newWireServer(t, answering(200, "warm"), hangUp, answering(201, ""))
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
			warm(t, client, server.url)
			resp, err := client.Post(server.url, "", body.reader)
			require.NoError(t, err)
			defer resp.Body.Close()
			report := reportOf(t, resp, err)

			assert.Equal(t, body.attempts, report.Attempts)
			assert.Equal(t, saferetry.Performed, report.Outcome)
			seen := server.seen()
			require.Len(t, seen, 3)
			assert.Equal(t, seen[0].conn, seen[1].conn, "the connection was not reused")
			for _, r := range seen[1:] {
				assert.Equal(t, report.Key, r.key())
				assert.Equal(t, "628", string(r.body))
			}
		})
	}
}

// warm leaves a connection to be reused.
func warm(t *testing.T, client *http.Client, url string) {
	resp, err := client.Get(url)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
}

// The server may have performed what it hung up on. That net/http asked again,
// and not the Transport, makes the 400 no more of an answer to it.
func TestRefusalAfterNetHTTPSentAgainIsNotTakenForTheWholeTruth(t *testing.T) {
	server := newWireServer(t, answering(200, "warm"), hangUp, answering(400, ""))
	client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce()...)
	warm(t, client, server.url)
	resp, err := client.Post(server.url, "", strings.NewReader("x"))
	require.NoError(t, err)
	defer resp.Body.Close()
	report := reportOf(t, resp, err)

	require.Len(t, server.seen(), 3)
	assert.Equal(t, 1, report.Attempts)
	assert.Equal(t, saferetry.Unknown, report.Outcome)
}

func TestHangingDialEndsWithTheAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// net/http lets a dial go on for requests to come, so it needs an end of its own.
		base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		client := saferetry.NewClient(&http.Client{Transport: base}, atOnce(saferetry.WithAttemptTimeout(time.Second))...)
		start := time.Now()
		resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
		require.Nil(t, resp)
		report := reportOf(t, resp, err)

		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.NotErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 4*time.Second, time.Since(start))
		assert.Equal(t, 4, report.Attempts)
		assert.Equal(t, saferetry.Exhausted, report.Reason)
		assert.Equal(t, saferetry.NotSent, report.Outcome)
		time.Sleep(time.Minute) // of the bubble: the dials end
	})
}

func TestNameThatDoesNotResolveIsNotSent(t *testing.T) {
	base := ownTransport(t)
	noServer := errors.New("no name server")
	base.DialContext = (&net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial:     func(context.Context, string, string) (net.Conn, error) { return nil, noServer },
	}}).DialContext
	client := saferetry.NewClient(&http.Client{Transport: base}, atOnce(saferetry.WithKeyedMethods())...)
	resp, err := client.Post("http://name.invalid/", "", strings.NewReader("x"))
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
	assert.Equal(t, "name.invalid", dns.Name)
	assert.Equal(t, 4, report.Attempts)
	assert.Equal(t, saferetry.Exhausted, report.Reason)
	assert.Equal(t, saferetry.NotSent, report.Outcome)
}

func TestProxyThatRefusesConnectIsNotSent(t *testing.T) {
	proxy := newWireServer(t, answering(502, "", "Connection: close"))
	base := ownTransport(t)
	address, err := url.Parse(proxy.url)
	require.NoError(t, err)
	base.Proxy = http.ProxyURL(address)
	client := saferetry.NewClient(&http.Client{Transport: base}, atOnce(saferetry.WithKeyedMethods())...)
	resp, err := client.Post("https://a.test/", "", strings.NewReader("x"))
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	assert.Equal(t, 4, report.Attempts)
	assert.Equal(t, saferetry.Exhausted, report.Reason)
	assert.Equal(t, saferetry.NotSent, report.Outcome)
	require.Len(t, proxy.seen(), 4)
	assert.Equal(t, http.MethodConnect, proxy.seen()[0].Method)
}

func TestProxyThatCannotBeReachedIsNotSent(t *testing.T) {
	base := ownTransport(t)
	base.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: deadAddress(t)})
	client := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...)
	resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.Equal(t, 4, report.Attempts)
	assert.Equal(t, saferetry.NotSent, report.Outcome)
}
