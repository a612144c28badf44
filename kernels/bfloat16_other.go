//go:build !amd64 || purego

package kernels

func accumulateBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	accumulateBFloat16Generic(y, yStride, x, rows, w)
}

func mulBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix, bias []float32, act Activation) {
	mulBFloat16Generic(y, yStride, x, rows, w, bias, act)
}

func roundToBFloat16(dst []uint16, x []float32) { roundToBFloat16Generic(dst, x) }

func dotRowsBFloat16(y, x []float32, t *BFloat16Rows, ids []int32, bias []float32) {
	dotRowsBFloat16Generic(y, x, t, ids, bias)
}

// bfloat16Burst does about n multiply-accumulates of bfloat16 and returns how many.
func bfloat16Burst(n int) int { return bfloat16BurstProduct(n) }
