//go:build (!amd64 && !arm64) || purego

package kernels

func packsSparse() bool { return false }

func sparsePlace(column int) int { return column }

func mulInt8Sparse([]float32, int, []uint8, []float32, int, *Int8Matrix, []float32, Activation) (leftOut int, done bool) {
	return 0, false
}

// There are no lists, for whatever share of activations.
const fewRowsShare, manyRowsShare nonzeroShare = -1, -1
