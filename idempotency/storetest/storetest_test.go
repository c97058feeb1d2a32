package storetest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/saferetry/saferetry/idempotency"
	"github.com/saferetry/saferetry/idempotency/storetest"
)

// A clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func fixture(t *testing.T) (*idempotency.MemoryStore, storetest.Fixture) {
	c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s := idempotency.NewMemoryStore(idempotency.WithClock(c.Now))
	t.Cleanup(s.Close)
	return s, storetest.Fixture{Store: s, Advance: c.Advance, Sweep: func() { s.Sweep() }, Len: s.Len, Close: s.Close}
}

// A fixture may be as bare as a third store's.
func TestAFixtureNeedsNoMoreThanStoreAndAdvance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		s, f := fixture(t)
		return storetest.Fixture{Store: s, Advance: f.Advance}
	})
}

func TestAClockMayGoOnByItself(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		_, f := fixture(t)
		f.Slack = time.Second
		return f
	})
}

// A flawed store is a good one, but for one thing.
type flawed struct {
	idempotency.Store
	claim    func(ctx context.Context, id idempotency.ID, fingerprint [32]byte, lease, retention time.Duration) (idempotency.Claim, error)
	begin    func(context.Context, idempotency.Claim) (context.Context, error)
	renew    func(context.Context, idempotency.Claim, time.Duration) error
	complete func(context.Context, idempotency.Claim, idempotency.Answer) error
	release  func(context.Context, idempotency.Claim) error
}

func (f *flawed) Claim(ctx context.Context, id idempotency.ID, fp [32]byte, lease, retention time.Duration) (idempotency.Claim, error) {
	if f.claim != nil {
		return f.claim(ctx, id, fp, lease, retention)
	}
	return f.Store.Claim(ctx, id, fp, lease, retention)
}

func (f *flawed) Begin(ctx context.Context, c idempotency.Claim) (context.Context, error) {
	if f.begin != nil {
		return f.begin(ctx, c)
	}
	return f.Store.Begin(ctx, c)
}

func (f *flawed) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	if f.renew != nil {
		return f.renew(ctx, c, lease)
	}
	return f.Store.Renew(ctx, c, lease)
}

func (f *flawed) Complete(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
	if f.complete != nil {
		return f.complete(ctx, c, a)
	}
	return f.Store.Complete(ctx, c, a)
}

func (f *flawed) Release(ctx context.Context, c idempotency.Claim) error {
	if f.release != nil {
		return f.release(ctx, c)
	}
	return f.Store.Release(ctx, c)
}

