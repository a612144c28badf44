//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// embedInt8 has assembly for whole groups of 16 elements.
func embedInt8(dst []float32, row []int8, factor, scale float32, position []float32) {
	whole := min(len(dst), callElements) &^ 15
	switch level := cpu.Active(); {
	case level == cpu.Generic || whole == 0:
		whole = 0
	case level == cpu.AVX2:
		embedInt8AVX2(&dst[0], &row[0], &position[0], whole, factor, scale)
	default:
		embedInt8AVX512(&dst[0], &row[0], &position[0], whole, factor, scale)
	}
	embedInt8Generic(dst[whole:], row[whole:], factor, scale, position[whole:])
}
