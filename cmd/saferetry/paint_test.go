package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestColourIsForTerminalsAlone(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	require.NoError(t, err)
	defer device.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	assert.True(t, bool(paintFor(device)))
	assert.False(t, bool(paintFor(file)))
	assert.False(t, bool(paintFor(&strings.Builder{})))
	t.Setenv("NO_COLOR", "1")
	assert.False(t, bool(paintFor(device)))
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	assert.False(t, bool(paintFor(device)))
}

func TestAStatusHasTheColourOfItsKind(t *testing.T) {
	p := paint(true)
	assert.Equal(t, "\x1b[32m201\x1b[0m", p.status(201, "201"))
	assert.Equal(t, "\x1b[33m422\x1b[0m", p.status(422, "422"))
	assert.Equal(t, "\x1b[31m500\x1b[0m", p.status(500, "500"))
	assert.Equal(t, "302", p.status(302, "302"))
	assert.Equal(t, "201", paint(false).status(201, "201"))
	assert.Equal(t, "a\n\tb�[31m", printable("a\n\tb\x1b[31m"))
}
