package testserver

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFaultIsLenientAboutCaseAndSpaceAround(t *testing.T) {
	for text, want := range map[string]Fault{
		" Crash-After-Write\t":         CrashAfterWrite(),
		"ANSWER=503;Retry-After=1":     Answer(503, "Retry-After", "1"),
		`answer=503;retry-after="1"`:   Answer(503, "Retry-After", "1"),
		`answer=503;retry-after="\1"`:  Answer(503, "Retry-After", "1"),
		"stall=1500ms":                 Stall(1500 * time.Millisecond),
		"stall-after-write=0.5s":       StallAfterWrite(500 * time.Millisecond),
		"answer=200;location=/a=b?c=d": Answer(200, "Location", "/a=b?c=d"),
	} {
		got, err := ParseFault(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestParseFaultSaysWhatWasWanted(t *testing.T) {
	const value = `want a value, in quotes if it has more than visible ASCII or one of ,;"\ in it`
	names := "want one of none, never-saw, crash-before-write, crash-after-write, drop-response, answer, " +
		"fail-after-write, stall, stall-after-write"
	for text, want := range map[string]string{
		"":                           names,
		"crash":                      names,
		"none, none":                 names,
		"none=1":                     "want no value after none",
		"crash-after-write=":         "want no value after crash-after-write",
		"drop-response":              "want a number of bytes, as in drop-response=10",
		"drop-response=ten":          "want a number of bytes, as in drop-response=10",
		"drop-response=-1":           "want 0 or more bytes",
		"answer":                     "want a status, as in answer=503",
		"answer=;a=b":                "want a status, as in answer=503",
		"answer=99":                  "want a status from 200 to 599",
		"answer=503;":                `want ;name=value at ";"`,
		"answer=503;retry-after":     `want ;name=value at ";retry-after"`,
		"answer=503;retry after=1":   `want ;name=value at ";retry after=1"`,
		"answer=503;a=":              "a: " + value,
		"answer=503;a=b c":           "a: " + value,
		`answer=503;a="b`:            "a: want a closing quote",
		`answer=503;a="b\`:           "a: want a closing quote",
		`answer=503;a="b"c`:          `want ;name=value at "c"`,
		"answer=503;a=\"\x01\"":      "want no control characters in the value of A",
		"fail-after-write=":          "want a status, as in fail-after-write=503",
		"fail-after-write=600":       "want a status from 200 to 599",
		"fail-after-write=503;a=b":   "want the status alone after fail-after-write",
		"stall":                      "want a duration, as in stall=1.5s",
		"stall=2":                    "want a duration, as in stall=1.5s",
		"stall=-2s":                  "want a duration of 0 or more",
		"stall-after-write=tomorrow": "want a duration, as in stall-after-write=1.5s",
	} {
		_, err := ParseFault(text)
		assert.EqualError(t, err, fmt.Sprintf("testserver: fault %q: %s", text, want))
	}
}

func TestParseScript(t *testing.T) {
	ab := []Fault{NeverSaw(), Answer(503, "X-Note", "a, b]")}
	for text, want := range map[string][]Fault{
		"":                                      nil,
		" ":                                     nil,
		"[]":                                    nil,
		",, ":                                   nil,
		`never-saw, answer=503;x-note="a, b]"`:  ab,
		`never-saw answer=503;x-note="a, b]"`:   ab,
		`[never-saw answer=503;x-note="a, b]"]`: ab,
		"never-saw\n\tanswer=503;x-note=\"a, b]\"": ab,
		`answer=200;a="\" ",none`:                  {Answer(200, "A", `" `), None()},
	} {
		got, err := ParseScript(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestParseScriptNamesTheFaultThatIsWrong(t *testing.T) {
	_, err := ParseScript("none, never saw")
	assert.ErrorContains(t, err, `testserver: fault "never": want one of none`)
	_, err = ParseScript("[none")
	assert.EqualError(t, err, `testserver: script "[none": want a closing bracket`)
}

// Whatever comes in an X-Fault header: it is refused, or it is a fault that has
// one spelling, stands in a script, and can be acted on.
func FuzzParseFault(f *testing.F) {
	for _, s := range spelled {
		f.Add(s.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := ParseFault(text)
		if err != nil {
			assert.Equal(t, Fault{}, fault)
			return
		}
		again, err := ParseFault(fault.String())
		require.NoError(t, err)
		require.Equal(t, fault, again)

		script := []Fault{fault, None(), fault}
		got, err := ParseScript(fmt.Sprint(script))
		require.NoError(t, err)
		require.Equal(t, script, got)

		if fault.kind == answer {
			w := httptest.NewRecorder()
			writeGatewayAnswer(w, fault.status, fault.headerPairs())
			require.Equal(t, fault.status, w.Code)
		}
	})
}
