package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/saferetry/saferetry"
)

// A sending is a run of "saferetry send": one request under one key, once or more
// often.
type sending struct {
	request
	key       string
	keyHeader string
	timeout   time.Duration
	transport http.RoundTripper
	retry     bool
	attempts  int
	times     int
	parallel  int
	change    bool // then send another body
	out       printer
}

// send sends one request under one key and shows what comes back.
func send(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("send", flag.ContinueOnError)
	r := newRequestFlags(flags, "the request's `body`; @FILE reads a file, - standard input")
	keyFlag := flags.String("key", "", "the `key`; without it, or -derive, a random one")
	derive := flags.String("derive", "", "derive the key from `namespace,part,...`")
	times := flags.Int("times", 1, "send it `n` times, one after another")
	parallel := flags.Int("parallel", 1, "send it `n` times at once")
	change := flags.Bool("then-change-body", false, "at the end send another body under the same key")
	retry := flags.Bool("retry", false, "send it through the SDK, and show its attempts")
	attempts := flags.Int("attempts", 4, "with -retry: at most `n` attempts")
	asJSON := flags.Bool("json", false, "print a JSON object for each answer")
	address, code, goOn := parseURL(flags, args, stdout, stderr)
	if !goOn {
		return code
	}
	s := &sending{
		keyHeader: *r.keyHeader, timeout: r.timeout.Duration, transport: r.transport(), retry: *retry, attempts: *attempts,
		times: *times, parallel: *parallel, change: *change, out: newPrinter(stdout, *asJSON),
	}
	var err error
	if s.request, err = r.read(address); err == nil {
		err = s.setKey(flags, *keyFlag, *derive)
	}
	if err == nil {
		err = s.check(flags)
	}
	if err != nil {
		return fail(stderr, "send", err)
	}
	return s.run(ctx, stderr)
}

// setKey takes the key from the flags, or makes one.
func (s *sending) setKey(flags *flag.FlagSet, key, derive string) error {
	inHeader := s.header.Get(s.keyHeader) != ""
	switch {
	case given(flags, "key") && given(flags, "derive"):
		return errors.New("flag -derive: want it without -key, which says the same")
	case inHeader && (given(flags, "key") || given(flags, "derive")):
		return fmt.Errorf("flag -H: want %s in -key or -derive, not twice", s.keyHeader)
	case inHeader:
		s.key = s.header.Get(s.keyHeader)
	case given(flags, "derive"):
		parts := strings.Split(derive, ",")
		if len(parts) < 2 {
			return fmt.Errorf("flag -derive: %q: want a namespace and one part or more, as in charge,1234", derive)
		}
		s.key = sdk.DeriveKey(parts[0], parts[1:]...)
	case given(flags, "key"):
		s.key = key
	default:
		s.key = sdk.NewKey()
	}
	s.header.Del(s.keyHeader)
	if !isFieldValue(s.key) {
		return errors.New("flag -key: has characters that a header cannot have")
	}
	if err := validKey(strings.Trim(s.key, `"`)); s.retry && err != nil {
		return fmt.Errorf("flag -key: %w", err)
	}
	return nil
}

func (s *sending) check(flags *flag.FlagSet) error {
	switch {
	case s.times < 1:
		return fmt.Errorf("flag -times: %d: want 1 or more", s.times)
	case s.parallel < 1:
		return fmt.Errorf("flag -parallel: %d: want 1 or more", s.parallel)
	case s.parallel > 1000:
		return fmt.Errorf("flag -parallel: %d: want at most 1000", s.parallel)
	case s.times > 1 && s.parallel > 1:
		return errors.New("flag -parallel: want it without -times")
	case s.attempts < 1:
		return fmt.Errorf("flag -attempts: %d: want 1 or more", s.attempts)
	case given(flags, "attempts") && !s.retry:
		return errors.New("flag -attempts: want it with -retry")
	}
	return nil
}

// run sends, shows each answer, and returns the exit code.
func (s *sending) run(ctx context.Context, stderr io.Writer) int {
	s.out.begin(s)
	var all []*result
	if s.parallel > 1 {
		all = s.atOnce(ctx)
	} else {
		all = s.inTurn(ctx)
	}
	if s.change && ctx.Err() == nil && !lost(all) {
		changed := *s
		changed.body = changedBody(s.body)
		res := changed.once(ctx, len(all)+1)
		res.Changed = string(changed.body)
		res.compare(all[0])
		s.out.answer(res)
		all = append(all, res)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "saferetry send: interrupted")
		return interrupted
	case lost(all):
		return fail(stderr, "send", fmt.Errorf("%s: %s", s.url.Host, all[len(all)-1].Error))
	}
	return s.out.end(all)
}

// lost reports whether the last of them had no connection: there is no point in
// going on.
func lost(all []*result) bool {
	return len(all) > 0 && all[len(all)-1].err != nil && notReached(all[len(all)-1].err)
}

func (s *sending) inTurn(ctx context.Context) []*result {
	var all []*result
	for n := 1; n <= s.times && ctx.Err() == nil && !lost(all); n++ {
		res := s.once(ctx, n)
		all = append(all, res)
		s.show(ctx, all[0], res)
	}
	return all
}

func (s *sending) atOnce(ctx context.Context) []*result {
	var all []*result // as they come
	var mu sync.Mutex
	var done sync.WaitGroup
	for n := range s.parallel {
		done.Go(func() {
			res := s.once(ctx, n+1)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, res)
		})
	}
	done.Wait()
	slices.SortStableFunc(all, func(a, b *result) int { return b.performed() - a.performed() })
	for i, res := range all {
		if !s.retry { // whose attempts were shown under their numbers
			res.N = i + 1
		}
		s.show(ctx, all[0], res)
	}
	return all
}

func (s *sending) show(ctx context.Context, first, res *result) {
	res.compare(first)
	if ctx.Err() == nil && (res.err == nil || !notReached(res.err)) {
		s.out.answer(res)
	}
}
