package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Sentences say which rows of a matrix belong together: two lists of int32.
type Sentences struct {
	Of     cuda.Pointer // the sentence of each row
	Starts cuda.Pointer // the first row of each sentence, and the end
	Rows   int
}

// TrainingAttention is softmax(Q·Kᵀ/√d)·V in each head, sentence by sentence: those of the queries attend to those of the keys with the
// same numbers. All matrices have rows of Width elements without gaps; a head has a multiple of 8 of them, MostHeadDim at most. Wide heads are
// slow: for each wideHead elements of a result, all weights are computed again.
type TrainingAttention struct {
	Q, K, V       cuda.Pointer
	Out           cuda.Pointer // of the queries
	LogSums       cuda.Pointer // room for a float32 for each query and head
	Queries, Keys Sentences
	Width, Heads  int
	Causal        bool // a query sees the keys up to its own position; both sides are the same
	Scale         float32
	Dropout       Dropout // of the weights; the seed is that of the whole layer
}

func (a *TrainingAttention) check() error {
	dim := a.Width / a.Heads
	return need(a.Width%a.Heads == 0 && dim%8 == 0 && dim <= MostHeadDim, "training attention",
		"%d heads of rows of %d elements: a head must have a multiple of 8, %d at most", a.Heads, a.Width, MostHeadDim)
}

// arguments are what all three kernels are told, about the rows of one side.
func (a *TrainingAttention) arguments(own Sentences, first ...cuda.Argument) []cuda.Argument {
	first = append(first, cuda.Address(own.Of), cuda.Address(a.Queries.Starts), cuda.Address(a.Keys.Starts), cuda.Int(own.Rows), cuda.Int(a.Width),
		cuda.Int(a.Width/a.Heads), flag(a.Causal), cuda.Float(a.Scale))
	return append(first, a.Dropout.arguments()...)
}

func (a *TrainingAttention) grid(own Sentences) cuda.Shape {
	return cuda.Shape{X: blocks(own.Rows, warpRows), Y: a.Heads}
}

// stagedRows is the shared memory of a block whose warps have so many rows of a head each.
func stagedRows(rows, headDim int) int { return 4 * warpRows * rows * headDim }

// launch launches a kernel whose warps stage so many rows of a head.
func (a *TrainingAttention) launch(t *Training, s *cuda.Stream, name string, grid cuda.Shape, staged int, arguments ...cuda.Argument) error {
	return t.kernels.byName[name].Launch(s, grid, rowBlock, stagedRows(staged, a.Width/a.Heads), arguments...)
}

// Attention fills Out and LogSums.
func (t *Training) Attention(s *cuda.Stream, a TrainingAttention) error {
	if err := a.check(); err != nil || a.Queries.Rows == 0 {
		return err
	}
	return a.launch(t, s, "training_attention", a.grid(a.Queries), 1, a.arguments(a.Queries, cuda.Address(a.Q), cuda.Address(a.K),
		cuda.Address(a.V), cuda.Address(a.Out), cuda.Address(a.LogSums))...)
}

// AttentionBackward sets dq, dk and dv to the gradients, given that of Out, which itself is not needed any more. inners is room for as many numbers as LogSums has.
func (t *Training) AttentionBackward(s *cuda.Stream, dq, dk, dv, dout, inners cuda.Pointer, a TrainingAttention) error {
	if err := a.check(); err != nil || a.Queries.Rows == 0 {
		return err
	}
	return cmp.Or(
		a.launch(t, s, "training_attention_queries", a.grid(a.Queries), 2, a.arguments(a.Queries, cuda.Address(a.Q), cuda.Address(a.K),
			cuda.Address(a.V), cuda.Address(dout), cuda.Address(a.LogSums), cuda.Address(inners), cuda.Address(dq))...),
		a.launch(t, s, "training_attention_keys", a.grid(a.Keys), 2, a.arguments(a.Keys, cuda.Address(a.Q), cuda.Address(a.K),
			cuda.Address(a.V), cuda.Address(dout), cuda.Address(a.LogSums), cuda.Address(inners), cuda.Address(dk), cuda.Address(dv))...),
	)
}

// A Guide is an alignment that the first head of an attention is to have.
type Guide struct {
	Targets cuda.Pointer // float32: for each sentence, a number for each query and key, row by row; guiding overwrites them
	Places  cuda.Pointer // int32: where those of each sentence begin
	Squared bool         // the cost is Σ (p - a)²/2 of weights p and targets a, in place of -Σ a·log(p + 1e-6)
	Weight  float32
	Losses  cuda.Pointer // receives a float32 for each query
}

// Guide adds to dq and dk, the gradients of an attention after AttentionBackward, what a guide adds to its loss. The attention is not causal.
func (t *Training) Guide(s *cuda.Stream, dq, dk cuda.Pointer, g Guide, a TrainingAttention) error {
	if err := cmp.Or(a.check(), need(!a.Causal, "training guide", "the attention is causal")); err != nil || a.Queries.Rows == 0 {
		return err
	}
	batch := func(own Sentences) []cuda.Argument {
		return []cuda.Argument{cuda.Address(own.Of), cuda.Address(a.Queries.Starts), cuda.Address(a.Keys.Starts), cuda.Int(own.Rows), cuda.Int(a.Width),
			cuda.Int(a.Width / a.Heads)}
	}
	queries := append([]cuda.Argument{cuda.Address(a.Q), cuda.Address(a.K), cuda.Address(a.LogSums), cuda.Address(g.Losses), cuda.Address(dq),
		cuda.Address(g.Targets), cuda.Address(g.Places), cuda.Int(a.Heads), flag(g.Squared), cuda.Float(g.Weight)}, batch(a.Queries)...)
	keys := append([]cuda.Argument{cuda.Address(a.Q), cuda.Address(g.Targets), cuda.Address(g.Places), cuda.Address(dk)}, batch(a.Keys)...)
	return cmp.Or(
		a.launch(t, s, "training_guide_queries", rowGrid(a.Queries.Rows), 1, append(queries, cuda.Float(a.Scale))...),
		t.launch(s, "training_guide_keys", rowGrid(a.Keys.Rows), rowBlock.X, keys...),
	)
}
