// Package idempotency is the server half of saferetry: net/http middleware that performs an operation once for each
// idempotency key, however many requests ask for it, and answers the others from a store.
package idempotency
