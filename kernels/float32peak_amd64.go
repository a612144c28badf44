//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// float32Burst does about n float32 multiply-accumulates on registers and returns how many.
func float32Burst(n int) int {
	perTurn, burst := 24*16, float32BurstAVX512
	switch cpu.Active() {
	case cpu.Generic:
		return float32BurstProduct(n)
	case cpu.AVX2:
		perTurn, burst = 12*8, float32BurstAVX2
	}
	turns := n/perTurn + 1
	burst(turns)
	return turns * perTurn
}
