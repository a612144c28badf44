//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// additiveCall bounds the elements of the keys of one call of assembly to some 20 µs.
const additiveCall = 1 << 16

func doubledExp(dst, x []float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || len(dst) == 0:
		doubledExpGeneric(dst, x)
	case len(dst) > callElements:
		cut := half(len(dst))
		doubledExp(dst[:cut], x[:cut])
		doubledExp(dst[cut:], x[cut:])
	case level == cpu.AVX2:
		doubledExpAVX2(&dst[0], &x[0], len(dst))
	default:
		doubledExpAVX512(&dst[0], &x[0], len(dst))
	}
}

func scoreWeights(x []float32, factor float32) float32 {
	if cpu.Active() == cpu.Generic {
		return scoreWeightsGeneric(x, factor)
	}
	return attentionWeightsAVX2(&x[0], len(x), factor)
}

// storePairs is storePairsGeneric.
func storePairs(dst, x []float32) {
	if cpu.Active() != cpu.AVX512 || len(x) == 0 {
		storePairsGeneric(dst, x)
		return
	}
	pairsAVX512(&dst[0], &x[0], 16, len(x)/32, 16, 16, 32)
}

func additiveScores(scores, q, v, keys []float32, pairs bool) {
	level := cpu.Active()
	if level == cpu.Generic {
		additiveScoresGeneric(scores, q, v, keys, pairs)
		return
	}
	words, values := len(keys)/len(scores), 4*len(keys)
	for len(scores) > 0 {
		n := min(len(scores), max(1, additiveCall/len(q)))
		additiveScoresCall(level, scores[:n], q, v, keys, values, pairs)
		scores, keys = scores[n:], keys[n*words:]
	}
}

//go:noinline
func additiveScoresCall(level cpu.Level, scores, q, v, keys []float32, values int, pairs bool) {
	nk, width := len(scores), len(q)
	switch wide := level == cpu.AVX512; {
	case wide && pairs:
		additiveScoresPairsAVX512(&scores[0], &q[0], &v[0], &keys[0], width, nk, values)
	case wide:
		additiveScoresAVX512(&scores[0], &q[0], &v[0], &keys[0], width, nk, values)
	case pairs:
		additiveScoresPairsAVX2(&scores[0], &q[0], &v[0], &keys[0], width, nk, values)
	default:
		additiveScoresAVX2(&scores[0], &q[0], &v[0], &keys[0], width, nk, values)
	}
}

func additiveSums(out, weights, panel []float32, inverse float32, pairs bool) {
	level := cpu.Active()
	if level == cpu.Generic {
		additiveSumsGeneric(out, weights, panel, inverse, pairs)
		return
	}
	if level == cpu.AVX512 && len(out) == additivePanel {
		additiveSums256(out, weights, panel, inverse, pairs)
		return
	}
	words := len(panel) / len(weights)
	block := words * additiveBlock / len(out)
	for i := 0; i*additiveBlock < len(out); i++ {
		additiveSums64(level, out[i*additiveBlock:], weights, panel[i*block:], 4*words, inverse, pairs)
	}
}

// additiveSums256 and additiveSums64 are calls of assembly: not inlined, so that the garbage collector gets in between.
//
//go:noinline
func additiveSums256(out, weights, panel []float32, inverse float32, pairs bool) {
	nk := len(weights)
	if step := 4 * (len(panel) / nk); pairs {
		additiveSums256PairsAVX512(&out[0], &weights[0], &panel[0], step, nk, inverse)
	} else {
		additiveSums256AVX512(&out[0], &weights[0], &panel[0], step, nk, inverse)
	}
}

//go:noinline
func additiveSums64(level cpu.Level, out, weights, values []float32, step int, inverse float32, pairs bool) {
	nk := len(weights)
	switch wide := level == cpu.AVX512; {
	case wide && pairs:
		additiveSums64PairsAVX512(&out[0], &weights[0], &values[0], step, nk, inverse)
	case wide:
		additiveSums64AVX512(&out[0], &weights[0], &values[0], step, nk, inverse)
	case pairs:
		additiveSums64PairsAVX2(&out[0], &weights[0], &values[0], step, nk, inverse)
	default:
		additiveSums64AVX2(&out[0], &weights[0], &values[0], step, nk, inverse)
	}
}
