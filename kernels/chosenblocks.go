//go:build (amd64 || arm64) && !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// maxChosen leaves what is less than 64 elements to the reference.
func maxChosen(x []float32, chosen []uint64) (largest float32, magnitude uint32) {
	whole := len(x) / 64
	if cpu.Active() == cpu.Generic {
		whole = 0
	}
	largest, magnitude = maxChosenGeneric(x[whole*64:], chosen[whole:])
	for first := 0; first < whole; first += callElements / 64 {
		l, m := maxChosenCall(x[first*64:whole*64], chosen[first:whole])
		largest, magnitude = max(largest, l), max(magnitude, m)
	}
	return largest, magnitude
}