// flaws are what a store can have wrong. Each makes a flaw in f, whose store is s.
var flaws = map[string]func(f *flawed, s idempotency.Store, fixture *storetest.Fixture){
	"expires late": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.claim = func(ctx context.Context, id idempotency.ID, fp [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			return s.Claim(ctx, id, fp, l, r+1)
		}
	},
	"expires early": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.claim = func(ctx context.Context, id idempotency.ID, fp [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			return s.Claim(ctx, id, fp, l, r-1)
		}
	},
	"lease ends late": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.claim = func(ctx context.Context, id idempotency.ID, fp [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			return s.Claim(ctx, id, fp, l+1, r)
		}
	},
	"lease ends early": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.claim = func(ctx context.Context, id idempotency.ID, fp [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			return s.Claim(ctx, id, fp, l-1, r)
		}
	},
	"forgets the fingerprint": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.claim = func(ctx context.Context, id idempotency.ID, _ [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			return s.Claim(ctx, id, [32]byte{}, l, r)
		}
	},
	"glues the parts of an ID": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.claim = func(ctx context.Context, id idempotency.ID, fp [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			c, err := s.Claim(ctx, idempotency.ID{Key: id.Scope + id.Method + id.Path + id.Key}, fp, l, r)
			c.ID = id
			return c, err
		}
	},
	"lets every second claim win too": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.claim = func(ctx context.Context, id idempotency.ID, fp [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			c, err := s.Claim(ctx, id, fp, l, r)
			if c.State == idempotency.InProgress {
				c.State, c.Token = idempotency.Claimed, "2"
			}
			return c, err
		}
	},
	"gives out one token": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		tokens := new(sync.Map)
		f.claim = func(ctx context.Context, id idempotency.ID, fp [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			c, err := s.Claim(ctx, id, fp, l, r)
			if c.State == idempotency.Claimed {
				tokens.Store(id, c.Token)
				c.Token = "token"
			}
			return c, err
		}
		f.renew = func(ctx context.Context, c idempotency.Claim, l time.Duration) error {
			token, _ := tokens.Load(c.ID)
			c.Token, _ = token.(string)
			return s.Renew(ctx, c, l)
		}
	},
	"does not renew": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.renew = func(ctx context.Context, c idempotency.Claim, _ time.Duration) error { return s.Renew(ctx, c, 1) }
	},
	"renews what is lost": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.renew = func(ctx context.Context, c idempotency.Claim, l time.Duration) error { s.Renew(ctx, c, l); return nil }
	},
	"completes what is lost": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.complete = func(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
			s.Complete(ctx, c, a)
			return nil
		}
	},
	"releases what is lost": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.release = func(ctx context.Context, c idempotency.Claim) error { s.Release(ctx, c); return nil }
	},
	"hands out its own copy": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		own := new(sync.Map)
		f.complete = func(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
			own.Store(c.ID, &a)
			return s.Complete(ctx, c, a)
		}
		f.claim = func(ctx context.Context, id idempotency.ID, fp [32]byte, l, r time.Duration) (idempotency.Claim, error) {
			c, err := s.Claim(ctx, id, fp, l, r)
			if c.State == idempotency.Completed {
				a, _ := own.Load(id)
				c.Answer = a.(*idempotency.Answer)
			}
			return c, err
		}
	},
	"reverses lines": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.complete = func(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
			a.Header = a.Header.Clone()
			for _, values := range a.Header {
				slices.Reverse(values)
			}
			return s.Complete(ctx, c, a)
		}
	},
	"cuts bodies at NUL": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.complete = func(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
			before, _, _ := strings.Cut(string(a.Body), "\x00")
			a.Body = []byte(before)
			return s.Complete(ctx, c, a)
		}
	},
	"forgets that an answer is not stored": func(f *flawed, s idempotency.Store, _ *storetest.Fixture) {
		f.complete = func(ctx context.Context, c idempotency.Claim, a idempotency.Answer) error {
			a.NotStored = false
			return s.Complete(ctx, c, a)
		}
	},
	"begins without the values": func(f *flawed, _ idempotency.Store, _ *storetest.Fixture) {
		f.begin = func(context.Context, idempotency.Claim) (context.Context, error) { return context.Background(), nil }
	},
	"begins without the end": func(f *flawed, _ idempotency.Store, _ *storetest.Fixture) {
		f.begin = func(ctx context.Context, _ idempotency.Claim) (context.Context, error) {
			return context.WithoutCancel(ctx), nil
		}
	},
	"sweeps too little": func(_ *flawed, _ idempotency.Store, fixture *storetest.Fixture) { fixture.Sweep = func() {} },
	"does not close":    func(_ *flawed, _ idempotency.Store, fixture *storetest.Fixture) { fixture.Close = func() {} },
}

// flawVariable names the flaw of TestAFlawedStore, which is for a process of its own: it is to fail.
const flawVariable = "STORETEST_FLAW"

func TestAFlawedStore(t *testing.T) {
	flaw, ok := flaws[os.Getenv(flawVariable)]
	assert.Equal(t, os.Getenv(flawVariable) != "", ok)
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		s, f := fixture(t)
		if ok {
			flawed := &flawed{Store: s}
			f.Store = flawed
			flaw(flawed, s, &f)
		}
		return f
	})
}

func TestRunFindsEveryFlaw(t *testing.T) {
	for name := range flaws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run", "^TestAFlawedStore$", "-test.failfast")
			cmd.Env = append(os.Environ(), flawVariable+"="+name)
			out, err := cmd.CombinedOutput()
			assert.Error(t, err, "the suite found nothing wrong with a store that %s", name)
			assert.Contains(t, string(out), "--- FAIL: TestAFlawedStore/")
			assert.NotContains(t, string(out), "panic:")
		})
	}
}
