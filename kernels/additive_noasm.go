//go:build (!amd64 && !arm64) || purego

package kernels

func doubledExp(dst, x []float32) { doubledExpGeneric(dst, x) }

func scoreWeights(x []float32, factor float32) float32 { return scoreWeightsGeneric(x, factor) }

func storePairs(dst, x []float32) { storePairsGeneric(dst, x) }

func additiveScores(scores, q, v, keys []float32, pairs bool) {
	additiveScoresGeneric(scores, q, v, keys, pairs)
}

func additiveSums(out, weights, panel []float32, inverse float32, pairs bool) {
	additiveSumsGeneric(out, weights, panel, inverse, pairs)
}
