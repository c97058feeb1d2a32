package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestMain lets a test run the command itself, as a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("SAFERETRY_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// saferetry runs a command line that ends by itself.
func saferetry(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // one that would go on
	var out, errs strings.Builder
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestHelpListsTheCommands(t *testing.T) {
	for _, arg := range []string{"help", "-h", "-help", "--help"} {
		code, stdout, stderr := saferetry(t, arg)
		assert.Equal(t, ok, code)
		assert.Contains(t, stdout, "\n  serve ")
		assert.Empty(t, stderr)
	}
}

func TestAWrongCallIsALineAndExitCode2(t *testing.T) {
	for want, args := range map[string][]string{
		`saferetry: want a command, "saferetry help" lists them`:                                    {},
		`saferetry: "sevre" is not a command, "saferetry help" lists them`:                          {"sevre"},
		"saferetry serve: flag provided but not defined: -port":                                     {"serve", "-port", "8080"},
		"saferetry serve: flag needs an argument: -addr":                                            {"serve", "-addr"},
		`saferetry serve: "8080": want flags alone`:                                                 {"serve", "8080"},
		`saferetry serve: invalid value "" for flag -addr: want an address, such as 127.0.0.1:8080`: {"serve", "-addr", ""},
		"saferetry serve: listen tcp: address 8080: missing port in address":                        {"serve", "-addr", "8080"},
		`saferetry serve: invalid value "0s" for flag -lease: want 1ns or more`:                     {"serve", "-lease", "0s"},
		`saferetry serve: invalid value "-1h" for flag -retention: want 1ns or more`:                {"serve", "-retention", "-1h"},
		`saferetry serve: invalid value "-1s" for flag -latency: want 0s or more`:                   {"serve", "-latency", "-1s"},
		`saferetry serve: invalid value "soon" for flag -latency: want a duration, such as 1m30s`:   {"serve", "-latency", "soon"},
		`saferetry serve: invalid boolean value "maybe" for -tls: parse error`:                      {"serve", "-tls=maybe"},
	} {
		code, stdout, stderr := saferetry(t, args...)
		assert.Equal(t, misused, code, args)
		assert.Empty(t, stdout)
		assert.Equal(t, want+"\n", stderr)
	}
}
