//go:build !amd64 || purego

package kernels

func accumulateBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	accumulateBFloat16Generic(y, yStride, x, rows, w)
}
