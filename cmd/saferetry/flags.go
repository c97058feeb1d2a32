package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// parse reads a command's arguments, which are flags alone. If it reports false,
// the command is over and code is its exit code: the flags were listed, as -h
// wants it, or one line says what is wrong with them.
func parse(flags *flag.FlagSet, args []string, stdout, stderr io.Writer) (code int, goOn bool) {
	flags.SetOutput(io.Discard) // it would say more than a line
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(stdout, "usage: saferetry %s [FLAGS]\n\n", flags.Name())
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return ok, false
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("%q: want flags alone", flags.Arg(0))
	}
	if err != nil {
		return fail(stderr, flags.Name(), err), false
	}
	return ok, true
}

// fail says in one line why a command could not begin.
func fail(stderr io.Writer, command string, err error) int {
	fmt.Fprintf(stderr, "saferetry %s: %v\n", command, err)
	return misused
}

// A duration is the value of a flag that takes at least so much.
type duration struct {
	time.Duration
	least time.Duration
}

// durationFlag defines such a flag. Its default is usual.
func durationFlag(flags *flag.FlagSet, name string, usual, least time.Duration, usage string) *duration {
	d := &duration{usual, least}
	flags.Var(d, name, usage)
	return d
}

// Set implements flag.Value.
func (d *duration) Set(s string) (err error) {
	if d.Duration, err = time.ParseDuration(s); err != nil {
		return errors.New("want a duration, such as 1m30s")
	}
	if d.Duration < d.least {
		return fmt.Errorf("want %v or more", d.least)
	}
	return nil
}
