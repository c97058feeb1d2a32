// Command soak lets clients loose on servers that fail half of all attempts and
// are killed and started again, over real sockets, and then counts: operations
// that took effect twice, that got lost, or whose outcome was not the truth.
//
//	go run ./internal/soak -for 60s
//
// It exits with 1 when anything is not as it should be.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

// roundTime is the length of a round. Each has servers of its own, so that what
// they remember of their requests is bounded.
const roundTime = 10 * time.Second

func main() {
	total := flag.Duration("for", time.Minute, "how long")
	clients := flag.Int("clients", 64, "how many clients there are")
	seed := flag.Uint64("seed", 1, "of the faults and of what clients do")
	flag.Parse()
	if *total <= 0 || *clients < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	fmt.Printf("%d clients for %v over HTTP/1.1, TLS and HTTP/2, seed %d\n\n", *clients, *total, *seed)
	t, err := soak(*total, *clients, *seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	t.print(os.Stdout)
	if wrongs := t.wrongs(); len(wrongs) > 0 {
		for _, wrong := range wrongs {
			fmt.Println("WRONG:", wrong)
		}
		os.Exit(1)
	}
}

// soak runs rounds and returns what they come to.
func soak(total time.Duration, clients int, seed uint64) (*tally, error) {
	t := &tally{}
	t.before = measure(0)
	for number := uint64(0); total > 0; number++ {
		length := min(total, roundTime)
		total -= length
		r, err := newRound(clients, seed+number)
		if err != nil {
			return nil, err
		}
		if err := r.run(length, t); err != nil {
			return nil, err
		}
	}
	t.after = measure(t.before.goroutines)
	return t, nil
}

// A footprint is what the process holds.
type footprint struct {
	goroutines int
	heap       uint64 // bytes in use
}

// measure gives goroutines that are about to end, down to wanted, some seconds
// for that: those of connections end after the connection's Close.
func measure(wanted int) footprint {
	end := time.Now().Add(5 * time.Second)
	for wanted > 0 && runtime.NumGoroutine() > wanted && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
	}
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), m.HeapAlloc}
}
