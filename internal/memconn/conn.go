// Package memconn has network connections that live in memory: a net.Listener
// and the dialer that reaches it. Its connections behave as TCP's do where
// net/http can tell: they buffer, keep deadlines, end with io.EOF, and a reset
// is seen by the peer as ECONNRESET.
//
// Unlike a socket they let the clock of a testing/synctest bubble move: a
// goroutine that waits for one of its own bubble's connections is durably
// blocked.
package memconn

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// A Conn is one end of a connection. It is safe for concurrent use.
type Conn struct {
	in, out       *pipe
	read, write   deadline
	writing       chan struct{} // held by the one writer whose bytes go out
	closed        atomic.Bool
	local, remote Addr
}

// newPair returns the two ends of a new connection.
func newPair() (client, server *Conn) {
	up, down := newPipe(), newPipe()
	client = &Conn{in: down, out: up, writing: make(chan struct{}, 1), local: "client", remote: "server"}
	server = &Conn{in: up, out: down, writing: make(chan struct{}, 1), local: "server", remote: "client"}
	return client, server
}

// Read waits for bytes, the end, a reset, or the read deadline.
func (c *Conn) Read(b []byte) (int, error) {
	// A spare signal costs a look, and lets another reader see the same end.
	defer signal(c.in.readable)
	for {
		if c.closed.Load() {
			return 0, c.failed("read", net.ErrClosed)
		}
		if c.read.isPassed() {
			return 0, c.failed("read", os.ErrDeadlineExceeded)
		}
		if n, err, ok := c.in.take(b); ok {
			return n, c.failed("read", err)
		}
		<-c.in.readable
	}
}

// Write returns once all of b is on its way, or with the error that kept the
// rest back.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	sent := 0
	for {
		if c.closed.Load() {
			return sent, c.failed("write", net.ErrClosed)
		}
		if c.write.isPassed() {
			return sent, c.failed("write", os.ErrDeadlineExceeded)
		}
		n, err := c.out.put(b[sent:])
		sent += n
		if err != nil || sent == len(b) {
			return sent, c.failed("write", err)
		}
		if n == 0 {
			<-c.out.writable
		}
	}
}

// Close ends the connection: the peer reads what was written, then io.EOF; what
// it writes from now on fails with EPIPE. Waiting calls on this end return
// net.ErrClosed.
func (c *Conn) Close() error {
	return c.close(func() {
		c.out.end()
		c.in.fail(syscall.EPIPE)
	})
}

// Reset ends the connection as a TCP reset does: the peer reads what was
// written, then gets ECONNRESET, and at once for what it writes.
func (c *Conn) Reset() error {
	return c.close(func() {
		c.out.fail(syscall.ECONNRESET)
		c.in.fail(syscall.ECONNRESET)
	})
}

func (c *Conn) close(tell func()) error {
	if c.closed.Swap(true) {
		return c.failed("close", net.ErrClosed)
	}
	c.read.set(time.Time{}, nil)
	c.write.set(time.Time{}, nil)
	tell()
	signal(c.in.readable)
	signal(c.out.writable)
	return nil
}

// SetDeadline sets both deadlines. The zero time is none; one in the past ends
// waiting calls at once.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline is SetDeadline for Read alone.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.read, t, c.in.readable)
}

// SetWriteDeadline is SetDeadline for Write alone.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(&c.write, t, c.out.writable)
}

func (c *Conn) setDeadline(d *deadline, t time.Time, wake chan struct{}) error {
	if c.closed.Load() {
		return c.failed("set", net.ErrClosed)
	}
	d.set(t, wake)
	if c.closed.Load() { // in the meantime: leave no timer
		d.set(time.Time{}, nil)
	}
	return nil
}

// LocalAddr is the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// failed dresses err as package net does, apart from io.EOF, which stays bare.
func (c *Conn) failed(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}

// An Addr names an end of a connection, or a listener.
type Addr string

const network = "mem"

// Network is "mem".
func (Addr) Network() string { return network }

// String is the name itself.
func (a Addr) String() string { return string(a) }
