package cpumodel

import (
	"math"
	"slices"
	"testing"
)

// eachReference lets f translate with every model that Marian trained for these tests, greedily and with scores, in precisions of its choice.
func eachReference(t *testing.T, f func(name string, translate func(Precision) []translation)) {
	t.Helper()
	for _, r := range append(references, struct{ name, source, target string }{"s2s-gru", "joint", "joint"},
		struct{ name, source, target string }{"s2s-deep", "joint", "joint"}) {
		target := referenceVocab(t, r.target)
		m := loadModel(t, "reference/"+r.name+"/model.npz")
		input := sources(referenceVocab(t, r.source), readLines(t, "models/reference/data/input.en"), m.RightLeft)
		f(r.name, func(precision Precision) []translation {
			weights := pack(t, m, precision, Options{Suppress: []int32{target.Unk()}})
			g := greedy{stepper: weights.NewStepper(16), eos: target.EOS(), scored: true, cap: tripled}
			return g.translate(input)
		})
	}
}

// likeness returns how many translations are the same, and how far the scores of their words are apart at most.
func likeness(got, want []translation) (equal int, largest float64) {
	for i := range want {
		if slices.Equal(got[i].tokens, want[i].tokens) {
			equal++
			largest = max(largest, farthest(got[i].scores, want[i].scores))
		}
	}
	return equal, largest
}

// farthest returns the largest difference between numbers that belong together, both of which may be minus infinity. It is NaN if one of them is.
func farthest(got, want []float32) (worst float64) {
	for i := range want {
		if got[i] != want[i] {
			worst = max(worst, math.Abs(float64(got[i]-want[i])))
		}
	}
	return worst
}
