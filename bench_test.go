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

	buffer [512]byte
}

func (c *caller) call(tb testing.TB) { c.exchange(tb, c.request(tb)) }

// exchange sends req and reads the answer to its end.
func (c *caller) exchange(tb testing.TB, req *http.Request) *http.Response {
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
	return resp
}

// loop is what a careful caller writes by hand: one key, a limit to the time of
// each attempt, the answer read and Retry-After looked for, a wait (of no
// length) that the context can end, and the body made anew.
func (c *caller) loop(tb testing.TB) {
	req := c.request(tb)
	for {
		ctx, cancel := context.WithTimeout(req.Context(), 30*time.Second)
		resp := c.exchange(tb, req.WithContext(ctx))
		cancel()
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			return
		}
		timer := time.NewTimer(0)
		if resp.Header.Get("Retry-After") != "" {
			tb.Fatal("not from this server")
		}
		select {
		case <-timer.C:
		case <-req.Context().Done():
		}
		timer.Stop()
		var err error
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

func benchmark(b *testing.B, call func(testing.TB)) {
	b.ReportAllocs()
	for b.Loop() {
		call(b)
	}
}

func BenchmarkGet(b *testing.B) {
	floor, ours := &caller{client: bare(200), method: "GET"}, &caller{client: retrying(200), method: "GET"}
	b.Run("bare", func(b *testing.B) { benchmark(b, floor.call) })
	b.Run("saferetry", func(b *testing.B) { benchmark(b, ours.call) })
}

func BenchmarkPost1KiB(b *testing.B) {
	body := inMemory(1 << 10)
	floor := &caller{client: bare(201), method: "POST", body: body, key: true}
	ours := &caller{client: retrying(201), method: "POST", body: body}
	b.Run("bare", func(b *testing.B) { benchmark(b, floor.call) })
	b.Run("saferetry", func(b *testing.B) { benchmark(b, ours.call) })
}

func BenchmarkPostTwo503sThen201(b *testing.B) {
	body := inMemory(1 << 10)
	floor := &caller{client: bare(503, 503, 201), method: "POST", body: body, key: true}
	ours := &caller{client: retrying(503, 503, 201), method: "POST", body: body}
	b.Run("loop", func(b *testing.B) { benchmark(b, floor.loop) })
	b.Run("saferetry", func(b *testing.B) { benchmark(b, ours.call) })
}

func BenchmarkPost8MiB(b *testing.B) {
	const size = 8 << 20
	memory, file := inMemory(size), inFile(b, size)
	for _, c := range []struct {
		name string
		*caller
	}{
		{"bare, memory", &caller{client: bare(201), method: "POST", body: memory, key: true}},
		{"saferetry, memory", &caller{client: retrying(201), method: "POST", body: memory}},
		{"bare, file", &caller{client: bare(201), method: "POST", body: sectioned(file, size), length: size, key: true}},
		{"saferetry, file", &caller{client: retrying(201), method: "POST", body: file, length: size}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmark(b, c.call) })
	}
}

// sectioned reads the file from its beginning each time: a bare client moves its position.
func sectioned(file func() io.Reader, size int64) func() io.Reader {
	return func() io.Reader { return io.NewSectionReader(file().(io.ReaderAt), 0, size) }
}
