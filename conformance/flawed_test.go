package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A flaw is a rule that a middleware breaks.
type flaw string

// A flawed is a small idempotency middleware that is right but for one flaw.
type flawed struct {
	flaw    flaw
	profile Profile
	clock   *clockwork
	next    http.Handler

	mu      sync.Mutex
	records map[string]*record
}

type record struct {
	print string
	from  time.Time
	done  chan struct{}
	kept  *httptest.ResponseRecorder // once done is closed
}

func (f *flawed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && f.flaw != "a GET is answered from the store" || f.flaw == "nothing is stored" {
		f.next.ServeHTTP(w, r)
		return
	}
	key, ok := f.key(w, r)
	if !ok {
		return
	}
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	id, print := f.id(r, key), f.print(r, text)
	rec, mine := f.claim(id, print)
	switch {
	case mine:
		f.perform(w, r, id, rec)
	case rec.print != print && r.Method != http.MethodGet && f.flaw != "no fingerprint" &&
		f.flaw != "a duplicate waits whatever its body":
		f.refuse(w, r, rec)
	default:
		f.again(w, r, id, rec)
	}
}

// key reads the key, or refuses the request.
func (f *flawed) key(w http.ResponseWriter, r *http.Request) (string, bool) {
	lines := r.Header.Values("Idempotency-Key")
	if len(lines) == 0 {
		if f.flaw == "no key is needed" || f.profile == Stripe || r.Method == http.MethodGet {
			f.next.ServeHTTP(w, r)
		} else {
			http.Error(w, "no key", http.StatusBadRequest)
		}
		return "", false
	}
	key := lines[0]
	if f.flaw != "quotes are a part of the key" {
		key = strings.Trim(key, `"`)
	}
	if key == "" && f.flaw != "an empty key is a key" || len(key) > 255 && f.flaw != "a key of any length" ||
		len(lines) > 1 && f.flaw != "the first of two lines counts" {
		http.Error(w, "no such key", http.StatusBadRequest)
		return "", false
	}
	return key, true
}

// id names the record.
func (f *flawed) id(r *http.Request, key string) string {
	who, _ := tenant(r)
	id := []string{who, r.Method, r.URL.Path, key}
	switch f.flaw {
	case "one scope for all":
		id[0] = ""
	case "the method is ignored":
		id[1] = ""
	case "a GET is answered from the store":
		id[1] = strings.Replace(r.Method, "GET", "POST", 1)
	case "the path is ignored", "the path is in the fingerprint":
		id[2] = ""
	}
	return strings.Join(id, "\n")
}

// print is the fingerprint.
func (f *flawed) print(r *http.Request, text []byte) string {
	query, path := r.URL.RawQuery, ""
	switch f.flaw {
	case "the query is ignored":
		query = ""
	case "the path is in the fingerprint":
		path = r.URL.Path
	}
	var v map[string]any
	if f.profile == ACP && f.flaw != "the body counts byte by byte" && json.Unmarshal(text, &v) == nil {
		if f.flaw == "null is as absent" {
			maps.DeleteFunc(v, func(_ string, value any) bool { return value == nil })
		}
		text, _ = json.Marshal(v) // sorted, and numbers as they are, not as they were written
	}
	return path + "\n" + query + "\n" + string(text)
}

// claim finds the record, or makes one that is the caller's to fill.
func (f *flawed) claim(id, print string) (rec *record, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	retention := 24 * time.Hour
	switch f.flaw {
	case "keys are forgotten early":
		retention = time.Hour
	case "keys are kept for ever":
		retention = 1000 * time.Hour
	}
	rec = f.records[id]
	if rec != nil && f.clock.now().Sub(rec.from) < retention {
		return rec, false
	}
	rec = &record{print: print, from: f.clock.now(), done: make(chan struct{})}
	if f.flaw != "look, then write" {
		f.records[id] = rec
	}
	return rec, true
}

