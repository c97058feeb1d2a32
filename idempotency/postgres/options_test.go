package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/saferetry/saferetry/idempotency/postgres"
	"github.com/stretchr/testify/require"
)

func TestAWrongOptionPanicsAndSaysWhatIsWanted(t *testing.T) {
	pool := newPool(t, "", nil)
	for want, opt := range map[string]postgres.Option{
		"postgres: WithSchema: : want a name of 1 to 63 bytes":                                postgres.WithSchema(""),
		"postgres: WithSchema: " + strings.Repeat("s", 64) + ": want a name of 1 to 63 bytes": postgres.WithSchema(strings.Repeat("s", 64)),
		"postgres: WithTable: : want a name of 1 to 44 bytes":                                 postgres.WithTable(""),
		"postgres: WithTable: a\x00: want a name of 1 to 44 bytes":                            postgres.WithTable("a\x00"),
		"postgres: WithTable: " + strings.Repeat("t", 45) + ": want a name of 1 to 44 bytes":  postgres.WithTable(strings.Repeat("t", 45)),
		"postgres: WithSweepInterval: -1s: want 0 or more":                                    postgres.WithSweepInterval(-time.Second),
		"postgres: WithKeyLimit: 31: want 32 to 255":                                          postgres.WithKeyLimit(31),
		"postgres: WithKeyLimit: 256: want 32 to 255":                                         postgres.WithKeyLimit(256),
	} {
		require.PanicsWithValue(t, want, func() { postgres.New(pool, opt) })
	}
	require.PanicsWithValue(t, "postgres: New: nil: want a pool", func() { postgres.New(nil) })
}
