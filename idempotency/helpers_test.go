package idempotency_test

import "net/http"

// oneTenant is a scope function.
func oneTenant(*http.Request) (string, error) { return "tenant", nil }
