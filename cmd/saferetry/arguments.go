package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// parseURL reads the arguments of a command whose last one is a URL. It reports
// as parse does.
func parseURL(flags *flag.FlagSet, args []string, stdout, stderr io.Writer) (address string, code int, goOn bool) {
	rest, code, goOn := parseOperands(flags, "URL", args, stdout, stderr)
	if !goOn {
		return "", code, false
	}
	switch {
	case len(rest) == 0:
		return "", fail(stderr, flags.Name(), errors.New("want a URL as the last argument")), false
	case len(rest) > 1 && strings.HasPrefix(rest[1], "-"):
		return "", fail(stderr, flags.Name(), fmt.Errorf("flag %s: want the flags before the URL", rest[1])), false
	case len(rest) > 1:
		return "", fail(stderr, flags.Name(), errors.New("more than one argument after the flags: want the URL alone")), false
	}
	return rest[0], ok, true
}

// parseOperands reads a command's flags and returns the arguments after them. It
// reports as parse does.
func parseOperands(flags *flag.FlagSet, operands string, args []string, stdout, stderr io.Writer) (rest []string, code int, goOn bool) {
	flags.SetOutput(io.Discard) // it would say more than a line
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "usage: saferetry %s [FLAGS] %s\n\n", flags.Name(), operands)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return nil, ok, false
	case err != nil:
		return nil, fail(stderr, flags.Name(), err), false
	}
	return flags.Args(), ok, true
}

// given reports whether the flag was given, be it with its default.
func given(flags *flag.FlagSet, name string) bool {
	found := false
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
