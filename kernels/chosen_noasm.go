//go:build (!amd64 && !arm64) || purego

package kernels

func maxChosen(x []float32, chosen []uint64) (largest float32, magnitude uint32) {
	return maxChosenGeneric(x, chosen)
}
