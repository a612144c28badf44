package network

import "github.com/sluice-mt/sluice/train/autodiff"

// A Batch is sentence pairs, ragged: one sentence after another.
type Batch struct {
	Source, Target Side
	Further        []Side                    // the second source and those after it, of models that have several
	Weights        []float32                 // of the target tokens' losses; nil is 1 each
	Alignment      []autodiff.AlignmentPoint // in the order of sentences and target tokens; nil without

	inputs []int32 // of the decoder: the target, one token later
}

// A Side is the sentences of one language.
type Side struct {
	Tokens    []int32           // each sentence with its end of sentence; right-to-left models have the rest reversed
	Sentences autodiff.Segments // where they begin, and the end of the last one
}

// Add appends a sentence.
func (s *Side) Add(tokens []int32) {
	if len(s.Sentences) == 0 {
		s.Sentences = append(s.Sentences, 0)
	}
	s.Tokens = append(s.Tokens, tokens...)
	s.Sentences = append(s.Sentences, len(s.Tokens))
}

// SourceSide returns a source, numbered from 0.
func (b *Batch) SourceSide(i int) *Side {
	if i == 0 {
		return &b.Source
	}
	return &b.Further[i-1]
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Source.Tokens, b.Source.Sentences = b.Source.Tokens[:0], b.Source.Sentences[:0]
	b.Target.Tokens, b.Target.Sentences = b.Target.Tokens[:0], b.Target.Sentences[:0]
	for i := range b.Further {
		b.Further[i].Tokens, b.Further[i].Sentences = b.Further[i].Tokens[:0], b.Further[i].Sentences[:0]
	}
	b.Weights, b.Alignment = b.Weights[:0], b.Alignment[:0]
}

// Sentences is the number of pairs.
func (b *Batch) Sentences() int { return max(0, len(b.Target.Sentences)-1) }

// noToken stands before the first target token: a vector of zeros.
const noToken = -1

// Shifted returns the decoder's inputs: before each target token the one before it.
func (b *Batch) Shifted() []int32 {
	b.inputs = b.inputs[:0]
	for s := range b.Target.Sentences.Sentences() {
		begin, end := b.Target.Sentences[s], b.Target.Sentences[s+1]
		b.inputs = append(b.inputs, noToken)
		b.inputs = append(b.inputs, b.Target.Tokens[begin:end-1]...)
	}
	return b.inputs
}

// longest returns the length of the longest sentence.
func (s *Side) longest() int {
	longest := 0
	for i := 0; i+1 < len(s.Sentences); i++ {
		longest = max(longest, s.Sentences.Len(i))
	}
	return longest
}
