// Package testserver is a payment service in memory that fails on command: what a
// client is tested against that must not charge twice.
package testserver
