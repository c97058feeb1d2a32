package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// right is what keeps all of the draft's rules.
func right(clock *clockwork) func(http.Handler) http.Handler {
	return func(shop http.Handler) http.Handler {
		return guard(limiter(&flawed{profile: Draft, clock: clock, records: make(map[string]*record), next: shop}))
	}
}

func TestNoMoreIsSentThanPlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &clockwork{}
		var sent, counted atomic.Int64
		target := everything(t, Draft, clock, func(shop http.Handler) http.Handler {
			h := right(clock)(shop)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent.Add(1)
				h.ServeHTTP(w, r)
			})
		})
		count := target.Effects
		target.Effects = func(ctx context.Context) (int, error) {
			counted.Add(1)
			return count(ctx)
		}
		plan, err := Plan(target)
		require.NoError(t, err)
		require.Zero(t, sent.Load(), "planning sends nothing")
		for _, step := range plan[1:] {
			sent.Store(0)
			counted.Store(0)
			target.Only = []string{step.ID}
			report, err := Run(t.Context(), target)
			require.NoError(t, err)
			require.Len(t, report.Results, 1)
			assert.LessOrEqual(t, int(sent.Load()), plan[0].Requests+step.Requests, step.ID)
			assert.LessOrEqual(t, int(counted.Load()), plan[0].Counts+step.Counts, step.ID)
			assert.Equal(t, int(sent.Load()), report.Requests, step.ID)
			assert.Positive(t, step.Requests, step.ID)
		}
	})
}

func TestACheckThatWouldSendMoreThanPlannedIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &clockwork{}
		target, err := everything(t, Draft, clock, right(clock)).withDefaults()
		require.NoError(t, err)
		greedy := check{id: "greedy", draft: must(own), requests: 1, run: func(p *probe) {
			p.send(p.operation())
			p.send(p.operation())
		}}
		r := &run{target: target}
		res, err := r.try(t.Context(), &greedy)
		require.NoError(t, err)
		require.Equal(t, Fail, res.Outcome)
		require.Equal(t, 1, r.report.Requests)
	})
}

func TestWhatIsNotKnownOfATargetSkipsItsChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &clockwork{}
		full := everything(t, Draft, clock, right(clock))
		target := Target{
			URL: "http://api.example.com/orders", Header: full.Header, Body: `{"amount":1}`, Transport: full.Transport,
		}
		report, err := Run(t.Context(), target)
		require.NoError(t, err)
		why := make(map[string]string)
		for _, res := range report.Results {
			require.NotEqual(t, Fail, res.Outcome, res.text())
			if res.Outcome == Skip {
				why[res.ID] = res.Why
			}
		}
		for id, want := range map[string]string{
			"replay.once": "-effects-url", "reuse.body": "-other-body", "flight.conflict": "-slow", "caller.other": "-other-caller",
			"caller.refused": "-refused", "failure.error": "-error", "failure.limited": "-limited", "content.large": "-large",
			"content.binary": "-binary", "content.hop-by-hop": "-hop", "expiry.kept": "-advance-url", "concurrent.answers": "-yes",
		} {
			assert.Contains(t, why[id], want, id)
		}
		require.Equal(t, report.Count(Skip), len(why))
		require.Equal(t, len(report.Results), report.Count(Pass)+report.Count(Skip))

		plan, err := Plan(target)
		require.NoError(t, err)
		for _, step := range plan[1:] {
			if step.ID == "content.gzip" || step.ID == "content.set-cookie" {
				continue // look at the answer first
			}
			require.Equal(t, why[step.ID], step.Skip, step.ID)
			require.Equal(t, step.Skip == "", step.Requests > 0, step.ID)
		}
	})
}

func TestAWayThatDoesNotWorkSkipsItsChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &clockwork{}
		target := everything(t, Draft, clock, right(clock))
		none := &Way{}
		target.Ways = Ways{
			Slow: none, Error: none, Limited: none, Refused: none, Large: none, Binary: none, Cookie: none, HopByHop: none,
		}
		target.NullField = "amount"
		report, err := Run(t.Context(), target)
		require.NoError(t, err)
		for _, id := range []string{
			"content.large", "content.binary", "content.set-cookie", "content.hop-by-hop", "flight.conflict",
			"flight.retry-after", "flight.then-replay", "flight.other-body", "flight.client-gone", "caller.unauthorized",
			"failure.error", "failure.limited",
		} {
			require.Equal(t, Skip, outcome(report, id), id)
		}
		require.Equal(t, Fail, outcome(report, "caller.refused"), "the endpoint does not refuse what it is said to")
	})
}

func TestAFailureByAnotherBodyIsNotARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &clockwork{}
		target := everything(t, Draft, clock, right(clock))
		target.Only = []string{"failure.error", "failure.limited", "flight.other-body"}
		target.Ways.Error = &Way{Body: map[string]json.RawMessage{"fail": []byte("true")}}
		target.Ways.Limited = &Way{Query: map[string][]string{"limited": {"1"}}}
		target.Ways.Slow.Body = map[string]json.RawMessage{"slow": []byte("true")}
		report, err := Run(t.Context(), target)
		require.NoError(t, err)
		require.Equal(t, Skip, outcome(report, "failure.error"))
		require.Equal(t, Skip, outcome(report, "failure.limited"))
		require.Equal(t, Pass, outcome(report, "flight.other-body"))
	})
}

func outcome(r Report, id string) Outcome {
	for _, res := range r.Results {
		if res.ID == id {
			return res.Outcome
		}
	}
	return ""
}

func TestAnswersThatAreAllTheSameProveNothing(t *testing.T) {
	for _, marked := range []bool{true, false} {
		t.Run(fmt.Sprint("marked ", marked), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := make(map[string]bool)
				target := Target{URL: "http://localhost/", Body: "{{n}}", Transport: serve(t, http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						key := r.Header.Get("Idempotency-Key")
						if marked && seen[key] {
							w.Header().Set("Idempotent-Replayed", "true")
						}
						seen[key] = true
						fmt.Fprint(w, "ok")
					}))}
				target.Only = []string{"replay.same", "replay.marked", "reuse.path", "replay.get"}
				report, err := Run(t.Context(), target)
				require.NoError(t, err)
				if marked {
					require.Equal(t, Pass, outcome(report, "replay.same"))
					require.Equal(t, Fail, outcome(report, "reuse.path"))
					require.Equal(t, Fail, outcome(report, "replay.get"))
					return
				}
				require.Equal(t, Skip, outcome(report, "replay.same"))
				require.Equal(t, Skip, outcome(report, "reuse.path"))
				require.Equal(t, Fail, outcome(report, "replay.marked"))
			})
		})
	}
}

func TestAnEndpointThatDoesNotWorkIsAnError(t *testing.T) {
	answering := func(status int, h ...string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(h); i += 2 {
				w.Header().Set(h[i], h[i+1])
			}
			w.WriteHeader(status)
			fmt.Fprint(w, "sorry,\n not today")
		})
	}
	hang := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	never := func(context.Context) (int, error) { return 7, nil }
	lost := func(context.Context) (int, error) { return 0, errors.New("no such table") }
	for name, c := range map[string]struct {
		handler http.Handler
		effects func(context.Context) (int, error)
		want    string
	}{
		"404":            {answering(404), nil, `conformance: POST http://localhost/x?…: a fresh operation was answered 404: want 2xx ("sorry, not today")`},
		"always marked":  {answering(200, "Idempotent-Replayed", "true"), nil, "a fresh operation was answered with a stored answer"},
		"hangs":          {hang, nil, "no answer: none within 3s"},
		"not counted":    {answering(200), never, "2 fresh operations changed the number of effects by 0"},
		"can't be asked": {answering(200), lost, "conformance: Target.Effects: no such table"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := Run(t.Context(), Target{
					URL: "http://user:secret@localhost/x?token=secret", Transport: serve(t, c.handler), Effects: c.effects,
					Timeout: 3 * time.Second,
				})
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, err.Error(), "secret")
				require.LessOrEqual(t, time.Since(start), 3*time.Second)
			})
		})
	}
}

func TestARunEndsAsSoonAsItsContextDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &clockwork{}
		target := everything(t, Draft, clock, right(clock))
		target.Ways.Slow = way("X-Slow", "5s")
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		target.Progress = func(res Result) {
			if res.ID == "json.null-absent" { // the next are slow
				time.AfterFunc(time.Second, func() { cancel(why) })
			}
		}
		start := time.Now()
		report, err := Run(ctx, target)
		require.ErrorIs(t, err, why)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, "json.null-absent", report.Results[len(report.Results)-1].ID)
	})
}

func TestAClockThatCannotBeMovedEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &clockwork{}
		target := everything(t, Draft, clock, right(clock))
		target.Advance = func(context.Context, time.Duration) error { return errors.New("stuck") }
		report, err := Run(t.Context(), target)
		require.ErrorContains(t, err, "conformance: Target.Advance: stuck")
		require.Equal(t, "failure.limited", report.Results[len(report.Results)-1].ID)
	})
}
