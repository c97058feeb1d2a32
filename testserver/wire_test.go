package testserver

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onTheWire is what an HTTP/1.1 client sees of each fault, byte by byte, and what
// the server then knows of the operation.
var onTheWire = []struct {
	fault      Fault
	startsWith string // "": not a byte comes
	header     string
	body       string
	cut        bool // the connection ends before the answer does
	read       bool
	executions int
}{
	{fault: None(), startsWith: "HTTP/1.1 201 Created\r\n", header: "Content-Length: 79", body: created, read: true, executions: 1},
	{fault: NeverSaw(), cut: true},
	{fault: CrashBeforeWrite(), cut: true, read: true},
	{fault: CrashAfterWrite(), cut: true, read: true, executions: 1},
	{fault: DropResponse(0), startsWith: "HTTP/1.1 201 Created\r\n", header: "Content-Length: 79", cut: true, read: true, executions: 1},
	{fault: DropResponse(10), startsWith: "HTTP/1.1 201 Created\r\n", header: "Content-Length: 79", body: created[:10], cut: true, read: true, executions: 1},
	{fault: DropResponse(78), startsWith: "HTTP/1.1 201 Created\r\n", header: "Content-Length: 79", body: created[:78], cut: true, read: true, executions: 1},
	{fault: DropResponse(79), startsWith: "HTTP/1.1 201 Created\r\n", header: "Transfer-Encoding: chunked", body: "4f\r\n" + created + "\r\n", cut: true, read: true, executions: 1},
	{fault: DropResponse(1000), startsWith: "HTTP/1.1 201 Created\r\n", header: "Transfer-Encoding: chunked", body: "4f\r\n" + created + "\r\n", cut: true, read: true, executions: 1},
	{fault: Answer(429, "Retry-After", "1"), startsWith: "HTTP/1.1 429 Too Many Requests\r\n", header: "Retry-After: 1", body: "429 Too Many Requests\n", read: true},
	{fault: FailAfterWrite(502), startsWith: "HTTP/1.1 502 Bad Gateway\r\n", header: "Content-Type: text/plain; charset=utf-8", body: "502 Bad Gateway\n", read: true, executions: 1},
	{fault: Stall(time.Millisecond), startsWith: "HTTP/1.1 201 Created\r\n", header: "Location: /v1/charges/ch_1", body: created, read: true, executions: 1},
	{fault: StallAfterWrite(time.Millisecond), startsWith: "HTTP/1.1 201 Created\r\n", header: "Location: /v1/charges/ch_1", body: created, read: true, executions: 1},
}

const created = `{"id":"ch_1","amount":2500,"currency":"usd","customer":"cus_9182","retries":0}` + "\n"

func TestEveryFaultOnTheWire(t *testing.T) {
	dials := []struct {
		name string
		opts []Option
		dial func(t *testing.T, s *Server) net.Conn
	}{
		{"tcp", nil, func(t *testing.T, s *Server) net.Conn {
			c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			require.NoError(t, err)
			return c
		}},
		{"tls", []Option{WithTLS()}, func(t *testing.T, s *Server) net.Conn {
			c, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{RootCAs: s.network.roots})
			require.NoError(t, err)
			return c
		}},
		{"memory", []Option{WithoutListener()}, func(t *testing.T, s *Server) net.Conn {
			c, err := s.network.dialMemory(t.Context(), "", "")
			require.NoError(t, err)
			return c
		}},
	}
	for _, d := range dials {
		for _, want := range onTheWire {
			t.Run(d.name+" "+want.fault.String(), func(t *testing.T) {
				s := New(t, d.opts...)
				s.Script(want.fault)
				c := d.dial(t, s)
				defer c.Close()
				got, err := exchange(t, c)
				if want.startsWith == "" {
					assert.ErrorIs(t, err, syscall.ECONNRESET)
				} else {
					assert.NoError(t, err, "io.EOF")
				}
				head, body, _ := strings.Cut(got, "\r\n\r\n")
				assert.True(t, strings.HasPrefix(head, want.startsWith), head)
				assert.Contains(t, head, want.header)
				assert.Equal(t, want.body, body)
				assert.Len(t, s.Charges(), want.executions)
				assert.Equal(t, want.executions, s.Executions("order-1"))
				assert.Equal(t, want.read, len(s.Requests()) == 1)
				assert.Equal(t, []Fault{want.fault}, s.Faults())
			})
		}
	}
}

