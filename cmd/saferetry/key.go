package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	sdk "github.com/saferetry/saferetry"
)

// key makes and checks keys.
func key(_ context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("key", flag.ContinueOnError)
	rest, code, goOn := parseOperands(flags, "new | derive NAMESPACE PART... | check KEY", args, stdout, stderr)
	if !goOn {
		return code
	}
	verb := ""
	if len(rest) > 0 {
		verb, rest = rest[0], rest[1:]
	}
	switch verb {
	case "new":
		if len(rest) > 0 {
			return fail(stderr, "key new", errors.New("want nothing after it"))
		}
		fmt.Fprintln(stdout, sdk.NewKey())
	case "derive":
		if len(rest) < 2 {
			return fail(stderr, "key derive", errors.New("want a NAMESPACE and one PART or more"))
		}
		fmt.Fprintln(stdout, sdk.DeriveKey(rest[0], rest[1:]...))
	case "check":
		if len(rest) != 1 {
			return fail(stderr, "key check", errors.New("want one KEY"))
		}
		if err := validKey(rest[0]); err != nil {
			fmt.Fprintln(stdout, "not valid:", err)
			return differs
		}
		fmt.Fprintln(stdout, "valid")
	default:
		return fail(stderr, "key", errors.New("want new, derive NAMESPACE PART..., or check KEY"))
	}
	return ok
}

// validKey says what is wrong with a key, without the name of the package.
func validKey(key string) error {
	if err := sdk.ValidateKey(key); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "saferetry: "))
	}
	return nil
}
