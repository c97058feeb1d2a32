package saferetry_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// tlsServer is a TLS server that answers 201, changed by configure before it starts.
func tlsServer(t *testing.T, configure func(*httptest.Server)) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = new(tls.Config)
	configure(server)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// postOnce makes a keyed call that is expected to end at its first attempt.
func postOnce(t *testing.T, base http.RoundTripper, url string) (saferetry.Report, error) {
	client := saferetry.NewClient(&http.Client{Transport: base})
	resp, err := client.Post(url, "", strings.NewReader("x"))
	require.Nil(t, resp)
	report := reportOf(t, resp, err)
	assert.Equal(t, 1, report.Attempts)
	assert.Zero(t, report.Waited)
	assert.Empty(t, report.Failed)
	assert.Equal(t, saferetry.Permanent, report.Reason)
	assert.Equal(t, saferetry.NotSent, report.Outcome)
	return report, err
}

func TestUnknownAuthorityIsPermanent(t *testing.T) {
	server := tlsServer(t, func(*httptest.Server) {})
	_, err := postOnce(t, ownTransport(t), server.URL)

	var authority x509.UnknownAuthorityError
	assert.ErrorAs(t, err, &authority)
	var verification *tls.CertificateVerificationError
	assert.ErrorAs(t, err, &verification)
}

func TestCertificateForAnotherHostIsPermanent(t *testing.T) {
	server := tlsServer(t, func(*httptest.Server) {})
	base := server.Client().Transport.(*http.Transport).Clone()
	base.TLSClientConfig.ServerName = "other.test"
	_, err := postOnce(t, base, server.URL)

	var hostname x509.HostnameError
	assert.ErrorAs(t, err, &hostname)
}

func TestHTTPAnswerToHTTPSIsPermanent(t *testing.T) {
	server := newWireServer(t, func(c *wireConn) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		return false
	})
	_, err := postOnce(t, ownTransport(t), strings.Replace(server.url, "http:", "https:", 1))

	assert.ErrorIs(t, err, http.ErrSchemeMismatch)
	var record tls.RecordHeaderError
	assert.ErrorAs(t, err, &record)
}

// refusingClients answers each handshake by refusing the client's certificate.
// In TLS 1.3 it waits with that until the request has been written.
func refusingClients(certificate tls.Certificate, version uint16, written <-chan struct{}) wireStep {
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    x509.NewCertPool(),
		MaxVersion:   version,
	}
	return func(c *wireConn) bool {
		conn := &refusingConn{bufferedConn: c.buffered()}
		if version == tls.VersionTLS13 {
			conn.written = written
		}
		_ = tls.Server(conn, config).Handshake()
		_, _ = io.Copy(io.Discard, c) // or a reset might overtake the alert
		return false
	}
}

type refusingConn struct {
	bufferedConn
	writes  int
	written <-chan struct{} // nil: do not wait
}

func (c *refusingConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 && c.written != nil {
		<-c.written
	}
	return c.Conn.Write(p)
}

// In TLS 1.2 the server refuses in the handshake; in TLS 1.3 after it, when the
// request may be on its way.
func TestServerThatRefusesTheClientCertificateIsPermanent(t *testing.T) {
	real := tlsServer(t, func(*httptest.Server) {})
	own := real.TLS.Certificates[0] // of an authority that the server does not know
	for name, c := range map[string]struct {
		version     uint16
		certificate *tls.Certificate
		outcome     saferetry.Outcome
	}{
		"unknown authority in TLS 1.2": {tls.VersionTLS12, &own, saferetry.NotSent},
		"unknown authority in TLS 1.3": {tls.VersionTLS13, &own, saferetry.Unknown},
		"no certificate in TLS 1.3":    {tls.VersionTLS13, new(tls.Certificate), saferetry.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			written := make(chan struct{}, 1)
			server := newWireServer(t, refusingClients(own, c.version, written))
			base := real.Client().Transport.(*http.Transport).Clone()
			t.Cleanup(base.CloseIdleConnections)
			base.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return c.certificate, nil
			}
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { written <- struct{}{} },
			})
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.Replace(server.url, "http:", "https:", 1), strings.NewReader("x"))
			require.NoError(t, err)
			resp, err := saferetry.NewTransport(base, atOnce()...).RoundTrip(req)
			require.Nil(t, resp)
			report := reportOf(t, resp, err)

			assert.Equal(t, 1, report.Attempts)
			assert.Equal(t, saferetry.Permanent, report.Reason)
			assert.Equal(t, c.outcome, report.Outcome)
			assert.ErrorContains(t, err, "certificate refused")
			var op *net.OpError
			require.ErrorAs(t, err, &op)
			assert.Equal(t, "remote error", op.Op)
		})
	}
}

// Other alerts may come from a server that is in trouble for a while.
func TestAlertThatIsNotOnTheCertificateIsRetried(t *testing.T) {
	server := tlsServer(t, func(s *httptest.Server) {
		s.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, io.ErrNoProgress }
	})
	client := saferetry.NewClient(server.Client(), atOnce()...)
	resp, err := client.Post(server.URL, "", strings.NewReader("x"))
	require.Nil(t, resp)
	report := reportOf(t, resp, err)

	assert.Equal(t, 4, report.Attempts)
	assert.Equal(t, saferetry.Exhausted, report.Reason)
	assert.Equal(t, saferetry.NotSent, report.Outcome)
}

// A server that is not up yet may break off a handshake; that may go better.
func TestHandshakeThatBreaksOffIsRetried(t *testing.T) {
	for name, breakOff := range map[string]wireStep{"hang-up": hangUp, "reset": resetUnread} {
		t.Run(name, func(t *testing.T) {
			server := newWireServer(t, breakOff)
			client := saferetry.NewClient(&http.Client{Transport: ownTransport(t)}, atOnce(saferetry.WithKeyedMethods())...)
			resp, err := client.Post(strings.Replace(server.url, "http:", "https:", 1), "", bytes.NewReader([]byte("x")))
			require.Nil(t, resp)
			report := reportOf(t, resp, err)
			assert.Equal(t, 4, report.Attempts)
			assert.Equal(t, saferetry.Exhausted, report.Reason)
			assert.Equal(t, saferetry.NotSent, report.Outcome)
		})
	}
}
