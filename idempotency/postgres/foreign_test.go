package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/require"
)

// under runs f as a handler would be run, in an operation under key, which is then released, or completed if f succeeds.
func under(t *testing.T, store *postgres.Store, key string, f func(ctx context.Context) error) {
	t.Helper()
	underRequest(t, store, key, "request", f)
}

func underRequest(t *testing.T, store *postgres.Store, key, request string, f func(ctx context.Context) error) {
	t.Helper()
	id := idempotency.ID{Scope: "tenant", Method: "POST", Path: "/charges\xff", Key: key}
	c, err := store.Claim(context.Background(), id, [32]byte([]byte(request + strings.Repeat(" ", 32))[:32]), time.Minute, time.Hour)
	require.NoError(t, err)
	require.Equal(t, idempotency.Claimed, c.State)
	ctx, err := store.Begin(context.Background(), c)
	require.NoError(t, err)
	if f(ctx) == nil {
		require.NoError(t, store.Complete(ctx, c, idempotency.Answer{Status: 201}))
		return
	}
	require.NoError(t, store.Release(ctx, c))
}

// A payment is what a processor answers.
type payment struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

var errLost = errors.New("the answer is lost")

// calls makes functions for Foreign to call, and notes the keys they were called with.
type calls struct{ keys []string }

func (c *calls) answering(p payment, err error) func(context.Context, string) (payment, error) {
	return func(ctx context.Context, key string) (payment, error) {
		c.keys = append(c.keys, key)
		if in, ok := saferetry.KeyFromContext(ctx); !ok || in != key {
			panic("the client SDK would not send the key")
		}
		return p, err
	}
}

func TestAnIntentIsCommittedBeforeTheCall(t *testing.T) {
	store, pool := newStore(t)
	under(t, store, "k", func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge", func(_ context.Context, key string) (int, error) {
			require.Equal(t, 1, count(t, pool, "SELECT attempts FROM idempotency_keys_intents WHERE derived_key = $1 AND settled_at IS NULL", key))
			return 0, nil
		})
		return err
	})
}

func TestARetryAfterALostAnswerAsksUnderTheSameDerivedKey(t *testing.T) {
	store, _ := newStore(t)
	var c calls
	under(t, store, "the caller's raw key", func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge", c.answering(payment{}, errLost))
		require.Equal(t, errLost, err)
		return err
	})
	under(t, store, "the caller's raw key", func(ctx context.Context) error {
		got, err := postgres.Foreign(ctx, "charge", c.answering(payment{"ch_1", 2500}, nil))
		require.Equal(t, payment{"ch_1", 2500}, got)
		return err
	})
	require.Len(t, c.keys, 2)
	require.Equal(t, c.keys[0], c.keys[1])
	require.Len(t, c.keys[0], 45)
	require.NotContains(t, c.keys[0], "raw")
}

func TestARecordedAnswerIsNotAskedForAgain(t *testing.T) {
	store, _ := newStore(t)
	var c calls
	for range 3 {
		under(t, store, "k", func(ctx context.Context) error {
			got, err := postgres.Foreign(ctx, "charge", c.answering(payment{"ch_1", 2500}, nil))
			require.NoError(t, err)
			require.Equal(t, payment{"ch_1", 2500}, got)
			return errors.New("and then the handler failed")
		})
	}
	require.Len(t, c.keys, 1)
}

func TestAnAnswerOfNothingIsAnAnswer(t *testing.T) {
	store, _ := newStore(t)
	n := 0
	for range 2 {
		under(t, store, "k", func(ctx context.Context) error {
			_, err := postgres.Foreign(ctx, "notify", func(context.Context, string) (*payment, error) { n++; return nil, nil })
			require.NoError(t, err)
			return errors.New("the handler failed")
		})
	}
	require.Equal(t, 1, n)
}

func TestDerivedKeysDifferByEveryPart(t *testing.T) {
	store, _ := newStore(t)
	var c calls
	for _, key := range []string{"a", "b"} {
		under(t, store, key, func(ctx context.Context) error {
			for _, step := range []string{"charge", "notify"} {
				_, err := postgres.Foreign(ctx, step, c.answering(payment{}, nil))
				require.NoError(t, err)
			}
			return nil
		})
	}
	seen := map[string]bool{}
	for _, key := range c.keys {
		seen[key] = true
	}
	require.Len(t, seen, 4)
}

