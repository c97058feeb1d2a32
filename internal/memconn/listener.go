package memconn

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// A Listener accepts the connections that Dial makes. It is safe for concurrent
// use.
type Listener struct {
	dialed chan *Conn // the client's ends
	done   chan struct{}
	close  sync.Once
}

// Listen returns a listener that Dial can reach until it is closed.
func Listen() *Listener {
	return &Listener{dialed: make(chan *Conn), done: make(chan struct{})}
}

// Accept waits for the next Dial. It makes both ends itself: what they wait on
// then belongs to the server, so that a client inside a testing/synctest bubble
// can use a server outside of it.
func (l *Listener) Accept() (net.Conn, error) {
	client, server := newPair()
	select {
	case l.dialed <- client:
		return server, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: network, Addr: l.Addr(), Err: net.ErrClosed}
	}
}

// Dial returns the client's end of a new connection. Once the listener is
// closed it fails with ECONNREFUSED.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	var err error
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.done:
		err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: l.Addr(), Err: err}
}

// Close refuses further connections. Those already made stay.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

// Addr is the listener's address.
func (l *Listener) Addr() net.Addr { return Addr("server") }
