package cpumodel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A trail is what a model gave for hypotheses that replaced each other.
type trail struct {
	logProbs []float32
	macs     int64
}

// wander lets hypotheses of three sentences go on and replace each other at random, the same way for every model that is given the
// same seed.
func wander(w *Weights, m *model.Model, seed uint64) trail {
	random := rand.New(rand.NewPCG(seed, 25))
	s := w.NewStepper(9)
	var sources []search.Source
	for range 3 {
		sources = append(sources, search.Source{Tokens: randomTokens(random, 1+random.IntN(9), max(m.SourceVocabulary, 1)), Further: furtherTokens(random, m)})
	}
	contexts := make([]search.Context, 3)
	s.Encode(sources, contexts)
	var live []hypothesis
	for slot := range 9 {
		live = append(live, hypothesis{slot: search.Slot(slot), sentence: slot / 3})
		s.Begin(search.Slot(slot), contexts[slot/3])
	}
	var all trail
	for range 6 {
		stepAtRandom(s, live, random, w.Vocabulary())
		for row := range live {
			all.logProbs = append(all.logProbs, s.LogProbs(int32(row))...)
		}
		reorderAtRandom(s, live, random)
	}
	all.macs = s.Stats().MACs
	return all
}

// TestSpeedups switches each speedup of recurrent models off: not a bit changes, but for the one that adds in another order.
func TestSpeedups(t *testing.T) {
	for i, kind := range recurrentKinds {
		random := rand.New(rand.NewPCG(uint64(i), 26))
		m := synthesise(t, describe(kind.lines), false, random)
		devlin, recurrent := m.Recurrence != nil && m.Recurrence.Devlin != nil, m.Recurrence != nil
		for _, precision := range precisions {
			seed := uint64(i)
			with := wander(pack(t, m, precision, Options{}), m, seed)
			for _, c := range []struct {
				name    string
				options Options
				less    bool // whether there is less to multiply with the speedup
			}{
				{"known embeddings", Options{Without: KnownEmbeddings}, recurrent},
				{"known embeddings of few pieces", Options{KnownPieces: 5}, recurrent},
				{"known embeddings of no pieces", Options{KnownPieces: -1}, recurrent},
				{"vector gates", Options{Without: VectorGates}, false},
				{"merged states", Options{Without: MergedStates}, mergeable(m)},
			} {
				without := wander(pack(t, m, precision, c.options), m, seed)
				name := fmt.Sprintf("%s %v, %s", kind.name, precision, c.name)
				if !sameBits(without.logProbs, with.logProbs) {
					t.Errorf("%s: other log-probabilities", name)
				}
				if (without.macs > with.macs) != c.less || without.macs < with.macs {
					t.Errorf("%s: %d multiply-accumulates, %d without", name, with.macs, without.macs)
				}
			}
			if devlin {
				compareKept(t, m, precision, Options{}, seed)
			}
			if kept := pack(t, m, precision, Options{Beam: 4}).network; kept != nil && kept.premixed != nil {
				compareKept(t, m, precision, Options{Beam: 4}, seed)
			}
		}
	}
}

// compareKept compares with a model that multiplies what attention found.
func compareKept(t *testing.T, m *model.Model, precision Precision, options Options, seed uint64) {
	t.Helper()
	with := wander(pack(t, m, precision, options), m, seed)
	without := wander(pack(t, m, precision, Options{Without: KeptContexts}), m, seed)
	tolerance := map[Precision]float64{Float32: 1e-5, Int16: 5e-3, BFloat16: 0.05, Int8: 0.2}[precision]
	worst := 0.0
	for i := range without.logProbs {
		worst = max(worst, math.Abs(float64(without.logProbs[i]-with.logProbs[i])))
	}
	if !(worst < tolerance) || slices.Equal(without.logProbs, with.logProbs) {
		t.Errorf("%v, kept contexts: log-probabilities are off by %v", precision, worst)
	}
}

// mergeable says whether anything in a model is multiplied with the last states alone.
func mergeable(m *model.Model) bool {
	if m.Recurrence == nil {
		return !strings.HasSuffix(m.DecoderCell.String(), "sru")
	}
	kind := m.Recurrence.DecoderCell
	return kind != model.SRUCell && kind != model.SSRUCell && kind != model.MultiplicativeGRUCell && kind != model.MultiplicativeLSTMCell
}
