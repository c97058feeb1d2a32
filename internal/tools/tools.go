// Package tools pins the Go tools that CI runs, in a module of its own so
// that users of the SDK do not inherit them.
package tools
