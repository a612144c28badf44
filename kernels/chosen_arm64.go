//go:build !purego

package kernels

import (
	"math"

	"github.com/sluice-mt/sluice/internal/cpu"
)

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

//go:noinline
func maxChosenCall(x []float32, chosen []uint64) (largest float32, magnitude uint32) {
	var result [2]uint32
	maxChosenNEON(&x[0], &chosen[0], min(len(chosen), callElements/64), &result)
	return math.Float32frombits(result[0]), result[1]
}
