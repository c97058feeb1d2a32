package saferetry_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

// unavailable answers every request with 503 and counts them.
func unavailable(attempts *int) http.RoundTripper {
	var mu sync.Mutex
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		*attempts++
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
	})
}

func TestBudgetSpentEndsAnOperationWithItsLastAnswer(t *testing.T) {
	var attempts int
	client := saferetry.NewClient(&http.Client{Transport: unavailable(&attempts)},
		atOnce(saferetry.WithBudget(saferetry.NewBudget(0, 1)))...)

	resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))

	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	report := reportOf(t, resp, err)
	require.Equal(t, saferetry.BudgetSpent, report.Reason)
	require.Equal(t, 2, report.Attempts)
	require.Equal(t, saferetry.Unknown, report.Outcome)
}

func TestBudgetStartsFullAndSavesNoMoreThanBurst(t *testing.T) {
	budget := saferetry.NewBudget(0.75, 2)
	var attempts int
	healthy := saferetry.NewClient(&http.Client{Transport: roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})}, saferetry.WithBudget(budget))
	failing := saferetry.NewClient(&http.Client{Transport: unavailable(&attempts)},
		atOnce(saferetry.WithMaxAttempts(100), saferetry.WithBudget(budget))...)
	get := func(client *http.Client) {
		resp, err := client.Get("http://a.test/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}

	get(failing)
	require.Equal(t, 3, attempts, "the first attempt and two retries")
	for range 100 {
		get(healthy)
	}
	attempts = 0
	get(failing)

	require.Equal(t, 3, attempts, "no more than two were saved")
}

func TestBudgetKeepsAttemptsNearOneInATotalOutage(t *testing.T) {
	var attempts int
	client := saferetry.NewClient(&http.Client{Transport: unavailable(&attempts)},
		atOnce(saferetry.WithBudget(saferetry.NewBudget(0.1, 10)))...)
	const operations = 1000
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			for range operations / 10 {
				resp, err := client.Post("http://a.test/", "", strings.NewReader("x"))
				if err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	calls.Wait()
	// Ten were saved; each operation earned a tenth, less the fraction left.
	require.InDelta(t, operations+10+operations/10, attempts, 1)
}

func TestBudgetRefusesWrongValues(t *testing.T) {
	require.PanicsWithValue(t, "saferetry: NewBudget: ratio -0.1: want 0 to 1000", func() { saferetry.NewBudget(-0.1, 1) })
	require.PanicsWithValue(t, "saferetry: NewBudget: burst 0: want 1 to 1000000000", func() { saferetry.NewBudget(0.1, 0) })
}

// One operation's first attempt and one retry.
func BenchmarkBudget(b *testing.B) {
	budget := saferetry.NewBudget(1, 100)
	client := func(budget *saferetry.Budget) *http.Client {
		var n int
		return saferetry.NewClient(&http.Client{Transport: roundTripFunc(func(*http.Request) (*http.Response, error) {
			n++
			return &http.Response{StatusCode: 503 - 303*(n%2), Body: http.NoBody}, nil
		})}, atOnce(saferetry.WithBudget(budget))...)
	}
	for name, client := range map[string]*http.Client{"without": client(nil), "with": client(budget)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := client.Get("http://a.test/")
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
			}
		})
	}
}
