// Package moov checks the package idempotent of Moov's base: a key that was seen
// before is refused. The Recorder, which a user of the package brings along, is
// one whose SeenBefore is atomic.
package moov

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/moov-io/base/idempotent"
	"github.com/saferetry/saferetry/conformance/internal/peertest"
)

// A recorder is an idempotent.Recorder.
type recorder struct{ keys sync.Map }

func (r *recorder) SeenBefore(key string) bool {
	_, seen := r.keys.LoadOrStore(key, true)
	return seen
}

func TestMoov(t *testing.T) {
	shop := new(peertest.Shop)
	seen := new(recorder)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !peertest.Known(r.Header.Get("Authorization")):
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		case r.Header.Get("X-Limited") != "":
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		if _, before := idempotent.FromRequest(r, seen); before {
			idempotent.SeenBefore(w)
			return
		}
		order := peertest.Read(r.Header.Get)
		switch {
		case r.Method != http.MethodPost || r.URL.Path != "/orders":
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		case order.Status != 0:
			http.Error(w, "broken", order.Status)
			return
		}
		id, body := shop.Sell(order)
		switch order.Answer {
		case "cookie":
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "secret"})
		case "hop":
			w.Header().Set("Keep-Alive", "timeout=5")
		}
		w.Header().Set("Location", "/orders/"+id)
		w.WriteHeader(http.StatusCreated)
		w.Write(body)
	}))
	t.Cleanup(server.Close)
	peertest.Check(t, "github.com/moov-io/base v0.27.5", server.URL+"/orders", idempotent.HeaderKey, shop.Count)
}
