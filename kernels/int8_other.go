//go:build !amd64 || purego

package kernels

// mulInt8Quantised leaves all columns to a product whose results are quantised after it.
func mulInt8Quantised([]uint8, float32, []uint8, []float32, int, *Int8Matrix, []float32, Activation) (columns int) {
	return 0
}
