//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A token of the source or the target whose embedding fp16 can hold, but not when it is multiplied as embeddings are.
const overflowing = 41

// overflow makes the embedding of a token so large.
func overflow(t *testing.T, m *model.Model, table *marian.Tensor) {
	t.Helper()
	row := table.Data[4*overflowing*m.Dim : 4*(overflowing+1)*m.Dim]
	for i := range m.Dim {
		x := math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))
		binary.LittleEndian.PutUint32(row[4*i:], math.Float32bits(3e4*max(-2, min(2, x))))
	}
}

// A sentence whose numbers fp16 cannot hold is found out, whatever is asked for, whether they overflow in the encoder or in the decoder.
// Its neighbours are what they are without it, to the last bit, and the processor finds a translation of it in float32.
func TestOverflow(t *testing.T) {
	kinds := autoregressions
	named := []string{"greedy", "samples", "noisy beam", "word scores", "list with candidates", "prefix of a beam", "samples of the best"}
	if testing.Short() { // as in other modes
		kinds, named = kinds[:2], named[:3]
	}
	for _, kind := range kinds {
		m := randomModel(t, describe(descriptions[kind]+"\ntied-embeddings-all: false"))
		if m.Recurrence != nil {
			continue // it saturates: see TestOverflowOfCells
		}
		overflow(t, m, m.SourceEmbedding)
		overflow(t, m, m.TargetEmbedding)
		s := newStepper(t, openDevice(t), m, 64)
		p := precise{t, []*model.Model{m}, cpumodel.Float32}
		for _, c := range searches() {
			if !slices.Contains(named, c.name) {
				continue
			}
			sound := sentencesOf([]searchCase{c}, c.options.WordScores)
			for _, s := range sound {
				s.Source.Tokens = slices.DeleteFunc(slices.Clone(s.Source.Tokens), func(token search.Token) bool { return token == overflowing })
				s.Source.Candidates = withoutOverflowing(s.Source.Candidates)
			}
			broken := []*search.Sentence{clone(sound[0]), clone(sound[1])}
			broken[0].Source.Tokens[2] = overflowing
			broken[1].Prefix = append(slices.Clone(broken[1].Prefix), overflowing)
			want := searchAll(t, []search.Stepper{s}, sound)
			have := searchAll(t, []search.Stepper{s}, []*search.Sentence{sound[0], broken[0], sound[1], broken[1], sound[2]})
			for i, result := range have {
				if i%2 == 1 {
					if result.Flags != search.NonFinite || result.Hypotheses != nil {
						t.Errorf("%s, %s: an overflow in sentence %d gives %+v", kind, c.name, i, result)
					}
					if again := p.search(broken[i/2]); again.Flags&search.NonFinite != 0 || len(again.Hypotheses) == 0 {
						t.Errorf("%s, %s: in float32, too: %+v", kind, c.name, again)
					}
				} else if !reflect.DeepEqual(result.Hypotheses, want[i/2].Hypotheses) {
					t.Errorf("%s, %s: beside a sentence that overflows it is\n%+v\nnot\n%+v", kind, c.name, result.Hypotheses, want[i/2].Hypotheses)
				}
			}
		}
	}
}

// withoutOverflowing are the candidates, of all tokens if there is no list, but one.
func withoutOverflowing(candidates []search.Token) []search.Token {
	if candidates == nil {
		for token := range search.Token(smallVocabulary) {
			candidates = append(candidates, token)
		}
	}
	return slices.DeleteFunc(candidates, func(token search.Token) bool { return token == overflowing })
}

// clone returns a sentence with tokens of its own.
func clone(s *search.Sentence) *search.Sentence {
	other := *s
	other.Source.Tokens = slices.Clone(s.Source.Tokens)
	return &other
}

// What overflows without reaching a score does no harm, and what is infinite is never taken for a number: hidden units that are too large
// are found out, those that are too small are zeros.
func TestOverflowOfHiddenUnits(t *testing.T) {
	for _, c := range []struct {
		bias   float32
		broken bool
	}{{2e5, true}, {-2e5, false}} {
		m := randomModel(t, small(""))
		l := m.Encoder[0].FFN.Layers[0]
		binary.LittleEndian.PutUint32(l.B.Data[4*7:], math.Float32bits(c.bias))
		sentences := sentencesOf(searches()[3:4], true)
		p := precise{t, []*model.Model{m}, cpumodel.Float32}
		for i, have := range searchAll(t, []search.Stepper{newStepper(t, openDevice(t), m, 8)}, sentences) {
			if broken := have.Flags&search.NonFinite != 0; broken != c.broken {
				t.Errorf("a bias of %v: flags %b", c.bias, have.Flags)
			}
			if !c.broken {
				j := judge{precise: p, tolerance: 0.05}
				if j.compare(have, p.search(sentences[i])); len(j.lost) > 0 {
					t.Errorf("not found: %v", j.lost)
				}
			}
		}
	}
}

// What is too large for a cell saturates in its gates, as it does in float32. What cells give that have none is found out.
func TestOverflowOfCells(t *testing.T) {
	for cell, infinite := range map[string]bool{"gru": false, "relu": true} {
		m := randomModel(t, describe(descriptions["s2s"]+"\nenc-cell: "+cell))
		bias := m.Recurrent.Backward[1].Cells[0].Bias[0]
		binary.LittleEndian.PutUint32(bias.Data[4*7:], math.Float32bits(2e5))
		sentences := sentencesOf(searches()[3:4], true)
		j := judge{precise: precise{t, []*model.Model{m}, cpumodel.Float32}, tolerance: 0.05}
		for i, have := range searchAll(t, []search.Stepper{newStepper(t, openDevice(t), m, 8)}, sentences) {
			if broken := have.Flags&search.NonFinite != 0; broken != infinite {
				t.Errorf("%s, sentence %d: flags %b", cell, i, have.Flags)
			}
			if !infinite {
				j.compare(have, j.search(sentences[i]))
			}
		}
		if j.ties > 1 || len(j.lost) > 0 {
			t.Errorf("%s: %d ties; not found: %v", cell, j.ties, j.lost)
		}
	}
}

// bfloat16 reaches as far as float32: what fp16 cannot hold is a sentence like others, and weights may be larger.
func TestNoOverflowOfBFloat16(t *testing.T) {
	m := randomModel(t, describe("tied-embeddings-all: false"))
	overflow(t, m, m.SourceEmbedding)
	overflow(t, m, m.TargetEmbedding)
	last := m.SourceEmbedding.Data[4*overflowing*m.Dim:]
	binary.LittleEndian.PutUint32(last, math.Float32bits(1e6))
	sentences := sentencesOf(searches()[3:5], true)
	for _, s := range sentences {
		s.Source.Tokens[1] = overflowing
		s.Prefix = []search.Token{overflowing}
	}
	j := judge{precise: precise{t, []*model.Model{m}, cpumodel.Float32}, tolerance: 0.4}
	for i, have := range searchAll(t, []search.Stepper{newStepper(t, openBFloat16(t), m, 16)}, sentences) {
		j.compare(have, j.search(sentences[i]))
	}
	if j.ties > 3 || len(j.lost) > 0 {
		t.Errorf("%d ties; not found: %v", j.ties, j.lost)
	}
}
