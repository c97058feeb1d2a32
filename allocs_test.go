package saferetry_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The bare http.Client's caller makes a UUID and sets the header itself.
func TestSuccessPathAllocatesLittle(t *testing.T) {
	body := inMemory(1 << 10)
	for _, c := range []struct {
		name        string
		bare, tried *caller
		more        float64
	}{
		{"GET", &caller{client: bare(200), method: "GET"}, &caller{client: retrying(200), method: "GET"}, 6},
		{
			"keyed POST of 1 KiB", &caller{client: bare(201), method: "POST", body: body, key: true},
			&caller{client: retrying(201), method: "POST", body: body}, 10,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			floor := testing.AllocsPerRun(200, func() { c.bare.call(t) })
			ours := testing.AllocsPerRun(200, func() { c.tried.call(t) })
			t.Logf("%v on top of %v", ours-floor, floor)
			assert.LessOrEqual(t, ours-floor, c.more)
		})
	}
}

func TestLargeBodyIsNotCopied(t *testing.T) {
	const size = 8 << 20
	for name, c := range map[string]*caller{
		"GetBody":                {client: retrying(201), method: "POST", body: inMemory(size)},
		"file":                   {client: retrying(201), method: "POST", body: inFile(t, size), length: size},
		"file of unknown length": {client: retrying(201), method: "POST", body: inFile(t, size)},
	} {
		t.Run(name, func(t *testing.T) {
			allocated := bytesPerRun(10, func() { c.call(t) })
			t.Logf("%d bytes", allocated)
			assert.Less(t, allocated, uint64(8<<10))
		})
	}
}

// bytesPerRun is testing.AllocsPerRun for bytes: the least of some rounds, since
// it sees what others allocate too.
func bytesPerRun(runs int, f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f() // warms up
	least := uint64(math.MaxUint64)
	for range 2 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			f()
		}
		runtime.ReadMemStats(&after)
		least = min(least, (after.TotalAlloc-before.TotalAlloc)/uint64(runs))
	}
	return least
}
