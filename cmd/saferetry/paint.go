package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A paint colours text for a terminal, or leaves it as it is.
type paint bool

// paintFor colours what goes to a terminal, unless NO_COLOR or TERM says no.
func paintFor(w io.Writer) paint {
	f, isFile := w.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return paint(err == nil && info.Mode()&os.ModeCharDevice != 0)
}

func (p paint) with(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p paint) bold(s string) string   { return p.with("1", s) }
func (p paint) dim(s string) string    { return p.with("2", s) }
func (p paint) red(s string) string    { return p.with("31", s) }
func (p paint) green(s string) string  { return p.with("32", s) }
func (p paint) yellow(s string) string { return p.with("33", s) }

// status colours a status by its kind.
func (p paint) status(code int, s string) string {
	switch {
	case code >= 500:
		return p.red(s)
	case code >= 400:
		return p.yellow(s)
	case code >= 200 && code < 300:
		return p.green(s)
	}
	return s
}

// printable is text without what could steer a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '�'
		}
		return r
	}, s)
}

// indent puts two spaces, or more, before each line.
func indent(s string, by int) string {
	space := strings.Repeat(" ", by)
	return space + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+space)
}

// isText reports whether a body can be shown as it is.
func isText(body []byte) bool {
	return utf8.Valid(body) && !slices.Contains(body, 0)
}
