package saferetry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// plainError is an error of this package's own. Its text holds nothing of a
// request and may be shown.
type plainError string

func (e plainError) Error() string { return "saferetry: " + string(e) }

const (
	errNoAnswer   plainError = "the base transport returned neither a response nor an error"
	errGivenUp    plainError = "read of a request body whose attempt is over"
	errNoBody     plainError = "it returned neither a body nor an error"
	errNilURL     plainError = "request has no URL: want one"
	errForgotten  plainError = "request body is longer than WithBodyBuffer and cannot be sent again"
	errNilContext plainError = "Do has a nil context: want one"
	errNilCall    plainError = "Do has a nil call: want a function"
)

// callerError is an error that something of the caller's returned: its request
// body, GetBody or key function.
type callerError struct {
	what string
	err  error
}

func (e *callerError) Error() string { return "saferetry: " + e.what + ": " + e.err.Error() }
func (e *callerError) Unwrap() error { return e.err }

// attemptTimeout is the error of an attempt that got no answer in time. It is
// a timeout as net's are, and neither the caller's deadline nor a cancellation.
type attemptTimeout struct{}

func (attemptTimeout) Error() string {
	return "saferetry: no response headers within the attempt timeout"
}
func (attemptTimeout) Timeout() bool        { return true }
func (attemptTimeout) Temporary() bool      { return true }
func (attemptTimeout) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// interrupted is the error of an operation whose context ended: what the
// context says, its cause, and what the attempt that was cut off returned.
type interrupted struct{ ctx, cause, attempt error }

func interruption(ctx context.Context, attempt error) error {
	return &interrupted{ctx.Err(), context.Cause(ctx), attempt}
}

func (e *interrupted) Error() string { return e.ctx.Error() }

func (e *interrupted) Unwrap() []error {
	errs := []error{e.ctx}
	for _, err := range []error{e.cause, e.attempt} {
		if err != nil && err != e.ctx {
			errs = append(errs, err)
		}
	}
	return errs
}

// stopped is the reason of an operation whose context is done.
func stopped(ctx context.Context) StopReason {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Deadline
	}
	return Canceled
}

// schemeMismatch tells a plain HTTP answer to a TLS handshake by the value that
// net/http exports for it. http.Client does the same, but only with an error
// that nobody has wrapped.
func schemeMismatch(err error) error {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		return fmt.Errorf("%w: %w", http.ErrSchemeMismatch, err)
	}
	return err
}

// isTimeout asks every error in the chain: a *url.Error or *net.OpError looks no
// further than the error it holds, and says no where that is a wrapper.
func isTimeout(err error) bool {
	var t interface {
		error
		Timeout() bool
	}
	for errors.As(err, &t) {
		if t.Timeout() {
			return true
		}
		err = errors.Unwrap(t)
	}
	return false
}

// isCertificateRefusal is true when either side refused the other's
// certificate: the next attempt would bring the same one.
func isCertificateRefusal(err error) bool {
	return isServerCertificateRefusal(err) || isClientCertificateRefusal(err)
}

func isServerCertificateRefusal(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) ||
		errors.As(err, &hostname) || errors.As(err, &invalid)
}

// isClientCertificateRefusal looks for the server's alert. Over TCP crypto/tls
// reports it in a *net.OpError, as a type that it does not export but that has
// the text of the one it does.
func isClientCertificateRefusal(err error) bool {
	var op *net.OpError
	remote := errors.As(err, &op) && op.Op == "remote error" && op.Err != nil
	for _, alert := range certificateAlerts {
		if errors.Is(err, alert) || remote && op.Err.Error() == alert.Error() {
			return true
		}
	}
	return false
}

// certificateAlerts are the TLS alerts (RFC 8446, section 6.2) by which a server
// refuses the client's certificate, or the lack of one.
var certificateAlerts = [...]tls.AlertError{
	42,  // bad_certificate
	43,  // unsupported_certificate
	44,  // certificate_revoked
	45,  // certificate_expired
	46,  // certificate_unknown
	48,  // unknown_ca
	49,  // access_denied
	116, // certificate_required
}

// isConnectFailure is true for errors that only occur before there is a
// connection to send a request on.
func isConnectFailure(err error) bool {
	var (
		op     *net.OpError
		dns    *net.DNSError
		record tls.RecordHeaderError
	)
	if errors.As(err, &dns) {
		return true
	}
	if errors.As(err, &op) && op.Op != "dial" && op.Op != "proxyconnect" {
		return false // such as a datagram that was refused after others were taken
	}
	return op != nil || errors.As(err, &record) || errors.Is(err, syscall.ECONNREFUSED) ||
		errors.Is(err, http.ErrSchemeMismatch) || isServerCertificateRefusal(err)
}

// isConnectionError is true for errors of a connection, by type: one that could
// not be had, or that broke.
func isConnectionError(err error) bool {
	var (
		op   *net.OpError
		link *url.Error
	)
	for _, lost := range []error{io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.ECONNABORTED,
		syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT} {
		if errors.Is(err, lost) {
			return true
		}
	}
	// A bare io.EOF is the end of anything; inside a *url.Error it is a server that hung up.
	return isConnectFailure(err) || errors.As(err, &op) || errors.As(err, &link) && errors.Is(link.Err, io.EOF)
}

// isMalformed is true for a request that net/http refuses to send. It exports
// neither a type nor a value for that, so the request is looked at instead; the
// scheme alone, which a base transport may well know, needs the text too.
func isMalformed(req *http.Request, err error) bool {
	if req == nil || req.URL == nil {
		return false
	}
	switch req.URL.Scheme {
	case "http", "https":
		if req.URL.Host == "" {
			return true
		}
	default:
		if strings.Contains(err.Error(), "unsupported protocol scheme") {
			return true
		}
	}
	for _, name := range []string{"Transfer-Encoding", "Trailer", "Content-Length"} {
		if _, ok := req.Trailer[name]; ok {
			return true
		}
	}
	return req.Method != "" && !isToken(req.Method) || !isWritable(req.Header) || !isWritable(req.Trailer) ||
		hasControl(req.Host) || hasControl(req.URL.RequestURI())
}

// isWritable reports whether every field of h can be written on the wire (RFC
// 9110, section 5).
func isWritable(h http.Header) bool {
	for name, values := range h {
		if !isToken(name) {
			return false
		}
		for _, value := range values {
			if hasControl(strings.ReplaceAll(value, "\t", " ")) {
				return false
			}
		}
	}
	return true
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// errorClass says what kind of error err is, in words that hold nothing of the
// request.
func errorClass(err error) string {
	var (
		plain plainError
		own   *callerError
		errno syscall.Errno
		dns   *net.DNSError
	)
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &plain):
		return string(plain)
	case errors.As(err, &own):
		return own.what + " failed"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case isTimeout(err):
		return "timeout"
	case isCertificateRefusal(err):
		return "certificate refused"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "HTTP answer to an HTTPS request"
	case errors.As(err, &dns):
		return "no such host"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "connection closed by the server"
	default:
		return fmt.Sprintf("%T", innermost(err))
	}
}

func innermost(err error) error {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}
