//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// additiveCall bounds the elements of the keys of one call of assembly.
const additiveCall = 1 << 14

func doubledExp(dst, x []float32) {
	if cpu.Active() == cpu.Generic {
		doubledExpGeneric(dst, x)
		return
	}
	for i := range dst {
		dst[i] = boundedDouble(x[i])
	}
	exp(dst, 0)
}

func scoreWeights(x []float32, factor float32) float32 {
	scale(x, x, factor)
	return 1 / exp(x, maximum(x))
}

func storePairs(dst, x []float32) { storePairsGeneric(dst, x) }

func additiveScores(scores, q, v, keys []float32, pairs bool) {
	if cpu.Active() == cpu.Generic {
		additiveScoresGeneric(scores, q, v, keys, pairs)
		return
	}
	words := len(keys) / len(scores)
	for len(scores) > 0 {
		n := min(len(scores), max(1, additiveCall/len(q)))
		additiveScoresCall(scores[:n], q, v, keys, pairs)
		scores, keys = scores[n:], keys[n*words:]
	}
}

//go:noinline
func additiveScoresCall(scores, q, v, keys []float32, pairs bool) {
	if nk, width := len(scores), len(q); pairs {
		additiveScoresPairsNEON(&scores[0], &q[0], &v[0], &keys[0], width, nk)
	} else {
		additiveScoresNEON(&scores[0], &q[0], &v[0], &keys[0], width, nk)
	}
}

func additiveSums(out, weights, panel []float32, inverse float32, pairs bool) {
	if cpu.Active() == cpu.Generic {
		additiveSumsGeneric(out, weights, panel, inverse, pairs)
		return
	}
	words := len(panel) / len(weights)
	block := words * additiveBlock / len(out)
	for i := 0; i*additiveBlock < len(out); i++ {
		additiveSums64(out[i*additiveBlock:], weights, panel[i*block:], 4*words, inverse, pairs)
	}
}

//go:noinline
func additiveSums64(out, weights, values []float32, step int, inverse float32, pairs bool) {
	if nk := len(weights); pairs {
		additiveSums64PairsNEON(&out[0], &weights[0], &values[0], step, nk, inverse)
	} else {
		additiveSums64NEON(&out[0], &weights[0], &values[0], step, nk, inverse)
	}
}
