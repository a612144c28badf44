package cpumodel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// logProbsOf returns the log-probabilities along a translation.
func logProbsOf(w *Weights, source search.Source, target []search.Token) []float32 {
	s := w.NewStepper(1)
	contexts := make([]search.Context, 1)
	s.Encode([]search.Source{source}, contexts)
	s.Begin(0, contexts[0])
	token, all := search.NoToken, []float32(nil)
	for _, next := range target {
		s.Step([]search.Slot{0}, []search.Token{token}, false)
		all = append(all, s.LogProbs(0)...)
		token = next
	}
	return all
}

// multiply sets the multipliers of the parameters whose names end so.
func multiply(m *model.Model, multiplier float32, ending string) {
	for name, alpha := range m.Alphas {
		if strings.HasSuffix(name, ending) {
			binary.LittleEndian.PutUint32(alpha.Data, math.Float32bits(multiplier))
		}
	}
}

// TestRecurrentInt8 compares 8-bit arithmetic with float32 in all recurrent kinds: with weights quantised at load and as stored,
// with activations quantised by row and by fixed multipliers. With those, it makes no difference whether the matrices of a cell
// are multiplied at once or, since their multipliers are not quite the same, one by one.
func TestRecurrentInt8(t *testing.T) {
	for i, kind := range recurrentKinds {
		t.Run(kind.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(i), 21))
			m := synthesise(t, describe(kind.lines), kind.oldOutput, random)
			source := search.Source{Tokens: randomTokens(random, 9, max(m.SourceVocabulary, 1)), Further: furtherTokens(random, m)}
			target := randomTokens(random, 8, m.TargetVocabulary)
			want := logProbsOf(pack(t, m, Float32, Options{}), source, target)
			compare := func(what string, m *model.Model, want []float32, tolerance float64) []float32 {
				t.Helper()
				got := logProbsOf(pack(t, m, Int8, Options{}), source, target)
				worst := farthest(got, want)
				if !(worst < tolerance) {
					t.Errorf("%s: log-probabilities are off by %v", what, worst)
				}
				return got
			}
			if slices.Equal(compare("by row", m, want, 0.5), want) {
				t.Error("nothing is quantised")
			}
			compare("stored", quantised(t, m, describe(kind.lines)), want, 0.5)
			giveAlphas(m)
			fixed := compare("fixed", m, want, 1)
			for _, ending := range []string{"x", "f", "m"} {
				multiply(m, math.Nextafter32(20, 21), ending)
			}
			compare("one by one", m, fixed, 0.1)
		})
	}
}
