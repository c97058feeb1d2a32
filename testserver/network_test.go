package testserver

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryWayToReachAServer(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := New(t, way.opts...)
			for _, c := range []*http.Client{s.Client(), {Transport: s.Transport()}} {
				got := do(t, s, c, "POST", "/v1/charges", chargeBody, "Idempotency-Key", "k")
				require.NoError(t, got.err)
				assert.Equal(t, 201, got.status)
				assert.Equal(t, way.proto, got.proto)
			}
			assert.Equal(t, 1, s.Executions("k"))
		})
	}
}

func TestTransportReachesTheServerUnderAnyHost(t *testing.T) {
	for _, way := range ways {
		s := New(t, way.opts...)
		scheme, _, _ := cutScheme(s.URL)
		s.URL = scheme + "://api.example.com"
		c := &http.Client{Transport: s.Transport()}
		assert.Equal(t, 200, do(t, s, c, "GET", "/v1/charges", "").status, way.name)
	}
}

func cutScheme(url string) (scheme, rest string, ok bool) {
	u, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return "", "", false
	}
	return u.URL.Scheme, u.URL.Host, true
}

func TestOnlyItsOwnClientTrustsTheServer(t *testing.T) {
	s, other := New(t, WithTLS()), New(t, WithTLS())
	var unknown x509.UnknownAuthorityError
	assert.ErrorAs(t, do(t, s, other.Client(), "GET", "/v1/charges", "").err, &unknown)
	assert.ErrorAs(t, do(t, s, &http.Client{}, "GET", "/v1/charges", "").err, &unknown)
}

// net/http would repeat these on a connection that was used before, and a fault
// would seem to have struck nobody.
func TestClientDoesNotRetry(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := New(t, way.opts...)
			c := s.Client()
			require.NoError(t, do(t, s, c, "GET", "/v1/charges", "").err)
			s.Script(NeverSaw(), CrashAfterWrite())
			assert.Error(t, do(t, s, c, "GET", "/v1/charges", "").err)
			assert.Error(t, do(t, s, c, "POST", "/v1/charges", chargeBody, "Idempotency-Key", "k").err)
			assert.Len(t, s.Faults(), 3)
		})
	}
}

func TestDownRefusesAndUpComesBackOnTheSameAddress(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := New(t, way.opts...)
			memory := &http.Client{Transport: s.Transport()}
			url := s.URL
			require.Equal(t, 201, charge(t, s, "k").status)
			for range 2 {
				s.Down()
				s.Down()
				assert.ErrorIs(t, charge(t, s, "k").err, syscall.ECONNREFUSED)
				assert.ErrorIs(t, do(t, s, memory, "GET", "/v1/charges", "").err, syscall.ECONNREFUSED)
				require.NoError(t, s.Up())
				require.NoError(t, s.Up())
				assert.True(t, charge(t, s, "k").replayed())
				assert.NoError(t, do(t, s, memory, "GET", "/v1/charges", "").err)
			}
			assert.Equal(t, url, s.URL)
			assert.Len(t, s.Requests(), 5, "one before, two each time it was up")
		})
	}
}

func TestDownCutsOpenConnections(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := New(t, append(way.opts, WithLatency(50*time.Millisecond))...)
			lost := make(chan outcome)
			go func() { lost <- charge(t, s, "k") }()
			require.Eventually(t, func() bool { return len(s.Requests()) == 1 }, 10*time.Second, time.Millisecond)
			s.Down()
			got := <-lost
			if way.proto == "HTTP/1.1" {
				assert.ErrorIs(t, got.err, syscall.ECONNRESET)
			} else {
				assert.Error(t, got.err)
			}
			require.NoError(t, s.Up())
			assert.Eventually(t, func() bool { return s.Executions("k") == 1 }, 10*time.Second, time.Millisecond,
				"what was being handled is handled to its end")
			assert.True(t, charge(t, s, "k").replayed())
		})
	}
}

