package saferetry_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// A client of this package inside Do sends Do's key, once per attempt of Do.
func TestClientInsideDoMultipliesTheAttempts(t *testing.T) {
	base := script(answers(503))
	client := saferetry.NewClient(&http.Client{Transport: base}, withoutWaits)
	_, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (int, error) {
		resp, err := client.Do(scriptedPost(ctx))
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, ok := saferetry.ReportOf(resp, err)
		assert.False(t, ok, "the operation is Do's")
		return 0, sdkError{resp.StatusCode}
	}, withoutWaits, keyFunc("order-1"), saferetry.WithMaxAttempts(3))
	require.Error(t, err)
	assert.Equal(t, []string{"order-1", "order-1", "order-1"}, base.keys(saferetry.KeyHeader))
}

// A request under a key of its own is another operation: the client repeats it,
// and Do does not repeat that.
func TestClientInsideDoUnderAnotherKeyIsNotRepeatedTwice(t *testing.T) {
	base := script(loses(io.ErrUnexpectedEOF))
	client := saferetry.NewClient(&http.Client{Transport: base}, withoutWaits)
	_, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (*http.Response, error) {
		req := scriptedPost(ctx)
		req.Header.Set(saferetry.KeyHeader, "order-2")
		return client.Do(req)
	}, withoutWaits, keyFunc("order-1"))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, []string{"order-2", "order-2", "order-2", "order-2"}, base.keys(saferetry.KeyHeader))
	report, ok := saferetry.ReportOf(nil, err)
	require.True(t, ok)
	assert.Equal(t, "order-1", report.Key, "the outer operation's report")
	assert.Equal(t, 1, report.Attempts)
	assert.Equal(t, saferetry.Unknown, report.Outcome)
}

func TestDoInsideDoMultipliesTheAttempts(t *testing.T) {
	c := calls(io.ErrUnexpectedEOF)
	_, err := saferetry.Do(t.Context(), func(ctx context.Context, _ string) (string, error) {
		return saferetry.Do(ctx, c.call, withoutWaits)
	}, withoutWaits, keyFunc("order-1"))
	require.Error(t, err)
	assert.Equal(t, []string{"order-1", "order-1", "order-1", "order-1"}, c.keys)
}
