//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// hardModels names the descriptions of models with hard attention.
var hardModels = []string{"hard attention", "hard and soft attention", "hard, of two sources"}

// What hard attention forbids is forbidden in all answers, beside what else is, and moves on with hypotheses as they replace each other.
// Greedily, in beams and in samples, results are those of the processor.
func TestHardAttention(t *testing.T) {
	d := openDevice(t)
	for _, kind := range hardModels {
		t.Run(kind, func(t *testing.T) {
			p := newPair(t, d, hardModel(t, kind), 12, 5)
			sources, searches := randomSources(5, 1, 3, 9, 2), []search.Options{
				{Beam: 1, MaxLengthFactor: 3, NoRepeat: 2}, {Beam: 3, Normalize: 1, MaxLengthFactor: 2},
				{Beam: 2, MaxLengthFactor: 2, Seed: 7, Sampling: search.Sampling{Method: search.TopK, K: 3}},
				{Beam: 1, MaxLengthFactor: 2, Seed: 7, Sampling: search.Sampling{Method: search.Nucleus, P: 0.9}},
			}
			if testing.Short() {
				sources, searches = sources[:3], searches[:2]
			}
			moved, ended := 0, 0
			for _, options := range searches {
				have, want := decode(t, p.gpu, sources, options), decode(t, p.cpu, sources, options)
				for i := range want {
					if !slices.Equal(have[i].Tokens, want[i].Tokens) || math.Abs(float64(have[i].Score-want[i].Score)) > 0.05*float64(len(want[i].Tokens)) {
						t.Errorf("%+v: sentence %d is %v, %v, want %v, %v", options, i, have[i].Tokens, have[i].Score, want[i].Tokens, want[i].Score)
					}
					steps := 0
					for _, token := range have[i].Tokens {
						if token == 2 || token == 33 {
							steps++
						}
					}
					moved += steps
					if have[i].Finished {
						ended++
						if steps < len(sources[i].Tokens)-1 {
							t.Errorf("%v ends after %d steps, but the source has %d tokens", have[i].Tokens, steps, len(sources[i].Tokens))
						}
					}
				}
			}
			if moved == 0 || ended == 0 {
				t.Errorf("%d steps and %d ends: nothing is tested", moved, ended)
			}
			if !testing.Short() {
				testInvariance(t, newStepper(t, d, hardModel(t, kind), 40))
			}
		})
	}
}

// hardModel is a model of random parameters that often moves on.
func hardModel(t *testing.T, kind string) *model.Model {
	m := randomModel(t, describe(descriptions[kind]))
	values, err := m.Output.Bias.Float32()
	must(t, err)
	for token, more := range map[int]float32{0: 3, 2: 3, 33: 3} {
		putFloat(m.Output.Bias, token, values[token]+more)
	}
	return m
}

// Log-probabilities forbid what a search must not write; for scoring given translations nothing is forbidden.
func TestHardAttentionOfGivenWords(t *testing.T) {
	d := openDevice(t)
	for _, kind := range hardModels {
		for _, scoring := range []bool{false, true} {
			m := hardModel(t, kind)
			w, err := d.Load(m, Options{ForScoring: scoring})
			must(t, err)
			gpu, err := w.NewStepper(2)
			must(t, err)
			packed, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{ForScoring: scoring})
			must(t, err)
			cpu := packed.NewStepper(2)
			c := comparison{t: t, p: pair{gpu, cpu}, tolerance: 0.05}
			sources, contexts := randomSources(3, 2), make([]search.Context, 2)
			sources[1].Candidates = []search.Token{0, 2, 7, 33, 50}
			for _, s := range []search.Stepper{gpu, cpu} {
				s.Encode(sources, contexts)
				s.Begin(0, contexts[0])
				s.Begin(1, contexts[1])
			}
			forbidden := 0
			for _, tokens := range [][]search.Token{{search.NoToken, search.NoToken}, {2, 7}, {33, 2}, {2, 33}} {
				for _, s := range []search.Stepper{gpu, cpu} {
					s.Step([]search.Slot{0, 1}, tokens, true)
				}
				picked := make([]float32, 4)
				gpu.LogProbsOf([]int32{0, 3, 4}, []search.Token{2, 69, 0, 33}, picked)
				c.nearAll("log-probability", picked, []float32{cpu.LogProbs(0)[2], cpu.LogProbs(0)[69], cpu.LogProbs(0)[0], cpu.LogProbs(1)[3]})
				for row := range int32(2) {
					have := gpu.LogProbs(row)
					c.nearAll("log-probability", have, cpu.LogProbs(row))
					c.nearAll("attention", gpu.Attention(row), cpu.Attention(row))
					for _, p := range have {
						if math.IsInf(float64(p), -1) {
							forbidden++
						}
					}
				}
			}
			if want := map[bool]int{false: 8, true: 0}[scoring]; forbidden != want {
				t.Errorf("%s, for scoring %v: %d tokens are forbidden, want %d", kind, scoring, forbidden, want)
			}
			must(t, gpu.Err())
			must(t, gpu.Close())
			must(t, w.Close())
		}
	}
}
