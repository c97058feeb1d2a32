// Command storm shows what clients do to a server that comes back: it simulates
// 10,000 of them, with each wait policy, and writes docs/storm.md and
// docs/storm.svg. Run it from the repository's root:
//
//	go run ./internal/storm
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("docs", "docs", "the `directory` to write to")
	flag.Parse()
	for name, content := range documents(simulateBoth()) {
		if err := os.WriteFile(filepath.Join(*dir, name), content, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "storm:", err)
			os.Exit(1)
		}
	}
}

// The attempts that operations make at most: by default, and enough to last
// longer than the outage.
const (
	fewAttempts  = 4
	manyAttempts = 10
)

// documents returns what is in docs/, by name.
func documents(many, few []result) map[string][]byte {
	return map[string][]byte{
		"storm.md":  text(many, few),
		"storm.svg": chart(many),
	}
}

func simulateBoth() (many, few []result) {
	for _, v := range variants(manyAttempts) {
		many = append(many, simulate(v, seed))
	}
	for _, v := range variants(fewAttempts) {
		few = append(few, simulate(v, seed))
	}
	return many, few
}
