package translator

import (
	"fmt"
	"slices"

	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/translator/search"
)

// EmptyHypothesis is what Marian has for an empty text, for lists that print scores: the end of sentence alone. It costs nothing,
// but for the word penalty of one piece, and ModelScores are what the models think of it nevertheless. Every empty text has the
// same, so that the models are asked once and not for each. Calls may not overlap with those of New.
func (c *Config) EmptyHypothesis() (job.Hypothesis, error) {
	models := c.Models
	if models == nil { // devices, which belong to their workers
		var err error
		if models, err = c.Precise(); err != nil {
			return job.Hypothesis{}, fmt.Errorf("loading the model in float32: %w", err)
		}
	}
	h := job.Hypothesis{Finished: true, Score: 0 - c.Search.WordPenalty, WordScores: []float32{0}, Alignment: [][]float32{{1}}}
	source := c.Text.emptySource()
	for _, stepper := range models.NewSteppers(1) {
		h.ModelScores = append(h.ModelScores, endScore(stepper, source, c.Text.Target.EOS()))
	}
	return h, nil
}

// emptySource is what the models read for a text without pieces.
func (x *Text) emptySource() search.Source {
	source := search.Source{Tokens: []search.Token{x.Source.EOS()}}
	for _, vocabulary := range x.Further {
		source.Further = append(source.Further, []search.Token{vocabulary.EOS()})
	}
	if x.Shortlist != nil {
		source.Candidates = x.Shortlist.NewScratch().Candidates(source.Tokens, nil, nil)
	}
	return source
}

// endScore is the log-probability that a translation ends before its first piece.
func endScore(stepper search.Stepper, source search.Source, end search.Token) float32 {
	contexts := make([]search.Context, 1)
	stepper.Encode([]search.Source{source}, contexts)
	defer stepper.Release(contexts[0])
	stepper.Begin(0, contexts[0])
	stepper.Step([]search.Slot{0}, []search.Token{search.NoToken}, false)
	row := int(end)
	if source.Candidates != nil {
		row = slices.Index(source.Candidates, end) // a shortlist always holds it
	}
	return stepper.LogProbs(0)[row]
}
