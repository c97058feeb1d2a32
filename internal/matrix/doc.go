// Package matrix proves the client's claim, one effect and a true word about
// it, by trying out: every sequence of faults that an operation can meet, on
// package testserver, in synctest bubbles. It consists of tests.
//
//	go test ./internal/matrix                          # up to three faults, seconds
//	go test ./internal/matrix -faults 4                # up to four, a minute: what CI runs
//	go test ./internal/matrix -faults 5 -timeout 1h    # up to five
//	go test ./internal/matrix -case '…'                # one of them, as a failure prints it
package matrix
