package network

import (
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/train/autodiff"
)

// TestDroppedWords drops nearly all words: what is left are their positions.
func TestDroppedWords(t *testing.T) {
	n := newNetwork(t, describe(""))
	r := NewReplica(n, autodiff.Device[float64](autodiff.Plain[float64]{}), randomValues(n))
	r.reset(true, 1)
	side := &smallBatch().Source
	x := r.embed(n.Model.SourceEmbedding, side.Tokens, side.Sentences, side.longest(), 0.999999)
	positions := autodiff.Sinusoids[float64](side.longest(), n.Model.Dim)
	for s := range side.Sentences.Sentences() {
		for i := side.Sentences[s]; i < side.Sentences[s+1]; i++ {
			if p := i - side.Sentences[s]; !slices.Equal(x.Row(i), positions.Row(p)) {
				t.Errorf("word %d is %v, position %d is %v", i, x.Row(i), p, positions.Row(p))
			}
		}
	}
}