// perform runs the handler and keeps its answer.
func (f *flawed) perform(w http.ResponseWriter, r *http.Request, id string, rec *record) {
	rec.kept = httptest.NewRecorder()
	f.next.ServeHTTP(rec.kept, r.WithContext(context.WithoutCancel(r.Context())))
	stored := rec.kept.Code < 300 || rec.kept.Code >= 500 && (f.profile == Stripe || f.flaw == "a 500 is stored") ||
		rec.kept.Code < 500 && f.flaw == "a 401 is stored" || rec.kept.Code < 500 && f.flaw == "a 429 is stored"
	if f.flaw == "a 500 is not stored" && rec.kept.Code >= 500 {
		stored = false
	}
	if f.flaw == "a client that hangs up frees the key" && r.Context().Err() != nil {
		stored = false
	}
	f.mu.Lock()
	switch {
	case f.flaw == "look, then write" && stored:
		f.records[id] = rec
	case !stored && f.records[id] == rec:
		delete(f.records, id)
	}
	f.mu.Unlock()
	close(rec.done)
	send(w, rec.kept.Code, rec.kept.Header(), rec.kept.Body.Bytes())
}

// again answers a request that came before.
func (f *flawed) again(w http.ResponseWriter, r *http.Request, id string, rec *record) {
	if f.flaw == "a duplicate waits whatever its body" {
		<-rec.done
	}
	select {
	case <-rec.done:
		f.replay(w, r, rec)
	default:
		if f.flaw == "a duplicate in flight frees the key" {
			f.mu.Lock()
			delete(f.records, id)
			f.mu.Unlock()
		}
		if f.flaw != "a 409 has no Retry-After" {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, "in progress", http.StatusConflict)
	}
}

func (f *flawed) replay(w http.ResponseWriter, r *http.Request, rec *record) {
	status, h, text := rec.kept.Code, rec.kept.Header().Clone(), rec.kept.Body.Bytes()
	h.Set("Idempotent-Replayed", "true")
	strip := []string{"Set-Cookie", "Keep-Alive"}
	switch f.flaw {
	case "a replay has no mark":
		h.Del("Idempotent-Replayed")
	case "the cookie is replayed":
		strip = strip[1:]
	case "a hop-by-hop field is replayed":
		strip = strip[:1]
	case "the status is lost":
		status = http.StatusOK
	case "header fields are lost":
		h.Del("Location")
	case "the content encoding is lost":
		h.Del("Content-Encoding")
	case "a long body is cut":
		text = text[:min(len(text), 4096)]
	case "a body is kept as text":
		text = bytes.ToValidUTF8(text, []byte("?"))
	case "a replay runs the handler too":
		f.next.ServeHTTP(httptest.NewRecorder(), r)
	}
	for _, name := range strip {
		h.Del(name)
	}
	send(w, status, h, text)
}

// refuse answers another request under a key that is used.
func (f *flawed) refuse(w http.ResponseWriter, r *http.Request, rec *record) {
	status, text := http.StatusUnprocessableEntity, "used for another request"
	if f.profile == Stripe && f.flaw != "422 instead of 400" {
		status = http.StatusBadRequest
	}
	switch f.flaw {
	case "409 instead of 422":
		status = http.StatusConflict
	case "a refusal shows the first answer":
		select {
		case <-rec.done:
			text += ": " + rec.kept.Body.String()
		default:
		}
	case "a refusal runs the handler":
		f.next.ServeHTTP(httptest.NewRecorder(), r)
	}
	http.Error(w, text, status)
}

func send(w http.ResponseWriter, status int, h http.Header, text []byte) {
	maps.Copy(w.Header(), h)
	w.WriteHeader(status)
	w.Write(text)
}

