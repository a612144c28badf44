//go:build !amd64 || purego

package kernels

func layerNormQuantised(bytes []uint8, scales, dst, x, residual, scale, bias []float32, rows, n int, eps float32) {
	layerNorm(dst, x, residual, scale, bias, rows, n, eps)
	quantizeRows(bytes, scales, dst, rows, n)
}

func rmsNormQuantised(bytes []uint8, scales, dst, x, residual, scale []float32, rows, n int, eps float32) {
	rmsNorm(dst, x, residual, scale, rows, n, eps)
	quantizeRows(bytes, scales, dst, rows, n)
}
