package postgres_test

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A network is what lies between a pool and the database, and can fail. Its connections are real ones.
type network struct {
	mu    sync.Mutex
	down  bool
	sent  int   // messages
	next  fault // of the next message that a connection sends
	conns map[*conn]bool
}

type fault int

const (
	loseMessage fault = iota + 1 // it does not arrive
	loseAnswer                   // it arrives, and is answered, and the answer does not arrive
)

// newNetwork returns a network and a pool across it, whose statements are each one message and one answer: nothing is
// prepared before.
func newNetwork(t testing.TB, schema string) (*network, *pgxpool.Pool) {
	n := &network{conns: make(map[*conn]bool)}
	pool := newPool(t, schema, func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = n.dial
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	})
	return n, pool
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, syscall.ECONNREFUSED
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	faulty := &conn{Conn: c, n: n}
	n.conns[faulty] = true
	return faulty, nil
}

// setDown takes the network down, with every connection, or up again.
func (n *network) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for c := range n.conns {
		c.Conn.Close()
		delete(n.conns, c)
	}
}

// fail has the next message that is sent fail with f.
func (n *network) fail(f fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next = f
}

// trips returns how many messages f sends, each of which is answered before the next.
func (n *network) trips(f func()) int {
	n.mu.Lock()
	before := n.sent
	n.mu.Unlock()
	f()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent - before
}

// take returns the fault that is due, which is then none.
func (n *network) take() fault {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent++
	f := n.next
	n.next = 0
	return f
}

type conn struct {
	net.Conn
	n  *network
	mu sync.Mutex
	no bool // answer arrives
}

func (c *conn) Write(p []byte) (int, error) {
	switch c.n.take() {
	case loseMessage:
		c.Conn.Close()
		return 0, syscall.ECONNRESET
	case loseAnswer:
		c.mu.Lock()
		c.no = true
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.no {
		c.Conn.Close()
		return 0, syscall.ECONNRESET
	}
	return n, err
}
