//go:build !race

package matrix

const defaultFaults = 4
