package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
)

// explain says in a few words, without an address that may have credentials, why
// there is no answer.
func explain(err error) string {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	dns := (*net.DNSError)(nil)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case err == io.EOF:
		return "connection closed"
	case errors.As(err, &dns):
		return "no such host"
	case isCertificate(err):
		return fmt.Sprintf("TLS: %v (-k accepts it)", certificateError(err))
	case isTLS(err):
		return fmt.Sprintf("TLS: %v", inner(err))
	}
	return err.Error()
}

// notReached reports whether err shows that no connection was had.
func notReached(err error) bool {
	op := (*net.OpError)(nil)
	dial := errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
	return !errors.Is(err, context.Canceled) && (dial || isCertificate(err) || isTLS(err))
}

func isCertificate(err error) bool {
	v := (*tls.CertificateVerificationError)(nil)
	return errors.As(err, &v) || errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.HostnameError))
}

func certificateError(err error) error {
	if v := (*tls.CertificateVerificationError)(nil); errors.As(err, &v) {
		return v.Err
	}
	return err
}

// errHTTPToHTTPS is what net/http answers with where a server speaks plain HTTP. It exports no value for it.
const errHTTPToHTTPS = "http: server gave HTTP response to HTTPS client"

func isTLS(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, new(tls.RecordHeaderError)) || errors.As(err, new(tls.AlertError)) ||
		errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") ||
		err != nil && inner(err).Error() == errHTTPToHTTPS
}

func inner(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}
