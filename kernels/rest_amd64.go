//go:build !purego

package kernels

// Without assembly every kernel is its reference.

func mulFloat32(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix, bias []float32, act Activation) {
	mulFloat32Generic(y, yStride, x, xStride, rows, w, bias, act)
}

func argMax(x []float32) int { return argMaxGeneric(x) }
