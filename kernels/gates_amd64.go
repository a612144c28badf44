//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// Rows of gates are not divided: no model has states so wide that a row takes longer than some 10 µs.

//go:noinline
func gru(s, x, u []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(s) == 0:
		gruGeneric(s, x, u)
	case level == cpu.AVX2:
		gruAVX2(&s[0], element(x, 0), &u[0], len(s))
	default:
		gruAVX512(&s[0], element(x, 0), &u[0], len(s))
	}
}

//go:noinline
func lstm(s, m, x, u []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(s) == 0:
		lstmGeneric(s, m, x, u)
	case level == cpu.AVX2:
		lstmAVX2(&s[0], &m[0], element(x, 0), &u[0], len(s))
	default:
		lstmAVX512(&s[0], &m[0], element(x, 0), &u[0], len(s))
	}
}
