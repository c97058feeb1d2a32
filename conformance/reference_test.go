package conformance

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/saferetry/saferetry/idempotency"
	"github.com/stretchr/testify/require"
)

// protected is the middleware of package idempotency.
func protected(t *testing.T, clock *clockwork, opts ...idempotency.Option) func(http.Handler) http.Handler {
	store := idempotency.NewMemoryStore(idempotency.WithClock(clock.now))
	t.Cleanup(store.Close)
	return idempotency.Middleware(store, tenant, opts...)
}

// asStripe answers 400 where the middleware answers 422, and passes a request
// without a key.
func asStripe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&statusWriter{w}, r)
	})
}

type statusWriter struct{ http.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	w.ResponseWriter.WriteHeader(status)
}

func TestTheReferenceMiddlewareKeepsEveryProfile(t *testing.T) {
	every := func(int) bool { return true }
	for profile, protect := range map[Profile]func(*testing.T, *clockwork) func(http.Handler) http.Handler{
		Draft: func(t *testing.T, c *clockwork) func(http.Handler) http.Handler { return protected(t, c) },
		ACP: func(t *testing.T, c *clockwork) func(http.Handler) http.Handler {
			return protected(t, c, idempotency.WithFingerprint(idempotency.JSONFingerprint))
		},
		Stripe: func(t *testing.T, c *clockwork) func(http.Handler) http.Handler {
			protect := protected(t, c, idempotency.WithStoredStatus(every), idempotency.WithOptionalKey())
			return func(next http.Handler) http.Handler { return asStripe(protect(next)) }
		},
	} {
		t.Run(string(profile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := &clockwork{}
				layer := protect(t, clock)
				report, err := Run(t.Context(), everything(t, profile, clock, func(shop http.Handler) http.Handler {
					return guard(limiter(layer(shop)))
				}))
				require.NoError(t, err)
				for _, res := range report.Results {
					require.Equal(t, Pass, res.Outcome, "%s: %s", res.ID, res.text())
				}
				require.True(t, report.OK())
				require.NoError(t, report.WriteJUnit(io.Discard))
			})
		})
	}
}
