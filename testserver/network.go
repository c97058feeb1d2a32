package testserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/saferetry/saferetry/internal/memconn"
)

// memoryHost is the host in the URL of a server without a listener.
const memoryHost = "testserver"

// A network is where a server is reached: at a socket, in memory, or both.
type network struct {
	url    string
	server *http.Server
	tls    bool
	http2  bool
	roots  *x509.CertPool // trusts the server's certificate; nil without TLS

	mu      sync.Mutex
	closed  bool
	down    bool
	memory  *memconn.Listener
	socket  net.Listener // nil: none
	addr    string       // the socket's, for Up
	serving sync.WaitGroup

	connsMu sync.Mutex
	conns   map[net.Conn]struct{}
	open    sync.WaitGroup // one for each of conns
}

// newNetwork starts to serve handler.
func newNetwork(c config, handler http.Handler) (*network, error) {
	n := &network{tls: c.tls, http2: c.http2, conns: make(map[net.Conn]struct{})}
	n.server = &http.Server{
		Handler:   handler,
		ConnState: n.track,
		ErrorLog:  log.New(io.Discard, "", 0), // broken connections are the purpose
		Protocols: new(http.Protocols),
	}
	n.server.Protocols.SetHTTP1(true)
	n.server.Protocols.SetHTTP2(c.http2)
	host := memoryHost
	if !c.noListener {
		var err error
		if n.socket, err = net.Listen("tcp", c.addr); err != nil {
			return nil, err
		}
		n.addr = n.socket.Addr().String()
		host = reachable(n.addr)
	}
	n.url = "http://" + host
	if c.tls {
		n.url = "https://" + host
		cert, roots := newCertificate(host)
		n.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
		n.roots = roots
	}
	n.memory = memconn.Listen()
	n.serve(n.memory)
	if n.socket != nil {
		n.serve(n.socket)
	}
	return n, nil
}

// reachable returns the address to dial for a listener's.
func reachable(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	if net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// serve accepts connections until l is closed.
func (n *network) serve(l net.Listener) {
	n.serving.Go(func() {
		if n.tls {
			n.server.ServeTLS(l, "", "")
			return
		}
		n.server.Serve(l)
	})
}

// track keeps the connections that are open.
func (n *network) track(c net.Conn, state http.ConnState) {
	n.connsMu.Lock()
	defer n.connsMu.Unlock()
	switch state {
	case http.StateNew:
		n.open.Add(1)
		n.conns[c] = struct{}{}
	case http.StateHijacked, http.StateClosed:
		delete(n.conns, c)
		n.open.Done()
	}
}

// cutAll resets the connections that are open.
func (n *network) cutAll() {
	n.connsMu.Lock()
	defer n.connsMu.Unlock()
	for c := range n.conns {
		resetConn(rawConn(c))
	}
}

// stopListening returns when nothing is accepted any more.
func (n *network) stopListening() {
	n.memory.Close()
	if n.socket != nil {
		n.socket.Close()
	}
	n.serving.Wait()
}

// Down takes the server off the network: open connections are reset, further ones
// refused, over sockets and in memory. Requests that are being handled are
// handled to their end; their answers are lost. Down when down does nothing.
func (s *Server) Down() {
	n := s.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down || n.closed {
		return
	}
	n.down = true
	n.stopListening()
	n.cutAll()
}

// Up brings the server back on the same address, with all it knows. It fails if
// something else has taken the address in the meantime, or if the server is
// closed. Up when up does nothing.
func (s *Server) Up() error {
	n := s.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return errors.New("testserver: Up: the server is closed")
	}
	if !n.down {
		return nil
	}
	if n.socket != nil {
		socket, err := net.Listen("tcp", n.addr)
		if err != nil {
			return err
		}
		n.socket = socket
		n.serve(socket)
	}
	n.memory = memconn.Listen()
	n.serve(n.memory)
	n.down = false
	return nil
}

// close ends all connections and returns when their goroutines are done.
func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.stopListening()
	n.server.Close()
	n.open.Wait()
}
