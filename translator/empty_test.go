package translator_test

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// What lists print of an empty text is an end of sentence, normalised over the candidates: fewer of them make it likelier. Without
// models on the processor those in float32 are asked. That the scores are Marian's is shown where lists are compared with Marian's.
func TestEmptyHypothesis(t *testing.T) {
	config := engineConfig(t, cpumodel.Float32)
	config.Search.WordPenalty = 0.25
	listed, err := config.EmptyHypothesis()
	if err != nil {
		t.Fatal(err)
	}
	config.Text.Shortlist = nil
	whole, err := config.EmptyHypothesis()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []float32{listed.ModelScores[0], whole.ModelScores[0]} {
		if !(h < 0) || math.IsInf(float64(h), 0) {
			t.Errorf("the end of sentence has the log-probability %v", h)
		}
	}
	if listed.ModelScores[0] <= whole.ModelScores[0] {
		t.Errorf("%v among the candidates of a shortlist, %v among all pieces", listed.ModelScores[0], whole.ModelScores[0])
	}
	if whole.Text != "" || whole.Score != -0.25 || !slices.Equal(whole.WordScores, []float32{0}) || len(whole.Alignment) != 1 {
		t.Errorf("%+v", whole)
	}
	precise := config.Models
	config.Models, config.Precise = nil, func() (translator.Models, error) { return precise, nil }
	if h, err := config.EmptyHypothesis(); err != nil || !slices.Equal(h.ModelScores, whole.ModelScores) {
		t.Errorf("%+v, %v", h, err)
	}
	config.Search = search.Options{}
	if h, err := config.EmptyHypothesis(); err != nil || math.Signbit(float64(h.Score)) {
		t.Errorf("without a word penalty the score is %v, %v", h.Score, err)
	}
}
