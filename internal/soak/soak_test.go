package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/saferetry/saferetry"
)

func TestAShortSoakFindsNothingWrong(t *testing.T) {
	result, err := soak(time.Second, 12, 1)
	require.NoError(t, err)
	assert.NotZero(t, result.operations)
	assert.Zero(t, result.duplicates)
	assert.Zero(t, result.lost)
	assert.Zero(t, result.untrue)
	assert.Zero(t, result.wrong)
	assert.Equal(t, result.effects, result.accounted)
	assert.LessOrEqual(t, result.after.goroutines, result.before.goroutines)
	assert.Empty(t, result.examples)
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	ended := func(outcome saferetry.Outcome, effectsThen int) *operation {
		return &operation{report: saferetry.Report{Outcome: outcome}, effects: effectsThen}
	}
	for name, c := range map[string]struct {
		op         *operation
		effectsNow int
		wrong      string
	}{
		"performed twice":                   {ended(saferetry.Performed, 1), 2, "1 effects too many"},
		"performed, and not there":          {ended(saferetry.Performed, 1), 0, "1 operations lost"},
		"performed, but not at the time":    {ended(saferetry.Performed, 0), 1, "1 outcomes untrue"},
		"refused, and there":                {ended(saferetry.Refused, 0), 1, "1 outcomes untrue"},
		"not sent, and there":               {ended(saferetry.NotSent, 0), 1, "1 outcomes untrue"},
		"unknown, and not there when asked": {ended(saferetry.Unknown, 0), 0, "1 operations lost"},
		"answered by something else":        {&operation{report: saferetry.Report{Outcome: saferetry.Performed}, effects: 1, wrong: "x"}, 1, "1 answers wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			result := &tally{}
			result.add(c.op, c.effectsNow)
			assert.Contains(t, result.wrongs(), c.wrong)
			assert.NotEmpty(t, result.examples)
		})
	}
}

func TestWhatIsRightIsNotCalledWrong(t *testing.T) {
	result := &tally{attempts: 2, failed: 1, kills: 1, effects: 2}
	result.add(&operation{report: saferetry.Report{Outcome: saferetry.Performed}, effects: 1}, 1)
	result.add(&operation{report: saferetry.Report{Outcome: saferetry.Unknown}}, 1)
	result.add(&operation{report: saferetry.Report{Outcome: saferetry.Refused}}, 0)
	result.add(&operation{report: saferetry.Report{Outcome: saferetry.NotSent}}, 0)
	assert.Empty(t, result.wrongs())
}
