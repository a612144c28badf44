//go:build !purego

package kernels

import "math"

//go:noinline
func maxChosenCall(x []float32, chosen []uint64) (largest float32, magnitude uint32) {
	var result [2]uint32
	maxChosenNEON(&x[0], &chosen[0], min(len(chosen), callElements/64), &result)
	return math.Float32frombits(result[0]), result[1]
}