// exchange sends a charge and reads until the connection ends.
func exchange(t *testing.T, c net.Conn) (string, error) {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err := fmt.Fprintf(c, "POST /v1/charges HTTP/1.1\r\nHost: testserver\r\nConnection: close\r\n"+
		"Idempotency-Key: order-1\r\nContent-Length: %d\r\n\r\n%s", len(chargeBody), chargeBody)
	require.NoError(t, err)
	got, err := io.ReadAll(c)
	return string(got), err
}

// In HTTP/2 a fault that ends a connection ends the request's stream, whichever
// fault it is, and leaves the other streams alone.
func TestEveryFaultInHTTP2(t *testing.T) {
	for _, want := range onTheWire {
		t.Run(want.fault.String(), func(t *testing.T) {
			s := New(t, WithHTTP2())
			s.Script(None(), want.fault)
			c := s.Client()
			require.NoError(t, do(t, s, c, http.MethodGet, "/v1/charges", "").err)
			before := openConns(s)
			require.Len(t, before, 1)

			got := do(t, s, c, http.MethodPost, "/v1/charges", chargeBody, "Idempotency-Key", "order-1")
			if want.cut {
				require.ErrorContains(t, got.err, "INTERNAL_ERROR")
			} else {
				require.NoError(t, got.err)
			}
			if want.startsWith != "" {
				assert.Equal(t, want.startsWith[9:12], fmt.Sprint(got.status))
				if name, value, _ := strings.Cut(want.header, ": "); name != "Transfer-Encoding" {
					assert.Equal(t, value, got.header.Get(name))
				}
				body := strings.TrimPrefix(strings.TrimSuffix(want.body, "\r\n"), "4f\r\n")
				assert.Equal(t, body, got.body)
			}
			assert.Equal(t, want.executions, s.Executions("order-1"))

			require.NoError(t, do(t, s, c, http.MethodGet, "/v1/charges", "").err)
			assert.Equal(t, before, openConns(s), "the connection is still in use")
		})
	}
}

func openConns(s *Server) map[net.Conn]struct{} {
	s.network.connsMu.Lock()
	defer s.network.connsMu.Unlock()
	return maps.Clone(s.network.conns)
}

func TestAStreamSurvivesTheFaultOfAnother(t *testing.T) {
	s := New(t, WithHTTP2())
	c := s.Client()
	require.NoError(t, do(t, s, c, http.MethodGet, "/v1/charges", "").err) // one connection, open
	s.ScriptKey("slow", StallAfterWrite(200*time.Millisecond))
	s.ScriptKey("lost", CrashAfterWrite())
	slow := make(chan outcome)
	go func() {
		slow <- do(t, s, c, http.MethodPost, "/v1/charges", chargeBody, "Idempotency-Key", "slow")
	}()
	require.Eventually(t, func() bool { return s.Executions("slow") == 1 }, 10*time.Second, time.Millisecond)
	require.Error(t, do(t, s, c, http.MethodPost, "/v1/charges", chargeBody, "Idempotency-Key", "lost").err)
	got := <-slow
	require.NoError(t, got.err)
	assert.Equal(t, http.StatusCreated, got.status)
}

// What DropResponse lets through arrives, however much it is: nothing overtakes it.
func TestDropResponseDeliversAllBytesBeforeTheCut(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := New(t, way.opts...)
			for i := range 6000 { // 480 kB: more than sockets buffer
				s.ledger.rows = append(s.ledger.rows, &row{tenant: "default", charge: Charge{ID: fmt.Sprint("ch_", i), Amount: 2500, Currency: "usd"}})
			}
			whole := do(t, s, s.Client(), http.MethodGet, "/v1/charges", "")
			require.NoError(t, whole.err)
			for _, n := range []int{1, 100_000, len(whole.body) - 1, len(whole.body), len(whole.body) + 1} {
				s.Script(DropResponse(n))
				got := do(t, s, s.Client(), http.MethodGet, "/v1/charges", "")
				assert.Error(t, got.err)
				assert.Equal(t, whole.body[:min(n, len(whole.body))], got.body)
			}
		})
	}
}

// The reset comes while the client is still sending.
func TestNeverSawDoesNotReadTheBody(t *testing.T) {
	s := New(t)
	s.Script(NeverSaw())
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(c, "POST /v1/charges HTTP/1.1\r\nHost: testserver\r\nContent-Length: 1000\r\n\r\nbegun")
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Empty(t, s.Requests())
}

func TestAnAnswerWithoutABodyIsLostWhole(t *testing.T) {
	s := New(t)
	s.Script(DropResponse(10))
	got := do(t, s, s.Client(), http.MethodHead, "/v1/charges", "")
	assert.ErrorIs(t, got.err, syscall.ECONNRESET)
}
