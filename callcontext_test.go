package saferetry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// followed is a context that counts those that hang on it.
type followed struct {
	context.Context
	followers atomic.Int64
}

func (f *followed) Value(any) any { return nil } // not one of the context package's own

func (f *followed) AfterFunc(call func()) func() bool {
	stop := context.AfterFunc(f.Context, call)
	f.followers.Add(1)
	return func() bool { f.followers.Add(-1); return stop() }
}

func TestCallContextsAddUpInTheCallersForEver(t *testing.T) {
	parent := &followed{Context: t.Context()}
	for n := range 100 {
		_, err := saferetry.Do(parent, func(context.Context, string) (int, error) {
			if n%2 == 0 {
				return 0, errors.New("no")
			}
			return n, nil
		})
		require.Equal(t, n%2 == 0, err != nil)
	}
	// The collector runs cleanups on a goroutine of its own, soon after.
	for end := time.Now().Add(10 * time.Second); parent.followers.Load() > 0 && time.Now().Before(end); runtime.Gosched() {
		runtime.GC()
	}
	assert.Zero(t, parent.followers.Load())
}

// A test of somebody's that calls Do in a bubble must not end the process when
// the collector comes by.
func TestCallContextOfABubbleIsClosedByTheCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ctx := range []context.Context{context.Background(), t.Context()} {
			for range 10 {
				_, err := saferetry.Do(ctx, func(ctx context.Context, _ string) (<-chan struct{}, error) { return ctx.Done(), nil })
				require.NoError(t, err)
			}
		}
		for range 3 {
			runtime.GC()
			time.Sleep(time.Second)
		}
	})
	runtime.GC()
}

func TestCallContextEndsWithTheCallersAndItsCause(t *testing.T) {
	own := errors.New("the user left")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(own) })
		_, err := saferetry.Do(ctx, func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			assert.Equal(t, context.Canceled, ctx.Err())
			assert.Equal(t, own, context.Cause(ctx))
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, own)
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, own)
		defer cancel()
		_, err := saferetry.Do(ctx, func(inner context.Context, _ string) (int, error) {
			want, _ := ctx.Deadline()
			deadline, ok := inner.Deadline()
			assert.True(t, ok)
			assert.Equal(t, want, deadline)
			<-inner.Done()
			assert.Equal(t, context.DeadlineExceeded, inner.Err())
			assert.Equal(t, own, context.Cause(inner))
			return 0, inner.Err()
		})
		require.ErrorIs(t, err, own)
		assert.NotErrorIs(t, err, context.Canceled)
	})
}

func TestCallContextHasTheValuesOfTheCallers(t *testing.T) {
	type name struct{}
	for _, parent := range []context.Context{context.Background(), t.Context()} {
		got, err := saferetry.Do(context.WithValue(parent, name{}, "tenant-1"), func(ctx context.Context, _ string) (any, error) {
			inner, cancel := context.WithCancel(ctx)
			defer cancel()
			return inner.Value(name{}), nil
		})
		require.NoError(t, err)
		assert.Equal(t, "tenant-1", got)
	}
}

func TestCallContextOutlivesASuccessButNotTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	inner, err := saferetry.Do(ctx, func(ctx context.Context, _ string) (context.Context, error) { return ctx, nil })
	require.NoError(t, err)
	runtime.GC()
	require.NoError(t, inner.Err())
	cancel()
	<-inner.Done()
	assert.Equal(t, context.Canceled, inner.Err())
}

func TestCallContextIsCancelledWhenTheCallFails(t *testing.T) {
	var inner context.Context
	_, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (int, error) {
		inner = ctx
		return 0, errors.New("no")
	})
	require.Error(t, err)
	assert.Equal(t, context.Canceled, inner.Err())
}

// A body that comes in pieces is read under the call's context after Do has
// returned.
func TestResultOfDoIsCutOffWhenDoReturns(t *testing.T) {
	goOn := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "one ")
		http.NewResponseController(w).Flush()
		<-goOn
		io.WriteString(w, "two")
	}))
	defer server.Close()
	resp, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (*http.Response, error) {
		return server.Client().Do(scriptedPostTo(ctx, server.URL))
	}, saferetry.WithAttemptTimeout(5*time.Second))
	require.NoError(t, err)
	defer resp.Body.Close()
	runtime.GC()
	close(goOn)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "one two", string(body))
}