func TestDownCutsIdleConnections(t *testing.T) {
	s := New(t)
	c, err := net.Dial("tcp", s.network.addr)
	require.NoError(t, err)
	defer c.Close()
	require.Eventually(t, func() bool { return len(openConns(s)) == 1 }, 10*time.Second, time.Millisecond)
	s.Down()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestUpFailsWhileItsAddressIsTaken(t *testing.T) {
	s := New(t)
	s.Down()
	other, err := net.Listen("tcp", s.network.addr)
	require.NoError(t, err)
	assert.ErrorIs(t, s.Up(), syscall.EADDRINUSE)
	require.NoError(t, other.Close())
	require.NoError(t, s.Up())
	assert.Equal(t, 201, charge(t, s, "k").status)
}

func TestCloseWhileDown(t *testing.T) {
	s := New(t)
	s.Down()
	s.Close()
	assert.EqualError(t, s.Up(), "testserver: Up: the server is closed")
}

// In a bubble all waits pass at once, and on the dot, over every protocol.
func TestFaultsInABubble(t *testing.T) {
	for _, way := range ways[3:] {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(t, way.opts...)
				took := func(f Fault, wait time.Duration, status int, executions int) {
					t.Helper()
					key := f.String()
					s.ScriptKey(key, f)
					start := time.Now()
					assert.Equal(t, status, charge(t, s, key).status)
					assert.Equal(t, wait, time.Since(start))
					assert.Equal(t, executions, s.Executions(key))
				}
				took(None(), 0, 201, 1)
				took(NeverSaw(), 0, 0, 0)
				took(CrashAfterWrite(), 0, 0, 1)
				took(DropResponse(10), 0, 201, 1)
				took(Answer(503), 0, 503, 0)
				took(FailAfterWrite(502), 0, 502, 1)
				took(Stall(time.Hour), time.Hour, 201, 1)
				took(StallAfterWrite(time.Hour), time.Hour, 201, 1)

				took(CrashBeforeWrite(), 0, 0, 0)
				time.Sleep(time.Minute)
				assert.Equal(t, 201, charge(t, s, "crash-before-write").status)
			})
		})
	}
}

// A client that gives up on a stalled request has it performed all the same.
func TestAStalledRequestIsHandledThoughItsClientHasGone(t *testing.T) {
	for _, way := range ways[3:] {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(t, way.opts...)
				s.Script(Stall(2 * time.Second))
				c := s.Client()
				c.Timeout = time.Second
				got := do(t, s, c, "POST", "/v1/charges", chargeBody, "Idempotency-Key", "k")
				require.ErrorIs(t, got.err, context.DeadlineExceeded)
				assert.Zero(t, s.Executions("k"))
				time.Sleep(time.Second - time.Nanosecond)
				assert.Zero(t, s.Executions("k"))
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				assert.Equal(t, 1, s.Executions("k"))
				assert.True(t, charge(t, s, "k").replayed())
			})
		})
	}
}

// Nobody is left to be answered: the wait need not go on.
func TestStallAfterWriteEndsWhenItsClientHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener())
		s.Script(StallAfterWrite(time.Hour))
		c := s.Client()
		c.Timeout = time.Second
		start := time.Now()
		require.Error(t, do(t, s, c, "POST", "/v1/charges", chargeBody, "Idempotency-Key", "k").err)
		s.inFlight.Wait()
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, 1, s.Executions("k"))
	})
}

// A server made outside a bubble serves clients inside.
func TestAServerOutsideTheBubble(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := New(t, way.opts...)
			synctest.Test(t, func(t *testing.T) {
				s.Script(None(), CrashAfterWrite(), DropResponse(3), StallAfterWrite(10*time.Millisecond))
				for _, c := range []*http.Client{s.Client(), {Transport: s.Transport()}} {
					for range 2 {
						do(t, s, c, "POST", "/v1/charges", chargeBody, "Idempotency-Key", "k")
					}
					c.CloseIdleConnections()
				}
			})
			assert.Equal(t, 1, s.Executions("k"))
			assert.Len(t, s.Requests(), 4)
		})
	}
}
