// Command payments is an API that charges customers through a payment processor, served by two processes on one
// database. It charges nine times while connections break and processes die, and then counts: what customers were
// charged, what the API has on its books, and what it keeps of its keys.
//
//	DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres go run ./examples/payments
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 {
		log.Fatal(serve(os.Args[1])) // one of the two
	}
	ctx := context.Background()
	books, err := openBooks(ctx)
	if err != nil {
		log.Fatal(err)
	}
	processor, err := testserver.Start()
	if err != nil {
		log.Fatal(err)
	}
	front, err := startFront(books.schema, processor.URL)
	if err != nil {
		log.Fatal(err)
	}
	operations := charge(ctx, front)
	front.close()
	processor.Close()
	customers := len(processor.Charges())
	rows, completed, pending, err := books.close(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d operations, %d charges by the processor, %d on the books, %d keys completed, %d calls pending\n",
		operations, customers, rows, completed, pending)
	if customers != operations || rows != operations || completed != operations || pending != 0 {
		os.Exit(1)
	}
}

// charge makes a charge for each fault, and returns how many.
func charge(ctx context.Context, f *front) int {
	cases := []struct {
		name   string
		atOnce int
		faults []fault
	}{
		{"no fault", 1, nil},
		{"never seen", 1, []fault{neverSaw}},
		{"crash before write", 1, []fault{crashBeforeWrite}},
		{"crash after write", 1, []fault{crashAfterWrite}},
		{"answer cut off", 1, []fault{dropResponse}},
		{"503 twice", 1, []fault{unavailable, unavailable}},
		{"429, Retry-After: 1", 1, []fault{tooMany}},
		{"stall past timeout", 1, []fault{stall}},
		{"two at once, one key", 2, nil},
	}
	for _, c := range cases {
		f.script(c.faults...)
		ctx := saferetry.WithKey(ctx, saferetry.NewKey())
		var calls sync.WaitGroup
		for range c.atOnce {
			calls.Go(func() { fmt.Printf("%-21s %s\n", c.name, pay(ctx, f.url)) })
		}
		calls.Wait()
	}
	return len(cases)
}
