package testserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// Client returns a new client that trusts the server's certificate and does not
// retry. Nor does net/http below it, which would repeat a request on its own when
// a reused connection dies: over HTTP/1.1 each request has a connection of its
// own, and sees the fault meant for it. In HTTP/2 requests share a connection.
func (s *Server) Client() *http.Client {
	if s.config.noListener {
		return &http.Client{Transport: s.Transport()}
	}
	return &http.Client{Transport: s.network.transport()}
}

// Transport returns a new transport that reaches the server over connections in
// memory, whatever host a request names, with net/http on both ends. Where it is
// made in the same testing/synctest bubble as the server, waiting for an answer
// lets the bubble's clock move. It is otherwise as Client's: an *http.Transport
// that does not keep HTTP/1.1 connections.
func (s *Server) Transport() http.RoundTripper {
	t := s.network.transport()
	t.DialContext = s.network.dialMemory
	if t.TLSClientConfig != nil {
		t.TLSClientConfig.ServerName = memoryHost
	}
	return t
}

func (n *network) transport() *http.Transport {
	t := &http.Transport{DisableKeepAlives: !n.http2, ForceAttemptHTTP2: n.http2}
	if n.tls {
		t.TLSClientConfig = &tls.Config{RootCAs: n.roots}
	}
	return t
}

func (n *network) dialMemory(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	l := n.memory
	n.mu.Unlock()
	return l.Dial(ctx)
}
