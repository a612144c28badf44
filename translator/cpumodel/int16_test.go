package cpumodel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// TestInt16References compares greedy translations in 16 bits with those in float32: of all models that Marian trained for these
// tests, nearly all lines are the same, and the scores of their words too.
func TestInt16References(t *testing.T) {
	lines, same := 0, 0
	eachReference(t, func(name string, translate func(Precision) []translation) {
		float := translate(Float32)
		equal, largest := likeness(translate(Int16), float)
		t.Logf("%s: %d of %d lines are equal, word scores within %.2g", name, equal, len(float), largest)
		if equal < len(float)-3 || largest > 0.02 {
			t.Errorf("%s: %d of %d lines are equal, word scores within %.2g", name, equal, len(float), largest)
		}
		lines, same = lines+len(float), same+equal
	})
	t.Logf("%d of %d lines are equal", same, lines)
	if same*1000 < lines*985 {
		t.Errorf("%d of %d lines are equal", same, lines)
	}
}

// TestInt16Kinds compares 16-bit arithmetic with float32 in all synthetic kinds.
func TestInt16Kinds(t *testing.T) {
	for i, kind := range syntheticKinds {
		random := rand.New(rand.NewPCG(uint64(i), 22))
		m := synthesise(t, describe(kind.lines), kind.oldOutput, random)
		source := search.Source{Tokens: randomTokens(random, 9, max(m.SourceVocabulary, 1)), Further: furtherTokens(random, m)}
		target := randomTokens(random, 8, m.TargetVocabulary)
		want := logProbsOf(pack(t, m, Float32, Options{}), source, target)
		got := logProbsOf(pack(t, m, Int16, Options{}), source, target)
		worst := farthest(got, want)
		if !(worst < 5e-3) || slices.Equal(got, want) {
			t.Errorf("%s: log-probabilities are off by %v", kind.name, worst)
		}
	}
}

// TestStoredInt16 runs a model that is stored in 16 bits, in these and, its weights widened, in float32: they differ by the rounding
// of activations only.
func TestStoredInt16(t *testing.T) {
	for i, lines := range []string{ssruLines, "type: s2s\ndim-rnn: 10"} {
		random := rand.New(rand.NewPCG(uint64(i), 23))
		m := synthesise(t, describe(lines), false, random)
		file := &marian.File{Config: []byte(describe(lines)), Tensors: m.Parameters()}
		stored, err := file.Quantize(marian.Intgemm16, marian.Browsermt, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := model.Load(stored, nil)
		if err != nil {
			t.Fatal(err)
		}
		source, target := search.Source{Tokens: randomTokens(random, 5, m.SourceVocabulary)}, randomTokens(random, 6, m.TargetVocabulary)
		want := logProbsOf(pack(t, again, Float32, Options{}), source, target)
		got, worst := logProbsOf(pack(t, again, Int16, Options{}), source, target), 0.0
		for j := range want {
			worst = max(worst, math.Abs(float64(got[j]-want[j])))
		}
		if !(worst < 1e-3) || slices.Equal(got, want) {
			t.Errorf("%q: log-probabilities are off by %v", lines, worst)
		}
	}
}

// Weights of 16 bits leave as much to the activations as they have, and never more than an exact sum allows.
func TestInt16Levels(t *testing.T) {
	random := rand.New(rand.NewPCG(24, 24))
	for _, shape := range [][2]int{{1, 5}, {64, 33}, {512, 40}, {4096, 3}} {
		k, n := shape[0], shape[1]
		tensor := randomTensor("weights", k, n, random)
		w, err := packInt16(k, []model.Affine{{W: tensor, In: k, Out: n}})
		if err != nil {
			t.Fatal(err)
		}
		values, err := tensor.Float32()
		if err != nil {
			t.Fatal(err)
		}
		largest := float64(largestInt16(heaviestColumn(values, k, n)))
		if float64(w.Limit) < 0.97*largest || float64(w.Limit) > 1.03*largest {
			t.Errorf("%d×%d: weights up to %v, activations up to %d", k, n, largest, w.Limit)
		}
	}
	heavy := &marian.Tensor{Name: "heavy", Shape: []int{maxInt16K + 1, 1}, Type: marian.Float32, Data: make([]byte, 4*(maxInt16K+1))}
	if _, err := packInt16(maxInt16K+1, []model.Affine{{W: heavy, In: maxInt16K + 1, Out: 1}}); err == nil {
		t.Error("a matrix that could overflow was packed")
	}
}
