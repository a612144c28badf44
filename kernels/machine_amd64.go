//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// int8Burst does about n int8 multiply-accumulates on registers and returns how many.
func int8Burst(n int) int {
	const avx512, avx2 = 24 * 64, 12 * 16 // in a turn of the loop
	switch cpu.Active() {
	case cpu.AVX512:
		turns := n/avx512 + 1
		int8BurstAVX512(turns)
		return turns * avx512
	case cpu.AVX2:
		turns := n/avx2 + 1
		int8BurstAVX2(turns)
		return turns * avx2
	}
	return int8BurstGeneric(n)
}
