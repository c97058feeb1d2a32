package testserver

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRequestsListsWhatWasReadAsItCame(t *testing.T) {
	s := New(t)
	before := time.Now()
	require.Equal(t, 201, do(t, s, s.Client(), http.MethodPost, "/v1/charges", chargeBody,
		"idempotency-key", `"k"`, "X-A", "1", "X-A", "2").status)
	s.Script(NeverSaw(), Answer(503), CrashBeforeWrite())
	statuses(t, s, 4)
	s.Advance(time.Hour)
	require.Equal(t, 404, do(t, s, s.Client(), http.MethodPatch, "/v1/charges/none?x=1",
		`{"op":"increment","field":"retries"}`, "Idempotency-Key", "k").status)

	got := s.Requests()
	require.Len(t, got, 5)
	assert.Equal(t, "POST", got[0].Method)
	assert.Equal(t, "/v1/charges", got[0].Path)
	assert.Equal(t, "k", got[0].Key, "bare")
	assert.Equal(t, []string{`"k"`}, got[0].Header["Idempotency-Key"])
	assert.Equal(t, []string{"1", "2"}, got[0].Header["X-A"])
	assert.Equal(t, "54", got[0].Header.Get("Content-Length"))
	assert.Equal(t, chargeBody, string(got[0].Body))
	assert.Equal(t, "", got[1].Key)
	assert.Empty(t, got[1].Body)
	assert.Equal(t, "/v1/charges/none", got[4].Path)
	for i, r := range got {
		assert.False(t, r.At.Before(before), i)
		before = r.At
	}
	assert.WithinDuration(t, time.Now(), before, time.Minute, "on the real clock")

	got[0].Header.Set("X-A", "changed")
	got[0].Body[0] = 'X'
	got[0].Key = "changed"
	again := s.Requests()
	assert.Equal(t, []string{"1", "2"}, again[0].Header["X-A"])
	assert.Equal(t, chargeBody, string(again[0].Body))
	assert.Equal(t, "k", again[0].Key)
}

func TestRequestsOfANewServerIsEmpty(t *testing.T) {
	s := New(t, WithoutListener())
	assert.Equal(t, []Request{}, s.Requests())
	assert.Equal(t, []Charge{}, s.Charges())
}

func TestBareKey(t *testing.T) {
	for value, want := range map[string]string{
		"":            "",
		"k":           "k",
		" k ":         "k",
		`"k"`:         "k",
		`"a\"b\\c"`:   `a"b\c`,
		`"`:           `"`,
		`"open`:       `"open`,
		`""`:          "",
		"two words\t": "two words",
	} {
		assert.Equal(t, want, bareKey(http.Header{"Idempotency-Key": {value}}))
	}
}

// A body that breaks off was read as far as it came. Nothing is performed.
func TestABodyThatBreaksOffIsKeptAsFarAsItCame(t *testing.T) {
	s := New(t)
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	_, err = fmt.Fprintf(c, "POST /v1/charges HTTP/1.1\r\nHost: testserver\r\nIdempotency-Key: k\r\nContent-Length: 54\r\n\r\n%s", chargeBody[:20])
	require.NoError(t, err)
	assert.Empty(t, s.Requests(), "still being read")
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	answer := make([]byte, 12)
	_, err = c.Read(answer)
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1 400", string(answer))
	require.NoError(t, c.Close())
	require.Len(t, s.Requests(), 1)
	assert.Equal(t, chargeBody[:20], string(s.Requests()[0].Body))
	assert.Empty(t, s.Charges())
}

func TestALargeBodyIsReadAndRefusedNotCutOff(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			s := New(t, way.opts...)
			large := strings.Repeat("x", 8<<20)
			got := do(t, s, s.Client(), http.MethodPost, "/v1/charges", large, "Idempotency-Key", "k")
			got.requireError(t, 413, "request_too_large")
			assert.True(t, large == string(s.Requests()[0].Body))
		})
	}
}

func TestOnlySoMuchOfABodyIsKept(t *testing.T) {
	s := New(t, WithoutListener())
	r := httptest.NewRequest(http.MethodPost, "/v1/charges", strings.NewReader(strings.Repeat("x", keptBody+10)))
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	assert.Equal(t, 413, w.Code)
	assert.Len(t, s.Requests()[0].Body, keptBody)
}
