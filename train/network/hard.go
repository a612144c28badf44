package network

import (
	"slices"

	"github.com/sluice-mt/sluice/translator/model"
)

// Reading returns, for each target word in the order of time, the row of the first source's token that hard attention is at: it moves on
// after some words, and stays at the end of the source. See model.HardAttention. room is used if it is long enough.
func Reading(h *model.HardAttention, b *Batch, order *TimeOrder, room []int32) []int32 {
	read := slices.Grow(room[:0], len(order.Times))[:len(order.Times)]
	for s := range b.Target.Sentences.Sentences() {
		at, last := b.Source.Sentences[s], b.Source.Sentences[s+1]-1
		for i := b.Target.Sentences[s]; i < b.Target.Sentences[s+1]; i++ {
			read[order.Times[i]] = int32(at)
			if slices.Contains(h.Steps, b.Target.Tokens[i]) {
				at = min(at+1, last)
			}
		}
	}
	return read
}
