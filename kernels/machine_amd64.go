//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// int8Burst does about n int8 multiply-accumulates on registers and returns how many.
func int8Burst(n int) int {
	perTurn, burst := 0, (func(int))(nil) // multiply-accumulates in a turn of the loop
	switch cpu.Integer() {
	case cpu.AVX512VNNI:
		perTurn, burst = 24*64, int8BurstAVX512
	case cpu.AVX512:
		perTurn, burst = 24*256, int8BurstAVX512Chains
	case cpu.AVXVNNI:
		perTurn, burst = 12*32, int8BurstAVXVNNI
	case cpu.AVX2:
		perTurn, burst = 12*128, int8BurstAVX2
	default:
		return int8BurstGeneric(n)
	}
	turns := n/perTurn + 1
	burst(turns)
	return turns * perTurn
}
