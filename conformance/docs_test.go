package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of docs/conformance.md")

// shortSource is a source as the table has it.
var shortSource = strings.NewReplacer(
	"draft-ietf-httpapi-idempotency-key-header, section ", "draft ",
	"ACP checkout RFC 2026-01-16, section ", "ACP ",
	"RFC 9110, section ", "RFC 9110, ",
	"Stripe API reference, Idempotent requests", "page",
	"Stripe API reference, Errors (not verified)", "errors",
	own, "own",
)

// checksTable lists the checks of the catalog.
func checksTable() string {
	var b strings.Builder
	b.WriteString("| check | what is looked at | what is wanted | draft | stripe | acp |\n|---|---|---|---|---|---|\n")
	for _, c := range catalog {
		fmt.Fprintf(&b, "| `%s` | %s | %s |", c.id, c.about, c.want)
		for _, p := range Profiles() {
			cell := ""
			if r, ok := c.rule(p); ok {
				cell = fmt.Sprintf("%s (%s)", r.level, shortSource.Replace(r.source))
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// peersTable has what was found of the peers.
func peersTable(t *testing.T) string {
	files, err := filepath.Glob("peers/*/found.txt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 2)
	slices.Sort(files)
	head, rule := "| check |", "|---|"
	found := make([]map[string]string, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name, results, _ := strings.Cut(string(text), "\n")
		head += " " + name + " |"
		rule += "---|"
		found[i] = make(map[string]string)
		for line := range strings.Lines(results) {
			outcome, id, _ := strings.Cut(strings.TrimSpace(line), " ")
			found[i][id] = outcome
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", head, rule)
	for _, c := range catalog {
		if _, ok := c.rule(Draft); !ok {
			continue
		}
		fmt.Fprintf(&b, "| `%s` |", c.id)
		for i := range found {
			require.NotEmpty(t, found[i][c.id], "%s in %s", c.id, files[i])
			fmt.Fprintf(&b, " %s |", found[i][c.id])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestTheTablesOfTheDocsAreTrue(t *testing.T) {
	const file = "../docs/conformance.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	want := string(text)
	for name, table := range map[string]string{"checks": checksTable(), "peers": peersTable(t)} {
		begin, end := "<!-- "+name+": written by go test -update -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(want, begin)
		require.True(t, ok, begin)
		_, after, ok := strings.Cut(rest, end)
		require.True(t, ok, end)
		want = before + begin + "\n" + table + "\n" + end + after
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "go test ./conformance -run Docs -update writes them")
}
