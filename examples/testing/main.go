// Command testing is a program whose tests show how to test code that uses
// saferetry: against the bundled server, and with a mocked transport below.
package main

import (
	"fmt"
	"log"

	"github.com/saferetry/saferetry"
	"github.com/saferetry/saferetry/testserver"
)

func main() {
	server, err := testserver.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	biller := &Biller{Client: saferetry.NewClient(nil), URL: server.URL}
	if _, err := biller.Charge("cus_9182", 2500); err != nil {
		log.Fatal(err)
	}
	fmt.Println("charges:", len(server.Charges()))
}
