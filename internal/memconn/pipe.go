package memconn

import (
	"io"
	"sync"
	"syscall"
	"time"
)

// capacity is how many written and unread bytes one direction holds, as a
// socket's buffer does: past it a writer waits for the reader.
const capacity = 64 << 10

// A pipe is one direction of a connection. Waiting is done on channels made
// with the pipe, so that a goroutine of a testing/synctest bubble waits
// durably on a pipe of its own bubble, and may still use one from outside.
type pipe struct {
	readable, writable chan struct{} // capacity 1: something has changed, look again

	mu    sync.Mutex
	buf   []byte
	ended bool  // the writing end was closed: io.EOF after buf
	err   error // the reading end is gone, or the connection was reset
}

func newPipe() *pipe {
	return &pipe{readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// signal makes one waiter on c look again, now or when it next waits.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take moves what is there into b. It reports false when there is nothing to
// say yet. A reset is told after the bytes that arrived before it.
func (p *pipe) take(b []byte) (n int, err error, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.buf) > 0:
		n = copy(b, p.buf)
		p.buf = p.buf[n:]
		signal(p.writable)
		return n, nil, true
	case p.err != nil:
		return 0, p.err, true
	case p.ended:
		return 0, io.EOF, true
	}
	return 0, nil, len(b) == 0
}

// put appends as much of b as there is room for.
func (p *pipe) put(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return 0, p.err
	}
	n = min(len(b), capacity-len(p.buf))
	p.buf = append(p.buf, b[:n]...)
	signal(p.readable)
	return n, nil
}

// end is the writer's close: the reader gets io.EOF once it has read the rest.
func (p *pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	signal(p.readable)
}

// fail makes what follows fail with err: a writer at once, a reader after the
// bytes that are there. The first error stays.
func (p *pipe) fail(err syscall.Errno) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	signal(p.readable)
	signal(p.writable)
}

// A deadline says whether its time has passed, and signals when it does.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed bool
}

func (d *deadline) set(t time.Time, wake chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.passed = true
		signal(wake)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == timer { // not one that was replaced while it fired
			d.passed = true
			signal(wake)
		}
	})
	d.timer = timer
}

func (d *deadline) isPassed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}