func TestTheDerivedKeyIsAsLongAsTheProcessorTakes(t *testing.T) {
	for limit, want := range map[int]int{32: 32, 45: 45, 64: 64, 255: 64} {
		store, _ := newStore(t, postgres.WithKeyLimit(limit))
		var c calls
		under(t, store, "k", func(ctx context.Context) error {
			_, err := postgres.Foreign(ctx, "charge", c.answering(payment{}, nil))
			return err
		})
		require.Len(t, c.keys[0], want)
		require.NoError(t, saferetry.ValidateKey(c.keys[0]))
	}
}

// A retry after a deployment that changed the limit must not come under a new key.
func TestAChangedKeyLimitDoesNotChangeTheKeyOfAnIntent(t *testing.T) {
	store, pool := newStore(t)
	var c calls
	for _, s := range []*postgres.Store{store, openStore(t, pool, postgres.WithKeyLimit(64))} {
		under(t, s, "k", func(ctx context.Context) error {
			_, err := postgres.Foreign(ctx, "charge", c.answering(payment{}, errLost))
			return err
		})
	}
	require.Equal(t, c.keys[0], c.keys[1])
}

func TestForeignWithoutAnOperation(t *testing.T) {
	var c calls
	_, err := postgres.Foreign(context.Background(), "charge", c.answering(payment{}, nil))
	require.ErrorIs(t, err, postgres.ErrNoOperation)
	require.Empty(t, c.keys)
}

// The first request under the key failed after the processor had it, which freed the key for any other body.
func TestAStepIsNotAnsweredWithWhatAnotherRequestSent(t *testing.T) {
	store, _ := newStore(t)
	var c calls
	underRequest(t, store, "k", "2500 usd", func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge", c.answering(payment{"ch_1", 2500}, nil))
		require.NoError(t, err)
		return errors.New("the handler failed")
	})
	underRequest(t, store, "k", "9900 usd", func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge", c.answering(payment{"ch_2", 9900}, nil))
		require.Equal(t, postgres.ErrReused, err)
		return err
	})
	require.Len(t, c.keys, 1)
}

func TestALateOwnerDoesNotCallOut(t *testing.T) {
	store, pool := newStore(t)
	var c calls
	id := idempotency.ID{Key: "k"}
	late, err := store.Claim(context.Background(), id, [32]byte{}, time.Minute, time.Hour)
	require.NoError(t, err)
	ctx, err := store.Begin(context.Background(), late)
	require.NoError(t, err)
	advance(t, pool, time.Minute)
	_, err = store.Claim(context.Background(), id, [32]byte{}, time.Minute, time.Hour)
	require.NoError(t, err)
	_, err = postgres.Foreign(ctx, "charge", c.answering(payment{}, nil))
	require.Equal(t, idempotency.ErrLost, err)
	require.Empty(t, c.keys)
}

// A day later the key may be used for another operation, which must not be answered with the first one's payment.
func TestASettledIntentExpiresWithItsOperation(t *testing.T) {
	store, pool := newStore(t)
	var c calls
	for i, request := range []string{"Monday", "Tuesday"} {
		underRequest(t, store, "k", request, func(ctx context.Context) error {
			got, err := postgres.Foreign(ctx, "charge", c.answering(payment{request, i}, nil))
			require.Equal(t, payment{request, i}, got)
			return err
		})
		advance(t, pool, time.Hour)
	}
	require.Len(t, c.keys, 2)
}

func TestAnIntentIsPendingUnlessThereWasNoEffect(t *testing.T) {
	unreachable := func(err error) func(context.Context, string) (payment, error) {
		return func(ctx context.Context, _ string) (payment, error) {
			base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, err }}
			client := saferetry.NewClient(&http.Client{Transport: base}, saferetry.WithMaxAttempts(1))
			r, _ := http.NewRequestWithContext(ctx, "POST", "http://processor.example/", nil)
			_, err := client.Do(r)
			return payment{}, err
		}
	}
	var c calls
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	declined := errors.New("declined")
	for name, tt := range map[string]struct {
		calls   []func(context.Context, string) (payment, error)
		pending int
	}{
		"the answer was lost":        {[]func(context.Context, string) (payment, error){c.answering(payment{}, errLost)}, 1},
		"the processor refused":      {[]func(context.Context, string) (payment, error){c.answering(payment{}, postgres.Refused(declined))}, 0},
		"nothing was sent":           {[]func(context.Context, string) (payment, error){unreachable(refused)}, 0},
		"lost, then nothing sent":    {[]func(context.Context, string) (payment, error){c.answering(payment{}, errLost), unreachable(refused)}, 1},
		"lost, then refused":         {[]func(context.Context, string) (payment, error){c.answering(payment{}, errLost), c.answering(payment{}, postgres.Refused(declined))}, 0},
		"refused, then lost":         {[]func(context.Context, string) (payment, error){c.answering(payment{}, postgres.Refused(declined)), c.answering(payment{}, errLost)}, 1},
		"refused, then it went well": {[]func(context.Context, string) (payment, error){c.answering(payment{}, postgres.Refused(declined)), c.answering(payment{}, nil)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store, _ := newStore(t)
			for _, call := range tt.calls {
				under(t, store, "k", func(ctx context.Context) error {
					_, err := postgres.Foreign(ctx, "charge", call)
					return errors.Join(err, errors.New("the handler failed"))
				})
			}
			pending, err := store.Pending(context.Background(), 0)
			require.NoError(t, err)
			require.Len(t, pending, tt.pending)
		})
	}
	err := postgres.Refused(declined)
	require.ErrorIs(t, err, declined)
	require.EqualError(t, err, declined.Error())
	require.NoError(t, postgres.Refused(nil))
}