// broken says which checks find a flaw, in which profile. A flaw without any
// belongs to the server that is right.
var broken = []struct {
	profile Profile
	flaw    flaw
	fail    []string
}{
	{Draft, "", nil},
	{ACP, "", nil},
	{Stripe, "", nil},
	{Draft, "no key is needed", []string{"key.missing"}},
	{Draft, "an empty key is a key", []string{"key.empty"}},
	{Draft, "a key of any length", []string{"key.too-long"}},
	{Draft, "the first of two lines counts", []string{"key.two-lines"}},
	{Draft, "quotes are a part of the key", []string{"key.quoted"}},
	{Draft, "nothing is stored", []string{
		"key.missing", "key.empty", "key.too-long", "key.two-lines", "key.quoted",
		"replay.same", "replay.once", "replay.marked",
		"content.large", "content.binary", "content.gzip", "content.set-cookie", "content.hop-by-hop",
		"reuse.body", "reuse.status", "json.null-absent",
		"flight.conflict", "flight.other-body", "flight.client-gone", "concurrent.answers", "concurrent.once",
		"expiry.kept",
	}},
	{Draft, "a replay runs the handler too", []string{"key.quoted", "replay.once", "flight.client-gone"}},
	{Draft, "the status is lost", []string{"replay.same"}},
	{Draft, "header fields are lost", []string{"replay.same"}},
	{Draft, "a long body is cut", []string{"content.large"}},
	{Draft, "a body is kept as text", []string{"content.binary", "content.gzip"}},
	{Draft, "the content encoding is lost", []string{"content.gzip"}},
	{Draft, "the cookie is replayed", []string{"content.set-cookie"}},
	{Draft, "a hop-by-hop field is replayed", []string{"content.hop-by-hop"}},
	{Draft, "a replay has no mark", []string{"replay.marked"}},
	{Draft, "a GET is answered from the store", []string{"replay.get"}},
	{Draft, "no fingerprint", []string{"reuse.body", "reuse.status", "reuse.query", "json.null-absent"}},
	{Draft, "409 instead of 422", []string{"reuse.status"}},
	{Draft, "a refusal shows the first answer", []string{"reuse.body", "reuse.query", "json.null-absent"}},
	{Draft, "a refusal runs the handler", []string{"reuse.body", "flight.other-body"}},
	{Draft, "the query is ignored", []string{"reuse.query"}},
	{Draft, "the method is ignored", []string{"reuse.method"}},
	{Draft, "the path is ignored", []string{"reuse.path"}},
	{ACP, "the path is in the fingerprint", []string{"reuse.path"}},
	{ACP, "the body counts byte by byte", []string{"json.member-order", "json.number-form"}},
	{ACP, "null is as absent", []string{"json.null-absent"}},
	{Stripe, "422 instead of 400", []string{"reuse.status"}},
	{Draft, "look, then write", []string{
		"flight.conflict", "flight.other-body", "flight.client-gone", "concurrent.answers", "concurrent.once",
	}},
	{Draft, "a duplicate waits whatever its body", []string{
		"reuse.body", "reuse.status", "reuse.query", "json.null-absent", "flight.other-body",
	}},
	{Draft, "a 409 has no Retry-After", []string{"flight.retry-after"}},
	{Draft, "a duplicate in flight frees the key", []string{
		"flight.then-replay", "flight.client-gone", "concurrent.answers", "concurrent.once",
	}},
	{Draft, "a client that hangs up frees the key", []string{"flight.client-gone"}},
	{Draft, "one scope for all", []string{"caller.other"}},
	{Draft, "the layer is outside of the guard", []string{"caller.refused"}},
	{Draft, "a 401 is stored", []string{"caller.refused", "caller.unauthorized"}},
	{Draft, "a 429 is stored", []string{"failure.limited"}},
	{Draft, "a 500 is stored", []string{"failure.error"}},
	{Stripe, "a 500 is not stored", []string{"failure.error"}},
	{Draft, "keys are forgotten early", []string{"expiry.kept"}},
	{Draft, "keys are kept for ever", []string{"expiry.forgotten"}},
}

func TestABrokenRuleFailsTheChecksThatBelongToIt(t *testing.T) {
	for _, b := range broken {
		t.Run(string(b.profile)+"/"+string(b.flaw), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := &clockwork{}
				report, err := Run(t.Context(), everything(t, b.profile, clock, func(shop http.Handler) http.Handler {
					layer := &flawed{flaw: b.flaw, profile: b.profile, clock: clock, records: make(map[string]*record)}
					switch b.flaw {
					case "the layer is outside of the guard", "a 401 is stored":
						layer.next = guard(shop)
						return limiter(layer)
					case "a 429 is stored":
						layer.next = limiter(shop)
						return guard(layer)
					}
					layer.next = shop
					return guard(limiter(layer))
				}))
				require.NoError(t, err)
				failed := slices.Concat(report.Failed(Must), report.Failed(Should))
				require.ElementsMatch(t, b.fail, failed, "%s", explain(report))
			})
		})
	}
}

func TestEveryCheckFindsAFlaw(t *testing.T) {
	found := make(map[string]bool)
	for _, b := range broken {
		for _, id := range b.fail {
			found[id] = true
		}
	}
	for _, c := range catalog {
		require.True(t, found[c.id], c.id)
	}
}

// explain is what failed or was skipped, and why.
func explain(r Report) string {
	var b strings.Builder
	for _, res := range r.Results {
		if res.Outcome != Pass {
			fmt.Fprintf(&b, "%s %s\n", res.Outcome, res.text())
		}
	}
	return b.String()
}
