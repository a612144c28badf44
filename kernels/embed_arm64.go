//go:build !purego

package kernels

// embedInt8 has assembly for whole groups of 16 elements.
func embedInt8(dst []float32, row []int8, factor, scale float32, position []float32) {
	if n := wholePart(len(dst), 16); n > 0 {
		embedInt8NEON(&dst[0], &row[0], &position[0], n, factor, scale)
		embedInt8(dst[n:], row[n:], factor, scale, position[n:])
		return
	}
	embedInt8Generic(dst, row, factor, scale, position)
}
