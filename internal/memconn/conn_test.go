package memconn

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBytesArriveInOrderAndThenTheEnd(t *testing.T) {
	client, server := newPair()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 3*capacity/16) // more than fits at once
	go func() {
		_, _ = client.Write(sent)
		_ = client.Close()
	}()

	got, err := io.ReadAll(server)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(sent, got))
	_, err = server.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err, "the end stays")
	n, err := server.Read(nil)
	assert.Zero(t, n)
	assert.Equal(t, io.EOF, err)
}

func TestWriteWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newPair()
		n, err := client.Write(make([]byte, capacity))
		require.NoError(t, err)
		require.Equal(t, capacity, n)

		done := make(chan error)
		go func() {
			_, err := client.Write([]byte("x"))
			done <- err
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("written past the capacity")
		default:
		}
		_, err = server.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, <-done)
	})
}

func TestConcurrentWritesAreNotMixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newPair()
		const size = 2 * capacity
		for _, c := range "abc" {
			go func() { _, _ = client.Write(bytes.Repeat([]byte{byte(c)}, size)) }()
		}
		for range 3 {
			block := make([]byte, size)
			_, err := io.ReadFull(server, block)
			require.NoError(t, err)
			assert.Equal(t, size, bytes.Count(block, block[:1]))
		}
	})
}

func TestResetIsSeenAfterWhatWasWritten(t *testing.T) {
	client, server := newPair()
	_, err := server.Write([]byte("half an ans"))
	require.NoError(t, err)
	require.NoError(t, server.Reset())

	got, err := io.ReadAll(client)
	assert.Equal(t, "half an ans", string(got))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	assert.Equal(t, "read", op.Op)

	_, err = client.Write([]byte("x"))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = server.Read(make([]byte, 1))
	assert.ErrorIs(t, err, net.ErrClosed, "the end that reset has closed")
	assert.ErrorIs(t, server.Close(), net.ErrClosed)
}

func TestWriteToAClosedPeerIsABrokenPipe(t *testing.T) {
	client, server := newPair()
	require.NoError(t, server.Close())
	_, err := client.Write([]byte("x"))
	assert.ErrorIs(t, err, syscall.EPIPE)
	_, err = client.Read(make([]byte, 1))
	assert.Equal(t, io.EOF, err)
}

func TestCloseEndsWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := newPair()
		_, err := client.Write(make([]byte, capacity))
		require.NoError(t, err)
		ended := make(chan error)
		for range 3 { // one signal must reach them all
			go func() {
				_, err := client.Read(make([]byte, 1))
				ended <- err
			}()
			go func() {
				_, err := client.Write([]byte("x"))
				ended <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, client.Close())
		for range 6 {
			assert.ErrorIs(t, <-ended, net.ErrClosed)
		}
		assert.ErrorIs(t, client.SetDeadline(time.Now()), net.ErrClosed)
		assert.ErrorIs(t, client.SetWriteDeadline(time.Now()), net.ErrClosed)
	})
}

func TestResetWakesAWriterThatWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newPair()
		go func() {
			synctest.Wait()
			_ = server.Reset()
		}()
		n, err := client.Write(make([]byte, capacity+1))
		assert.Equal(t, capacity, n)
		assert.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := newPair()
		start := time.Now()

		require.NoError(t, client.SetDeadline(start.Add(3*time.Second)))
		require.NoError(t, client.SetReadDeadline(start.Add(time.Second))) // replaces it
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.Equal(t, time.Second, time.Since(start))

		_, err = client.Write(make([]byte, capacity+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(start))

		require.NoError(t, client.SetReadDeadline(time.Unix(1, 0))) // as net/http does
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		require.NoError(t, client.SetReadDeadline(time.Time{}))
		ended := make(chan error)
		go func() {
			_, err := client.Read(make([]byte, 1))
			ended <- err
		}()
		time.Sleep(time.Hour)
		select {
		case <-ended:
			t.Fatal("a cleared deadline still ends the read")
		default:
		}
		require.NoError(t, client.SetReadDeadline(time.Now())) // ends one that waits
		require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
	})
}

func TestListenerRefusesOnceClosed(t *testing.T) {
	l := Listen()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	client, err := l.Dial(context.Background())
	require.NoError(t, err)
	server := <-accepted
	assert.Equal(t, client.LocalAddr(), server.RemoteAddr())
	assert.Equal(t, client.RemoteAddr(), server.LocalAddr())
	assert.Equal(t, "mem server", l.Addr().Network()+" "+l.Addr().String())

	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err = l.Dial(context.Background())
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = l.Accept()
	assert.ErrorIs(t, err, net.ErrClosed)

	_, err = client.Write([]byte("x")) // what was accepted stays
	assert.NoError(t, err)
}

func TestDialEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Listen().Dial(ctx)
	assert.ErrorIs(t, err, context.Canceled)
}

// A server outside of a bubble may be used from inside, as a socket may.
func TestClientInABubbleServerOutside(t *testing.T) {
	l := Listen()
	defer l.Close()
	go func() {
		c, _ := l.Accept()
		_, _ = io.Copy(c, c)
		_ = c.Close()
	}()
	synctest.Test(t, func(t *testing.T) {
		c, err := l.Dial(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		got := make([]byte, 5)
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(got))
		require.NoError(t, c.Close())
	})
}
