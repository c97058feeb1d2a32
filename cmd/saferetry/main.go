// Command saferetry has tools for clients and servers of APIs that are safe to
// retry, in any language. "saferetry help" lists them.
//
// It exits with 0 if all went well, with 1 if what was looked at is not as it
// should be (answers that differ, a rule that is broken), and with 2 after one line
// on standard error if it was called wrongly or could not begin. Interrupted, send
// and check exit with 130.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// A command is what the first argument names.
type command struct {
	name    string
	summary string
	// run gets the arguments after the name, ends early when ctx is done, and
	// returns the exit code.
	run func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

// Exit codes.
const (
	ok          = 0
	differs     = 1
	misused     = 2
	interrupted = 130
)

// commands in the order they are listed.
func commands() []command {
	return []command{
		{"send", "send one request under one key, and show in what the answers differ", send},
		{"check", "check from outside whether an endpoint keeps the Idempotency-Key contract", check},
		{"key", "make, derive and check keys", key},
		{"serve", "run the reference server, which fails on command", serve},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the command that args name.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, `saferetry: want a command, "saferetry help" lists them`)
		return misused
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		usage(stdout)
		return ok
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "saferetry: %q is not a command, \"saferetry help\" lists them\n", args[0])
	return misused
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: saferetry COMMAND [FLAGS]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-8s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\n\"saferetry COMMAND -h\" lists the flags of a command.\n")
}
