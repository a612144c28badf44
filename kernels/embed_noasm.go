//go:build (!amd64 && !arm64) || purego

package kernels

func embedInt8(dst []float32, row []int8, factor, scale float32, position []float32) {
	embedInt8Generic(dst, row, factor, scale, position)
}
