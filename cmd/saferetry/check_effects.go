package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// readEffects is the way to count effects that the flags give, or nil.
func (c *checkFlags) readEffects(flags *flag.FlagSet, req request) (func(context.Context) (int, error), error) {
	switch {
	case *c.effectsURL != "" && *c.effects != "":
		return nil, errors.New("flag -effects-command: want it without -effects-url, which says the same")
	case *c.effects != "":
		return func(ctx context.Context) (int, error) { return countByCommand(ctx, *c.effects) }, nil
	case *c.effectsURL == "" && given(flags, "effects-path"):
		return nil, errors.New("flag -effects-path: want it with -effects-url")
	case *c.effectsURL == "":
		return nil, nil
	}
	u, err := readURL("flag -effects-url", *c.effectsURL)
	if err != nil {
		return nil, err
	}
	if *c.effectsPath == "" {
		return nil, errors.New("flag -effects-path: want a path, such as data.length")
	}
	ask := request{method: http.MethodGet, url: u, header: credentials(req, u.Scheme+u.Host)}
	client := c.client()
	return func(ctx context.Context) (int, error) {
		body, err := ask.do(ctx, client)
		if err != nil {
			return 0, fmt.Errorf("-effects-url: %w", err)
		}
		n, err := numberAt(body, *c.effectsPath)
		if err != nil {
			return 0, fmt.Errorf("-effects-path: %w", err)
		}
		return n, nil
	}, nil
}

// readAdvance is the way to move the clock that the flags give, or nil.
func (c *checkFlags) readAdvance(req request) (func(context.Context, time.Duration) error, error) {
	switch {
	case *c.advanceURL != "" && *c.advance != "":
		return nil, errors.New("flag -advance-command: want it without -advance-url, which says the same")
	case *c.advance != "":
		return func(ctx context.Context, d time.Duration) error {
			_, err := shell(ctx, "-advance-command", filled(*c.advance, d))
			return err
		}, nil
	case *c.advanceURL == "":
		return nil, nil
	}
	if _, err := readURL("flag -advance-url", filled(*c.advanceURL, 0)); err != nil {
		return nil, err
	}
	if filled(*c.advanceURL, 0) == *c.advanceURL {
		return nil, errors.New("flag -advance-url: want {{d}} or {{s}} in it, for how far")
	}
	client := c.client()
	return func(ctx context.Context, d time.Duration) error {
		u, err := readURL("-advance-url", filled(*c.advanceURL, d))
		if err != nil {
			return err
		}
		ask := request{method: http.MethodPost, url: u, header: credentials(req, u.Scheme+u.Host)}
		if _, err = ask.do(ctx, client); err != nil {
			return fmt.Errorf("-advance-url: %w", err)
		}
		return nil
	}, nil
}

// filled says how far the clock is to move.
func filled(template string, d time.Duration) string {
	return strings.NewReplacer("{{d}}", d.String(), "{{s}}", strconv.FormatInt(int64(d.Seconds()), 10)).Replace(template)
}

func (c *checkFlags) client() *http.Client {
	return &http.Client{
		Transport:     c.transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// credentials are the header fields of the request that checks, for another one
// to the same origin. Elsewhere they are not sent.
func credentials(req request, origin string) http.Header {
	if req.url.Scheme+req.url.Host != origin {
		return make(http.Header)
	}
	h := req.header.Clone()
	h.Del("Content-Type")
	return h
}

// do sends the request, and returns the body of a 2xx.
func (r request) do(ctx context.Context, client *http.Client) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = r.header.Clone()
	resp, err := client.Do(req)
	if err != nil {
		return nil, errors.New(explain(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, fmt.Errorf("answered %s: want 2xx", statusText(resp.StatusCode))
	}
	return io.ReadAll(io.LimitReader(resp.Body, longestAnswer))
}

// numberAt finds a number in JSON: a path of members and indexes, with dots
// between, where length at the end is that of an array.
func numberAt(body []byte, path string) (int, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return 0, fmt.Errorf("the answer is not JSON: %w", err)
	}
	for step := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			value, ok := in[step]
			if !ok {
				return 0, fmt.Errorf("%q: the answer has no member %q", path, step)
			}
			v = value
		case []any:
			i, err := strconv.Atoi(step)
			switch {
			case step == "length":
				v = json.Number(strconv.Itoa(len(in)))
			case err != nil || i < 0 || i >= len(in):
				return 0, fmt.Errorf("%q: the answer has no element %q", path, step)
			default:
				v = in[i]
			}
		default:
			return 0, fmt.Errorf("%q: nothing is below %q", path, step)
		}
	}
	n, isNumber := v.(json.Number)
	count, err := strconv.Atoi(n.String())
	if !isNumber || err != nil {
		return 0, fmt.Errorf("%q: not an integer", path)
	}
	return count, nil
}

// countByCommand reads the number that a command prints.
func countByCommand(ctx context.Context, command string) (int, error) {
	out, err := shell(ctx, "-effects-command", command)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		return 0, errors.New("-effects-command: want a number and nothing else on its standard output")
	}
	return n, nil
}

// shell runs a command, which ends with ctx.
func shell(ctx context.Context, flag, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = 100 * time.Millisecond // what it left running does not hold us up
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		said, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("%s: %w: %s", flag, err, printable(said))
	}
	return out.String(), nil
}
