package cpumodel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// TestBFloat16References compares greedy translations in bfloat16 with those in float32, of all models that Marian trained for these tests: they are
// nearer than those in 8 bits.
func TestBFloat16References(t *testing.T) {
	lines, same, in8Bits := 0, 0, 0
	eachReference(t, func(name string, translate func(Precision) []translation) {
		float := translate(Float32)
		equal, largest := likeness(translate(BFloat16), float)
		t.Logf("%s: %d of %d lines are equal, word scores within %.2g", name, equal, len(float), largest)
		if equal*10 < len(float)*6 || largest > 0.15 {
			t.Errorf("%s: %d of %d lines are equal, word scores within %.2g", name, equal, len(float), largest)
		}
		in8, _ := likeness(translate(Int8), float)
		lines, same, in8Bits = lines+len(float), same+equal, in8Bits+in8
	})
	t.Logf("%d of %d lines are equal, in 8 bits %d", same, lines, in8Bits)
	if same*100 < lines*85 || same <= in8Bits {
		t.Errorf("%d of %d lines are equal, in 8 bits %d", same, lines, in8Bits)
	}
}

// TestBFloat16Kinds compares bfloat16 with float32 in all synthetic kinds, with all tokens and with some.
func TestBFloat16Kinds(t *testing.T) {
	for i, kind := range syntheticKinds {
		random := rand.New(rand.NewPCG(uint64(i), 25))
		m := synthesise(t, describe(kind.lines), kind.oldOutput, random)
		source := search.Source{Tokens: randomTokens(random, 9, max(m.SourceVocabulary, 1)), Further: furtherTokens(random, m)}
		target := randomTokens(random, 8, m.TargetVocabulary)
		few := source
		few.Candidates = someCandidates(random, m.TargetVocabulary)
		float, half := pack(t, m, Float32, Options{}), pack(t, m, BFloat16, Options{})
		for _, source := range []search.Source{source, few} {
			want := logProbsOf(float, source, target)
			got := logProbsOf(half, source, target)
			worst := farthest(got, want)
			if !(worst < 0.2) || slices.Equal(got, want) {
				t.Errorf("%s: log-probabilities of %d candidates (0 are all) are off by %v", kind.name, len(source.Candidates), worst)
			}
		}
	}
}

// What is stored in 8 or 16 bits is packed as what it stands for, rounded.
func TestBFloat16OfStoredTypes(t *testing.T) {
	for _, as := range []marian.Type{marian.Float32, marian.Float16, marian.Intgemm8, marian.Intgemm16} {
		random := rand.New(rand.NewPCG(26, 26))
		m := synthesise(t, describe(ssruLines), false, random)
		if as != marian.Float32 {
			file := &marian.File{Config: []byte(describe(ssruLines)), Tensors: m.Parameters()}
			stored, err := file.Float(as)
			if as != marian.Float16 {
				stored, err = file.Quantize(as, marian.Browsermt, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if m, err = model.Load(stored, nil); err != nil {
				t.Fatal(err)
			}
		}
		source, target := search.Source{Tokens: randomTokens(random, 5, m.SourceVocabulary)}, randomTokens(random, 6, m.TargetVocabulary)
		want := logProbsOf(pack(t, m, Float32, Options{}), source, target)
		got, worst := logProbsOf(pack(t, m, BFloat16, Options{}), source, target), 0.0
		for j := range want {
			worst = max(worst, math.Abs(float64(got[j]-want[j])))
		}
		if !(worst < 0.05) || slices.Equal(got, want) {
			t.Errorf("stored as %v: log-probabilities are off by %v", as, worst)
		}
	}
}

// Every implementation of the kernels translates alike, with candidates and without.
func TestBFloat16OnEveryProcessor(t *testing.T) {
	for i, kind := range syntheticKinds {
		random := rand.New(rand.NewPCG(uint64(i), 27))
		m := synthesise(t, describe(kind.lines), kind.oldOutput, random)
		source := search.Source{Tokens: randomTokens(random, 9, max(m.SourceVocabulary, 1)), Further: furtherTokens(random, m)}
		few := source
		few.Candidates = someCandidates(random, m.TargetVocabulary)
		var want []translation
		cputest.Each(t, func(t *testing.T) {
			of := subject{weights: pack(t, m, BFloat16, Options{}), sources: []search.Source{source, few}}
			got := of.translate(1, true, of.sources)
			if want == nil {
				want = got
			}
			for j := range got {
				if !sameTranslation(got[j], want[j]) {
					t.Errorf("%s, sentence %d:\n%v\nwith the first implementation:\n%v", kind.name, j, got[j], want[j])
				}
			}
		})
	}
}

// All matrices and the output layer are in bfloat16, so that weights take half of what they take in float32.
func TestBFloat16TakesHalfTheMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(29, 29))
	for _, lines := range []string{ssruLines, "type: s2s\ndim-rnn: 10"} {
		w := pack(t, synthesise(t, describe(lines), false, random), BFloat16, Options{Tune: func(matrices []kernels.Matrix) {
			for _, m := range matrices {
				if _, ok := m.(*kernels.BFloat16Matrix); !ok {
					t.Errorf("%q: a matrix is a %T", lines, m)
				}
			}
		}})
		if w.output.bfloat16 == nil || w.output.float != nil {
			t.Errorf("%q: the output layer is not in bfloat16", lines)
		}
	}
	const k, n = 64, 96
	pieces := []model.Affine{{W: randomTensor("a", k, n, rand.New(rand.NewPCG(28, 28))), In: k, Out: n}}
	half, err := packBFloat16(k, pieces)
	if err != nil {
		t.Fatal(err)
	}
	all := columns{end: n, bfloat16: half}
	if matrix, bytes := all.matrix(k); matrix != kernels.Matrix(half) || bytes != 2*k*n {
		t.Errorf("a matrix of %d×%d is said to have %d bytes of weights", k, n, bytes)
	}
	for what, of := range map[string]struct {
		product chosenProduct
		want    int
	}{
		"bfloat16": {chosenProduct{y: make([]float32, 3), rows: kernels.PackBFloat16Rows(4, k, make([]float32, 4*k))}, 2 * 3 * k},
		"float32":  {chosenProduct{y: make([]float32, 3)}, 4 * 3 * k},
		"int8":     {chosenProduct{y: make([]float32, 3), tokens: new(kernels.Int8Choice)}, 3 * k},
	} {
		if got := of.product.weights(k); got != of.want {
			t.Errorf("three rows of %d in %s are said to be %d bytes, want %d", k, what, got, of.want)
		}
	}
}
