package saferetry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// Frames, flags and errors of HTTP/2 (RFC 9113, sections 6 and 7), as far as
// the tests need them.
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0, 1, 3, 4, 7

	flagEndStream, flagAck, flagEndHeaders = 1, 1, 4

	codeNone, codeInternal, codeRefused, codeCalm = 0, 2, 7, 11
)

// h2Key is a key that HPACK writes as it is: its characters have codes of 8 bits.
const h2Key = "XZ;XZ;XZ;XZ;XZ"

// h2Server speaks HTTP/2 over TLS by hand: each request takes the next step.
type h2Server struct {
	url  string
	base *http.Transport

	mu       sync.Mutex
	steps    []h2Step
	dials    int
	requests []h2Request
}

// An h2Step handles one request that was read whole. The connection goes on if
// it says so.
type h2Step func(c *h2Conn, stream uint32) (goOn bool)

type h2Request struct {
	fields, body []byte // as on the wire
}

type h2Conn struct {
	net.Conn
	server *h2Server
}

func newH2Server(t *testing.T, steps ...h2Step) *h2Server {
	real := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(real.Close)
	config := &tls.Config{Certificates: real.TLS.Certificates, NextProtos: []string{"h2"}}
	s := &h2Server{steps: steps}
	wire := newWireServer(t, func(c *wireConn) bool {
		s.mu.Lock()
		s.dials++
		s.mu.Unlock()
		conn := tls.Server(c.buffered(), config)
		(&h2Conn{conn, s}).serve()
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, c) // or a reset might overtake what was written
		return false
	})
	s.url = strings.Replace(wire.url, "http:", "https:", 1)
	s.base = real.Client().Transport.(*http.Transport).Clone()
	s.base.ForceAttemptHTTP2 = true
	t.Cleanup(s.base.CloseIdleConnections)
	return s
}

func (c *h2Conn) serve() {
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	noTable := []byte{0, 1, 0, 0, 0, 0} // SETTINGS_HEADER_TABLE_SIZE: fields are never sent by index
	c.write(frameSettings, 0, 0, noTable)
	var r h2Request
	for {
		kind, flags, stream, payload, err := c.readFrame()
		if err != nil {
			return
		}
		switch kind {
		case frameSettings:
			if flags&flagAck == 0 {
				c.write(frameSettings, flagAck, 0, nil)
			}
			continue
		case frameHeaders:
			r = h2Request{fields: payload}
		case frameData:
			r.body = append(r.body, payload...)
		default:
			continue
		}
		if flags&flagEndStream != 0 && !c.server.take(r)(c, stream) {
			return
		}
	}
}

// take records the request and takes the next step; the last one stays.
func (s *h2Server) take(r h2Request) h2Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	step := s.steps[0]
	if len(s.steps) > 1 {
		s.steps = s.steps[1:]
	}
	return step
}

func (c *h2Conn) readFrame() (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(c, head[:]); err != nil {
		return
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(c, payload)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]), payload, err
}

func (c *h2Conn) write(kind, flags byte, stream uint32, payload []byte) {
	frame := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	frame = binary.BigEndian.AppendUint32(frame, stream)
	_, _ = c.Write(append(frame, payload...))
}

// h2Created answers 201 without a body.
func h2Created(c *h2Conn, stream uint32) bool {
	status := append([]byte{8, 3}, "201"...) // HPACK: a literal value for static entry 8, ":status"
	c.write(frameHeaders, flagEndStream|flagEndHeaders, stream, status)
	return true
}

// h2Reset ends the stream with an error code.
func h2Reset(code uint32) h2Step {
	return func(c *h2Conn, stream uint32) bool {
		c.write(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
		return true
	}
}

// h2GoAway says that streams after last were not handled, and hangs up.
func h2GoAway(last, code uint32) h2Step {
	return func(c *h2Conn, _ uint32) bool {
		c.write(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
		return false
	}
}

func h2HangUp(*h2Conn, uint32) bool { return false }

// net/http itself sends some of these again, as soon as it can rewind the body.
// Either way the server sees the same key and the same bytes.
func TestHTTP2FaultIsRetriedUnderTheSameKey(t *testing.T) {
	for _, fault := range []struct {
		name    string
		step    h2Step
		netHTTP bool // sends it again
	}{
		{"GOAWAY, stream not handled", h2GoAway(0, codeNone), true},
		{"GOAWAY, stream lost", h2GoAway(1, codeNone), false},
		{"GOAWAY, enhance your calm", h2GoAway(0, codeCalm), false},
		{"refused stream", h2Reset(codeRefused), true},
		{"internal error", h2Reset(codeInternal), false},
		{"connection closed", h2HangUp, false},
	} {
		for _, body := range []struct {
			name       string
			reader     io.Reader
			rewindable bool
		}{
			{"GetBody", strings.NewReader("charge"), true},
			{"plain reader", io.MultiReader(strings.NewReader("charge")), false},
		} {
			t.Run(fault.name+", "+body.name, func(t *testing.T) {
				server := newH2Server(t, fault.step, h2Created)
				client := saferetry.NewClient(&http.Client{Transport: server.base}, atOnce()...)
				req, err := http.NewRequestWithContext(saferetry.WithKey(t.Context(), h2Key), http.MethodPost, server.url, body.reader)
				require.NoError(t, err)
				resp, err := client.Do(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				report := reportOf(t, resp, err)

				assert.Equal(t, "HTTP/2.0", resp.Proto)
				assert.Equal(t, 201, resp.StatusCode)
				attempts := 2
				if fault.netHTTP && body.rewindable {
					attempts = 1
				}
				assert.Equal(t, attempts, report.Attempts)
				assert.Equal(t, saferetry.Performed, report.Outcome)
				require.Len(t, server.requests, 2)
				for _, r := range server.requests {
					assert.Equal(t, 1, bytes.Count(r.fields, []byte(h2Key)), "%q", r.fields)
					assert.Equal(t, "charge", string(r.body))
				}
			})
		}
	}
}

func TestHTTP2FaultEveryTimeLeavesTheOutcomeUnknown(t *testing.T) {
	for name, step := range map[string]h2Step{
		"GOAWAY":            h2GoAway(1, codeNone),
		"stream error":      h2Reset(codeInternal),
		"connection closed": h2HangUp,
	} {
		t.Run(name, func(t *testing.T) {
			server := newH2Server(t, step)
			client := saferetry.NewClient(&http.Client{Transport: server.base}, atOnce()...)
			resp, err := client.Post(server.url, "", strings.NewReader("charge"))
			require.Nil(t, resp)
			report := reportOf(t, resp, err)

			assert.Equal(t, 4, report.Attempts)
			assert.Equal(t, saferetry.Exhausted, report.Reason)
			assert.Equal(t, saferetry.Unknown, report.Outcome)
			assert.NotErrorIs(t, err, context.Canceled)
			assert.Len(t, server.requests, 4)
		})
	}
}
