package saferetry_test

import (
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// uploads judges what a server could read of uploads.
type uploads struct {
	size         int64
	sum          uint32
	whole, wrong atomic.Int32 // read to their end: as they should be, or not
}

// early answers 503 when it has read the beginning of a body.
func (u *uploads) early(readOn bool) wireStep {
	return func(c *wireConn) bool {
		r, sum := c.readHead(), crc32.NewIEEE()
		n, err := io.CopyN(sum, r.Body, 64<<10)
		if err != nil || !c.answer(503, "busy") {
			return false
		}
		return readOn && u.finish(sum, r, n) == nil
	}
}

// late answers 201 when it has read a whole body.
func (u *uploads) late(c *wireConn) bool {
	return u.finish(crc32.NewIEEE(), c.readHead(), 0) == nil && c.answer(201, "")
}

func (u *uploads) finish(sum hash.Hash32, r wireRequest, read int64) error {
	n, err := io.Copy(sum, r.Body)
	switch {
	case err != nil:
		return err
	case read+n == u.size && sum.Sum32() == u.sum:
		u.whole.Add(1)
	default:
		u.wrong.Add(1)
	}
	return nil
}

// An early answer comes while the body is still being sent. Whatever the server
// does then, what it can read to the end is the whole body. Two hundred times.
func TestEarlyAnswerNeverLeavesAShortBody(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	for server, readOn := range map[string]bool{"server closes": false, "server reads on": true} {
		for _, kind := range []string{"GetBody", "file", "file, unknown length", "plain reader, unknown length"} {
			t.Run(server+", "+kind, func(t *testing.T) {
				for range 25 {
					seen := uploads{size: int64(len(content)), sum: crc32.ChecksumIEEE([]byte(content))}
					server := newWireServer(t, seen.early(readOn), seen.late)
					base := &http.Transport{}
					client := saferetry.NewClient(&http.Client{Transport: base}, atOnce()...)
					resp, err := client.Do(postOf(t, kind, server.url, content))
					require.NoError(t, err)
					resp.Body.Close()
					base.CloseIdleConnections()
					server.close()

					assert.Equal(t, 201, resp.StatusCode)
					assert.Greater(t, reportOf(t, resp, err).Attempts, 1)
					assert.Positive(t, seen.whole.Load())
					require.Zero(t, seen.wrong.Load(), "short bodies that look whole")
				}
			})
		}
	}
}
