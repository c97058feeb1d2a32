package testserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewIsClosedByTheTestsCleanup(t *testing.T) {
	var s *Server
	t.Run("inner", func(t *testing.T) {
		s = New(t)
		require.Equal(t, 201, charge(t, s, "k").status)
	})
	assert.ErrorIs(t, charge(t, s, "k").err, syscall.ECONNREFUSED)
	assert.Len(t, s.Charges(), 1, "what it recorded can still be asked for")
}

// A tb is a testing.TB whose Fatal is seen.
type tb struct {
	testing.TB
	fatal []any
}

func (t *tb) Helper() {}

func (t *tb) Fatal(args ...any) {
	t.fatal = args
	runtime.Goexit()
}

func TestNewFailsTheTestWhenItCannotListen(t *testing.T) {
	taken := New(t)
	fake := &tb{}
	var done sync.WaitGroup
	done.Go(func() { New(fake, WithAddr(taken.network.addr)) })
	done.Wait()
	require.Len(t, fake.fatal, 1)
	assert.ErrorIs(t, fake.fatal[0].(error), syscall.EADDRINUSE)
}

func TestStartFailsWhenItCannotListen(t *testing.T) {
	for _, addr := range []string{New(t).network.addr, "no port", "256.0.0.1:0"} {
		s, err := Start(WithAddr(addr))
		assert.Error(t, err)
		assert.Nil(t, s)
	}
}

func TestWithAddr(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:0": "https://127.0.0.1:",
		"127.0.0.2:0": "https://127.0.0.2:",
		"localhost:0": "https://127.0.0.1:",
		"0.0.0.0:0":   "https://127.0.0.1:",
		":0":          "https://127.0.0.1:",
	} {
		s := New(t, WithAddr(addr), WithTLS())
		assert.Contains(t, s.URL, want)
		assert.Equal(t, 201, charge(t, s, "k").status, addr)
	}
}

func TestAWrongOptionPanics(t *testing.T) {
	for want, opt := range map[string]func() Option{
		"testserver: WithRetention: 0s: want more than 0":                func() Option { return WithRetention(0) },
		"testserver: WithLease: -1s: want more than 0":                   func() Option { return WithLease(-time.Second) },
		"testserver: WithLatency: -1ns: want 0 or more":                  func() Option { return WithLatency(-1) },
		`testserver: WithAddr: "": want an address, such as 127.0.0.1:0`: func() Option { return WithAddr("") },
		"testserver: WithTenant: nil: want a function":                   func() Option { return WithTenant(nil) },
	} {
		assert.PanicsWithValue(t, want, func() { Start(opt()) })
	}
}

func TestLatencyIsTheHandlersNotTheReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, WithoutListener(), WithLatency(time.Minute))
		took := func(f func() outcome) time.Duration {
			start := time.Now()
			f()
			return time.Since(start)
		}
		assert.Equal(t, time.Minute, took(func() outcome { return charge(t, s, "k") }))
		assert.Zero(t, took(func() outcome { return charge(t, s, "k") }))
		assert.Zero(t, took(func() outcome { return charge(t, s, "no key") }))
		assert.Equal(t, time.Minute, took(func() outcome { return do(t, s, s.Client(), "GET", "/v1/charges", "") }))
		s.Script(Answer(503))
		assert.Zero(t, took(func() outcome { return charge(t, s, "other") }))
	})
}

// Stalled before or after, or slow: no clock that will not move keeps Close.
func TestCloseEndsRequestsThatAreStalled(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := New(t, append(way.opts, WithLatency(time.Hour))...)
			s.ScriptKey("before", Stall(time.Hour))
			s.ScriptKey("", StallAfterWrite(time.Hour))
			ended := make(chan outcome)
			for _, key := range []string{"before", "slow"} {
				go func() { ended <- charge(t, s, key) }()
			}
			go func() { ended <- do(t, s, s.Client(), "POST", "/v1/charges", chargeBody) }() // 400, an hour late
			require.Eventually(t, func() bool { return len(s.Requests()) == 3 }, 10*time.Second, time.Millisecond)
			s.Close()
			for range 3 {
				assert.Error(t, (<-ended).err)
			}
			assert.Empty(t, s.Charges())
		})
	}
}

func TestCloseTwiceAndFromManyGoroutines(t *testing.T) {
	s, err := Start()
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(s.Close)
	}
	all.Wait()
	s.Close()
	s.Down()
	assert.Error(t, s.Up())
}

func TestTheHandlerOfAClosedServerIsUnavailable(t *testing.T) {
	s := New(t)
	s.Close()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/charges", nil))
	assert.Equal(t, 503, w.Code)
	assert.Contains(t, w.Body.String(), "server_closed")
}

func TestAThousandServersLeaveNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 1000 {
		s, err := Start(ways[i%len(ways)].opts...)
		require.NoError(t, err)
		if i%10 == 0 { // some are used
			s.Script(None(), CrashBeforeWrite(), DropResponse(3))
			c := s.Client()
			for j := range 3 {
				do(t, s, c, "POST", "/v1/charges", chargeBody, "Idempotency-Key", fmt.Sprint(j))
			}
		}
		s.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "%d goroutines, %d before", runtime.NumGoroutine(), before)
	}
}

// Mounted in a server of the caller's own, the faults are the same.
func TestHandlerInAnotherServer(t *testing.T) {
	s := New(t, WithoutListener())
	other := httptest.NewServer(s.Handler())
	defer other.Close()
	s.URL = other.URL
	post := func(key string) outcome {
		return do(t, s, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "POST", "/v1/charges", chargeBody, "Idempotency-Key", key)
	}
	for _, f := range []Fault{NeverSaw(), CrashAfterWrite()} {
		s.Script(f)
		assert.ErrorIs(t, post("k").err, syscall.ECONNRESET)
	}
	assert.True(t, post("k").replayed())
}

func TestHandlerCalledDirectly(t *testing.T) {
	s := New(t, WithoutListener())
	call := func() *httptest.ResponseRecorder {
		r, err := http.NewRequest("GET", "/v1/charges", nil)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w
	}
	assert.Equal(t, 200, call().Code)
	for _, f := range []Fault{NeverSaw(), CrashBeforeWrite(), CrashAfterWrite(), DropResponse(1)} {
		s.Script(f)
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() { call() }, f)
	}
	assert.Equal(t, 200, call().Code)
}