// While the first owner's call was under way, the next owner sent the same, and that answer is lost.
func TestARefusalIsNotTakenForThatOfALaterAttempt(t *testing.T) {
	store, pool := newStore(t)
	ctx := context.Background()
	id := idempotency.ID{Key: "k"}
	begin := func() context.Context {
		c, err := store.Claim(ctx, id, [32]byte{}, time.Minute, time.Hour)
		require.NoError(t, err)
		begun, err := store.Begin(ctx, c)
		require.NoError(t, err)
		return begun
	}
	_, err := postgres.Foreign(begin(), "charge", func(context.Context, string) (int, error) {
		advance(t, pool, time.Minute)
		_, err := postgres.Foreign(begin(), "charge", func(context.Context, string) (int, error) { return 0, errLost })
		require.Equal(t, errLost, err)
		return 0, postgres.Refused(errors.New("declined"))
	})
	require.Error(t, err)
	pending, err := store.Pending(ctx, 0)
	require.NoError(t, err)
	require.Len(t, pending, 1)
}

// crashed leaves an intent as a process does that dies in its call.
func crashed(t *testing.T, store *postgres.Store, key string) {
	under(t, store, key, func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge\x00", func(context.Context, string) (payment, error) { return payment{}, errLost })
		return err
	})
}

func TestPendingListsWhatIsOlderOldestFirst(t *testing.T) {
	store, pool := newStore(t)
	ctx := context.Background()
	for _, key := range []string{"first", "second", "third"} {
		crashed(t, store, key)
		advance(t, pool, time.Hour)
	}
	pending, err := store.Pending(ctx, 90*time.Minute)
	require.NoError(t, err)
	require.Len(t, pending, 2)
	for i, key := range []string{"first", "second"} {
		in := pending[i]
		require.Equal(t, idempotency.ID{Scope: "tenant", Method: "POST", Path: "/charges\xff", Key: key}, in.ID)
		require.Equal(t, "charge\x00", in.Step)
		require.Equal(t, 1, in.Attempts)
		require.Len(t, in.Key, 45)
		require.Equal(t, in.FirstSent, in.LastSent)
		require.WithinDuration(t, time.Now().Add(-time.Duration(3-i)*time.Hour), in.FirstSent, time.Minute)
	}
	crashed(t, store, "first")
	pending, err = store.Pending(ctx, 0)
	require.NoError(t, err)
	require.Len(t, pending, 3)
	require.Equal(t, "first", pending[2].ID.Key, "sent again, and so the youngest")
	require.Equal(t, 2, pending[2].Attempts)
	require.True(t, pending[2].FirstSent.Before(pending[2].LastSent))

	_, err = store.Sweep(ctx)
	require.NoError(t, err)
	pending, err = store.Pending(ctx, 0)
	require.NoError(t, err)
	require.Len(t, pending, 3, "what is pending does not expire")
}

