//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// read loads bytes, but for less than 512 at the end, and does nothing with them.
func read(bytes []int8) {
	lines := len(bytes) / 512 * 8
	switch {
	case lines == 0:
	case cpu.Active() == cpu.AVX512:
		readAVX512(&bytes[0], lines)
	case cpu.Active() == cpu.AVX2:
		readAVX2(&bytes[0], lines)
	}
}
