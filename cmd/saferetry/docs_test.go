package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/saferetry/saferetry/testserver"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the transcripts of docs/conformance.md")

// transcript is a block of a command and what it prints.
var transcript = regexp.MustCompile("(?s)```console\n\\$ saferetry (.*?[^\\\\])\n(.*?)```")

// What is another in each run, and what the docs have in its place.
var (
	took   = regexp.MustCompile(`\b\d+ ms\b`)
	waited = regexp.MustCompile(`\b\d+ ms waited`)
	wait   = regexp.MustCompile(`waiting \S+`)
	in     = regexp.MustCompile(`\d+ requests in \S+`)
	date   = regexp.MustCompile(`Date: .*`)
	random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
)

func settled(text string) string {
	text = took.ReplaceAllString(text, "5 ms")
	text = waited.ReplaceAllString(text, "120 ms waited")
	text = wait.ReplaceAllString(text, "waiting 120ms")
	text = in.ReplaceAllString(text, "154 requests in 14s")
	text = date.ReplaceAllString(text, "Date: Sun, 29 Nov 2026 12:00:00 GMT")
	return random.ReplaceAllString(text, "1c6ef2b4-5a0d-4d0f-9a57-7d1f3f6a2c11")
}

func TestTheTranscriptsOfTheDocsAreTrue(t *testing.T) {
	const file, address = "../../docs/conformance.md", "http://127.0.0.1:8080"
	s := testserver.New(t, testserver.WithLatency(250*time.Millisecond))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	ran := 0
	want := transcript.ReplaceAllStringFunc(string(text), func(block string) string {
		parts := transcript.FindStringSubmatch(block)
		var out strings.Builder
		code := run(t.Context(), words(strings.ReplaceAll(parts[1], address, s.URL)), &out, &out)
		require.LessOrEqual(t, code, misused)
		ran++
		shown := strings.ReplaceAll(out.String(), s.URL, address)
		return "```console\n$ saferetry " + parts[1] + "\n" + settled(shown) + "```"
	})
	require.GreaterOrEqual(t, ran, 6)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "go test ./cmd/saferetry -run Docs -update writes them")
}

// words splits a command line as a shell does that knows single quotes and
// backslashes before a line's end.
func words(line string) []string {
	var list []string
	word := regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)
	for _, w := range word.FindAllString(strings.ReplaceAll(line, "\\\n", " "), -1) {
		list = append(list, strings.ReplaceAll(w, "'", ""))
	}
	return list
}
