//go:build !purego

package kernels

//go:noinline
func maxChosenCall(x []float32, chosen []uint64) (largest float32, magnitude uint32) {
	return maxChosenAVX2(&x[0], &chosen[0], min(len(chosen), callElements/64))
}
