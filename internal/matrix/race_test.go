//go:build race

package matrix

// The race detector makes everything seven times slower. Three faults are
// enough to have any two of them in a row, before or after any other.
const defaultFaults = 3
