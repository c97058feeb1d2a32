package saferetry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		t.Log(r.Header.Get("Idempotency-Key"), len(b), r.ContentLength)
		if n.Add(1) < 3 {
			w.WriteHeader(503)
			return
		}
		w.WriteHeader(201)
	}))
	defer s.Close()
	c := NewClient(nil, WithFullJitter(time.Millisecond, time.Millisecond))
	resp, err := c.Post(s.URL, "", bytes.NewReader(make([]byte, 628)))
	require.NoError(t, err)
	r, ok := ReportOf(resp, err)
	require.True(t, ok)
	t.Logf("%+v", r)
	s.Close()
	resp, err = c.Post(s.URL+"/x?secret=1", "", bytes.NewReader(make([]byte, 628)))
	require.Error(t, err)
	r, ok = ReportOf(resp, err)
	require.True(t, ok)
	t.Log(err)
	t.Logf("%+v", r)
}

type stub struct{ codes []int; n int }

var stubHeader = http.Header{"Content-Type": {"application/json"}}

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	code := s.codes[s.n%len(s.codes)]
	s.n++
	return &http.Response{StatusCode: code, Header: stubHeader, ContentLength: 11, Body: io.NopCloser(bytes.NewReader([]byte(`{"ok":true}`))), Request: req}, nil
}

func do(b *testing.B, c *http.Client, method string, body []byte, key bool) {
	b.ReportAllocs()
	for b.Loop() {
		var r io.Reader
		if body != nil {
			r = bytes.NewReader(body)
		}
		req, _ := http.NewRequestWithContext(context.Background(), method, "http://stub.test/", r)
		req.Header.Set("Content-Type", "application/json")
		if key {
			req.Header.Set("Idempotency-Key", uuid.NewString())
		}
		resp, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func BenchmarkGet(b *testing.B) {
	b.Run("bare", func(b *testing.B) { do(b, &http.Client{Transport: &stub{codes: []int{200}}}, "GET", nil, false) })
	b.Run("saferetry", func(b *testing.B) { do(b, NewClient(&http.Client{Transport: &stub{codes: []int{200}}}), "GET", nil, false) })
}
func BenchmarkPost(b *testing.B) {
	body := make([]byte, 1024)
	b.Run("bare", func(b *testing.B) { do(b, &http.Client{Transport: &stub{codes: []int{200}}}, "POST", body, true) })
	b.Run("saferetry", func(b *testing.B) { do(b, NewClient(&http.Client{Transport: &stub{codes: []int{200}}}), "POST", body, false) })
}
