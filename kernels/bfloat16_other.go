//go:build (!amd64 && !arm64) || purego

package kernels

func accumulateBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	accumulateBFloat16Generic(y, yStride, x, rows, w)
}

func mulBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix, bias []float32, act Activation) {
	mulBFloat16Generic(y, yStride, x, rows, w, bias, act)
}

func roundToBFloat16(dst []uint16, x []float32) { roundToBFloat16Generic(dst, x) }

func packBFloat16(panel []uint16, b []float32, stride, k, columns int) {
	packBFloat16Generic(panel, b, stride, k, columns)
}

func packBFloat16Transposed(panel []uint16, b []float32, stride, k, columns int) {
	packBFloat16TransposedGeneric(panel, b, stride, k, columns)
}

func toBFloat16Transposed(dst []uint16, stride int, x []float32, xStride, rows, k int) {
	toBFloat16TransposedGeneric(dst, stride, x, xStride, rows, k)
}

func dotRowsBFloat16(y, x []float32, t *BFloat16Rows, ids []int32, bias []float32) {
	dotRowsBFloat16Generic(y, x, t, ids, bias)
}

// bfloat16Burst does about n multiply-accumulates of bfloat16 and returns how many.
func bfloat16Burst(n int) int { return bfloat16BurstProduct(n) }
