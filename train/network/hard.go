package network

import "slices"

// reading returns, for each target word in the order of time, the row of the first source's token that hard attention is at: it moves on
// after some words, and stays at the end of the source. See model.HardAttention.
func (r *Replica[T]) reading(b *Batch) []int32 {
	steps, words := r.network.Model.Recurrence.Hard.Steps, r.targetSchedule.forward
	r.read = slices.Grow(r.read[:0], len(words.times))[:len(words.times)]
	for s := range b.Target.Sentences.Sentences() {
		at, last := b.Source.Sentences[s], b.Source.Sentences[s+1]-1
		for i := b.Target.Sentences[s]; i < b.Target.Sentences[s+1]; i++ {
			r.read[words.times[i]] = int32(at)
			if slices.Contains(steps, b.Target.Tokens[i]) {
				at = min(at+1, last)
			}
		}
	}
	return r.read
}
