package saferetry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// stub is a base transport that reads each body and answers from memory, so
// that what is measured is the client.
type stub struct {
	statuses []int // in turn
	made     int
	buffer   [32 << 10]byte
}

var (
	stubHeader = http.Header{"Content-Type": {"application/json"}}
	stubAnswer = []byte(`{"ok":true}`)
)

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		for {
			if _, err := req.Body.Read(s.buffer[:]); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
		}
		req.Body.Close()
	}
	status := s.statuses[s.made%len(s.statuses)]
	s.made++
	return &http.Response{
		StatusCode: status, Header: stubHeader, Request: req,
		Body: io.NopCloser(bytes.NewReader(stubAnswer)), ContentLength: int64(len(stubAnswer)),
	}, nil
}

// caller makes one kind of request again and again, by a client.
type caller struct {
	client *http.Client
	method string
	body   func() io.Reader // nil: none
	length int64            // of a body that does not show it
	key    bool             // the caller makes it
	tries  int              // the caller's own, one after the other

	buffer [512]byte
}

func (c *caller) call(tb testing.TB) {
	req := c.request(tb)
	for try := 1; ; try++ {
		resp, err := c.client.Do(req)
		if err != nil {
			tb.Fatal(err)
		}
		for err == nil {
			_, err = resp.Body.Read(c.buffer[:])
		}
		if err != io.EOF {
			tb.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 500 || try >= c.tries {
			return
		}
		c.wait()
		if req.Body, err = req.GetBody(); err != nil {
			tb.Fatal(err)
		}
	}
}

func (c *caller) request(tb testing.TB) *http.Request {
	var body io.Reader
	if c.body != nil {
		body = c.body()
	}
	req, err := http.NewRequestWithContext(context.Background(), c.method, "http://stub.test/v1/charges", body)
	if err != nil {
		tb.Fatal(err)
	}
	if c.length > 0 {
		req.ContentLength = c.length
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key {
		req.Header.Set(saferetry.KeyHeader, uuid.NewString())
	}
	return req
}

// wait is the hand-written loop's, of no length: a timer and a select.
func (c *caller) wait() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-context.Background().Done():
	}
}

func bare(statuses ...int) *http.Client { return &http.Client{Transport: &stub{statuses: statuses}} }

func retrying(statuses ...int) *http.Client {
	return saferetry.NewClient(bare(statuses...), atOnce()...)
}

func inMemory(size int) func() io.Reader {
	content := make([]byte, size)
	return func() io.Reader { return bytes.NewReader(content) }
}

// inFile returns an *os.File that is not closed by the calls that send it.
func inFile(tb testing.TB, size int) func() io.Reader {
	path := filepath.Join(tb.TempDir(), "body")
	require.NoError(tb, os.WriteFile(path, make([]byte, size), 0o600))
	file, err := os.Open(path)
	require.NoError(tb, err)
	tb.Cleanup(func() { file.Close() })
	return func() io.Reader { return openFile{file} }
}

func benchmark(b *testing.B, c *caller) {
	b.ReportAllocs()
	for b.Loop() {
		c.call(b)
	}
}

func BenchmarkGet(b *testing.B) {
	b.Run("bare", func(b *testing.B) { benchmark(b, &caller{client: bare(200), method: "GET"}) })
	b.Run("saferetry", func(b *testing.B) { benchmark(b, &caller{client: retrying(200), method: "GET"}) })
}

func BenchmarkPost1KiB(b *testing.B) {
	body := inMemory(1 << 10)
	b.Run("bare", func(b *testing.B) { benchmark(b, &caller{client: bare(201), method: "POST", body: body, key: true}) })
	b.Run("saferetry", func(b *testing.B) { benchmark(b, &caller{client: retrying(201), method: "POST", body: body}) })
}

func BenchmarkPostTwo503sThen201(b *testing.B) {
	body := inMemory(1 << 10)
	b.Run("loop", func(b *testing.B) {
		benchmark(b, &caller{client: bare(503, 503, 201), method: "POST", body: body, key: true, tries: 3})
	})
	b.Run("saferetry", func(b *testing.B) {
		benchmark(b, &caller{client: retrying(503, 503, 201), method: "POST", body: body})
	})
}

func BenchmarkPost8MiB(b *testing.B) {
	const size = 8 << 20
	memory, file := inMemory(size), inFile(b, size)
	b.Run("bare, GetBody", func(b *testing.B) { benchmark(b, &caller{client: bare(201), method: "POST", body: memory, key: true}) })
	b.Run("saferetry, GetBody", func(b *testing.B) { benchmark(b, &caller{client: retrying(201), method: "POST", body: memory}) })
	b.Run("saferetry, file", func(b *testing.B) {
		benchmark(b, &caller{client: retrying(201), method: "POST", body: file, length: size})
	})
}
