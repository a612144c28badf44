//go:build (!amd64 && !arm64) || purego

package kernels

func mulInt16(y []float32, yStride int, a []int16, aScales []float32, rows int, w *Int16Matrix, bias []float32, act Activation) {
	mulInt16Generic(y, yStride, a, aScales, rows, w, bias, act)
}

func quantizeInt16(dst []int16, x []float32, multiplier, limit float32) {
	quantizeInt16Generic(dst, x, multiplier, limit)
}

// int16Burst does about n multiply-accumulates of words and returns how many.
func int16Burst(n int) int { return int16BurstProduct(n) }