func TestResolveSettlesWithAnAnswer(t *testing.T) {
	store, pool := newStore(t)
	ctx := context.Background()
	crashed(t, store, "k")
	advance(t, pool, 48*time.Hour) // the operation has expired
	pending, err := store.Pending(ctx, time.Hour)
	require.NoError(t, err)
	require.NoError(t, store.Resolve(ctx, pending[0].Key, payment{"ch_1", 2500}))
	require.ErrorIs(t, store.Resolve(ctx, pending[0].Key, payment{"ch_2", 0}), postgres.ErrNotPending)
	pending, err = store.Pending(ctx, 0)
	require.NoError(t, err)
	require.Empty(t, pending)
	_, err = store.Sweep(ctx)
	require.NoError(t, err)
	under(t, store, "k", func(ctx context.Context) error {
		got, err := postgres.Foreign(ctx, "charge\x00", func(context.Context, string) (payment, error) { panic("not called") })
		require.Equal(t, payment{"ch_1", 2500}, got)
		return err
	})
}

func TestResolveSettlesThatThereWasNoEffect(t *testing.T) {
	store, _ := newStore(t)
	ctx := context.Background()
	crashed(t, store, "k")
	pending, err := store.Pending(ctx, 0)
	require.NoError(t, err)
	require.NoError(t, store.Resolve(ctx, pending[0].Key, nil))
	var c calls
	under(t, store, "k", func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge\x00", c.answering(payment{}, nil))
		return err
	})
	require.Equal(t, []string{pending[0].Key}, c.keys)
}

func TestResolveRefusesWhatItCannotSettle(t *testing.T) {
	store, _ := newStore(t)
	require.ErrorIs(t, store.Resolve(context.Background(), "unknown", payment{}), postgres.ErrNotPending)
	require.ErrorContains(t, store.Resolve(context.Background(), "k", func() {}), "postgres: Resolve: the answer: json")
}

// The reconciler was faster than the call.
func TestAnAnswerThatIsRecordedStands(t *testing.T) {
	store, _ := newStore(t)
	under(t, store, "k", func(ctx context.Context) error {
		got, err := postgres.Foreign(ctx, "charge", func(ctx context.Context, key string) (payment, error) {
			require.NoError(t, store.Resolve(ctx, key, payment{"resolved", 1}))
			return payment{"answered", 2}, nil
		})
		require.Equal(t, payment{"resolved", 1}, got)
		return err
	})
}

func TestAnAnswerThatCannotBeKeptOrReadIsAnError(t *testing.T) {
	store, _ := newStore(t)
	under(t, store, "k", func(ctx context.Context) error {
		_, err := postgres.Foreign(ctx, "charge", func(context.Context, string) (func(), error) { return func() {}, nil })
		require.ErrorContains(t, err, `postgres: Foreign: step "charge": json`)
		_, err = postgres.Foreign(ctx, "charge", func(context.Context, string) (string, error) { return "text", nil })
		require.NoError(t, err)
		_, err = postgres.Foreign(ctx, "charge", func(context.Context, string) (int, error) { return 0, nil })
		require.ErrorContains(t, err, `postgres: Foreign: step "charge": json`)
		return nil
	})
}

// The client of the request hangs up while the processor is at work: its answer is kept for the retry.
func TestTheProcessorsAnswerIsRecordedAlthoughTheClientHungUp(t *testing.T) {
	store, pool := newStore(t)
	under(t, store, "k", func(ctx context.Context) error {
		ctx, hangUp := context.WithCancel(ctx)
		_, err := postgres.Foreign(ctx, "charge", func(context.Context, string) (int, error) { hangUp(); return 1, nil })
		require.NoError(t, err)
		return ctx.Err()
	})
	require.Equal(t, 1, count(t, pool, "SELECT count(*) FROM idempotency_keys_intents WHERE answer IS NOT NULL"))
}

func TestForeignFailsWithTheDatabase(t *testing.T) {
	network, pool := newNetwork(t, newSchema(t))
	store := openStore(t, pool)
	var c calls
	srv := httptest.NewServer(idempotency.Middleware(store, tenant)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		network.setDown(true)
		_, err := postgres.Foreign(r.Context(), "charge", c.answering(payment{}, nil))
		require.ErrorContains(t, err, `postgres: Foreign: step "charge": `)
		network.setDown(false)
		_, err = postgres.Foreign(r.Context(), "charge", func(context.Context, string) (int, error) {
			network.setDown(true)
			return 1, nil
		})
		require.ErrorContains(t, err, `postgres: Foreign: step "charge": `, "an answer that is not recorded is none")
		network.setDown(false)
		w.WriteHeader(http.StatusTeapot)
	})))
	defer srv.Close()
	require.Equal(t, http.StatusTeapot, post(t, srv, "k").status)
	require.Empty(t, c.keys, "no intent, no call")
	pending, err := store.Pending(context.Background(), 0)
	require.NoError(t, err)
	require.Len(t, pending, 1)
}
