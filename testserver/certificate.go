package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"time"
)

// newCertificate makes a certificate that signs itself, for host and the names of
// the local machine, and the pool that trusts it. It is valid on any date a test may run at: the clock of a testing/synctest
// bubble starts in 2000.
func newCertificate(host string) (tls.Certificate, *x509.CertPool) {
	key := must1(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{Organization: []string{"saferetry testserver"}},
		NotBefore:             time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{memoryHost, "localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	der := must1(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	roots := x509.NewCertPool()
	leaf := must1(x509.ParseCertificate(der))
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots
}

// must1 is for what fails only if the process has no randomness, or this file a
// mistake.
func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
