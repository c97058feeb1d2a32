package saferetry_test

import (
	"bytes"
	"log/slog"
)

// recordLog returns a logger and the buffer that it writes JSON to.
func recordLog() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewJSONHandler(&b, nil)), &b
}
