package saferetry_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

func TestRedirectedPostGetsANewKeyAtItsNewAddress(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			base := script(answers(status, "Location", "/b"), answers(503), answers(200))
			server := httptest.NewServer(base)
			defer server.Close()
			client := saferetry.NewClient(server.Client(), withoutWaits)
			resp, err := client.Post(server.URL+"/a", "text/plain", strings.NewReader("amount=2500"))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			report, ok := saferetry.ReportOf(resp, err)
			require.True(t, ok)

			require.NoError(t, saferetry.ValidateKey(report.Key))
			assert.Equal(t, []string{report.Key, report.Key, report.Key}, base.keys(saferetry.KeyHeader))
			var urls, bodies []string
			for _, r := range base.requests() {
				urls, bodies = append(urls, r.url), append(bodies, r.method+" "+r.body)
			}
			assert.Equal(t, []string{"/a", "/b", "/b"}, urls)
			assert.Equal(t, []string{"POST amount=2500", "POST amount=2500", "POST amount=2500"}, bodies)
			assert.Equal(t, saferetry.Performed, report.Outcome)
		})
	}
}

func TestRedirectChainIsOneOperation(t *testing.T) {
	var made int
	base := script(answers(307, "Location", "/b"), answers(503), answers(308, "Location", "/c"), loses(io.EOF), answers(201))
	client := saferetry.NewClient(&http.Client{Transport: base}, withoutWaits, saferetry.WithQuotedKey(),
		saferetry.WithKeyFunc(func(*http.Request) (string, error) { made++; return "made-" + strconv.Itoa(made), nil }))
	resp, err := client.Do(scriptedPost(t.Context()))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 1, made)
	assert.Equal(t, slices.Repeat([]string{`"made-1"`}, 5), base.keys(saferetry.KeyHeader))
	report, _ := saferetry.ReportOf(resp, err)
	assert.Equal(t, "made-1", report.Key)
	assert.Equal(t, 2, report.Attempts, "at the last address")
}

// What the attempts at an earlier address came to is not forgotten: the 503 may
// have performed the operation.
func TestRedirectForgetsAnEarlierLostAnswer(t *testing.T) {
	for name, give := range map[string]func(*http.Request) *http.Request{
		"made key": func(r *http.Request) *http.Request { return r },
		"own key":  func(r *http.Request) *http.Request { r.Header.Set(saferetry.KeyHeader, "order-1"); return r },
		"context":  func(r *http.Request) *http.Request { return r.WithContext(saferetry.WithKey(r.Context(), "order-1")) },
	} {
		t.Run(name, func(t *testing.T) {
			base := script(answers(503), answers(307, "Location", "/b"), answers(307, "Location", "/c"), answers(401))
			resp, err := saferetry.NewClient(&http.Client{Transport: base}, withoutWaits).Do(give(scriptedPost(t.Context())))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			report, ok := saferetry.ReportOf(resp, err)
			require.True(t, ok)
			assert.Equal(t, saferetry.Unknown, report.Outcome)
		})
	}
}

// A 307 has not performed anything, so a redirected operation that is refused
// is Refused.
func TestRedirectAloneIsRefused(t *testing.T) {
	base := script(answers(307, "Location", "/b"), answers(422))
	resp, err := saferetry.NewClient(&http.Client{Transport: base}).Do(scriptedPost(t.Context()))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	report, _ := saferetry.ReportOf(resp, err)
	assert.Equal(t, saferetry.Refused, report.Outcome)
}

func TestGetThatARedirectLedToHasNoKeyOfTheContext(t *testing.T) {
	for _, status := range []int{301, 302, 303} {
		for name, opts := range map[string]struct {
			req  *http.Request
			keys []string
		}{
			"generated key": {scriptedPost(t.Context()), []string{"made", ""}},
			"context key":   {scriptedPost(saferetry.WithKey(t.Context(), "order-1")), []string{"order-1", ""}},
		} {
			t.Run(strconv.Itoa(status)+" "+name, func(t *testing.T) {
				base := script(answers(status, "Location", "/v1/charges/1"), answers(200))
				resp, err := saferetry.NewClient(&http.Client{Transport: base}, keyFunc("made")).Do(opts.req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, opts.keys, base.keys(saferetry.KeyHeader))
				last := base.requests()[1]
				assert.Equal(t, "GET ", last.method+" "+last.body)
				report, ok := saferetry.ReportOf(resp, err)
				require.True(t, ok)
				assert.Empty(t, report.Key)
			})
		}
	}
}

func TestHeadThatARedirectLedToHasNoKeyOfTheContext(t *testing.T) {
	req, err := http.NewRequestWithContext(saferetry.WithKey(t.Context(), "order-1"), http.MethodHead, "http://api.test/a", nil)
	require.NoError(t, err)
	base := script(answers(302, "Location", "/b"), answers(200))
	resp, err := saferetry.NewClient(&http.Client{Transport: base}).Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, []string{"order-1", ""}, base.keys(saferetry.KeyHeader))
}

// A 307 goes on with the operation, so a GET keeps the key it was given.
func TestGetThatA307LedToKeepsItsKey(t *testing.T) {
	req, err := http.NewRequestWithContext(saferetry.WithKey(t.Context(), "order-1"), http.MethodGet, "http://api.test/a", nil)
	require.NoError(t, err)
	base := script(answers(307, "Location", "/b"), answers(200))
	resp, err := saferetry.NewClient(&http.Client{Transport: base}).Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, []string{"order-1", "order-1"}, base.keys(saferetry.KeyHeader))
}

// A key that was checked by another transport, or none, is carried on as well.
func TestRedirectFromAForeignTransportKeepsItsKey(t *testing.T) {
	earlier := scriptedPost(t.Context())
	earlier.Header["idempotency-key"] = []string{`"order-1"`}
	for status, want := range map[int]string{303: "made", 307: "order-1", 308: "order-1"} {
		req := scriptedPost(t.Context())
		req.Response = &http.Response{StatusCode: status, Request: earlier}
		_, report, err := perform(t, script(answers(200)), req, keyFunc("made"))
		require.NoError(t, err)
		assert.Equal(t, want, report.Key, status)
	}
}

func TestRedirectThatIsNotFollowedIsReported(t *testing.T) {
	own := errors.New("no redirects here")
	client := saferetry.NewClient(&http.Client{Transport: script(answers(307, "Location", "/b")),
		CheckRedirect: func(*http.Request, []*http.Request) error { return own }})
	resp, err := client.Do(scriptedPost(t.Context()))
	require.ErrorIs(t, err, own)
	report, ok := saferetry.ReportOf(resp, err)
	require.True(t, ok)
	assert.Equal(t, saferetry.Refused, report.Outcome)
	assert.Equal(t, saferetry.Answered, report.Reason)
}
