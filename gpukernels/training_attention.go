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
// same numbers. All matrices have rows of Width elements without gaps; a head has a multiple of 8 of them, 128 at most.
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

// MostOfHead is how many elements a head can have.
const MostOfHead = 128

func (a *TrainingAttention) check() error {
	dim := a.Width / a.Heads
	return need(a.Width%a.Heads == 0 && dim%8 == 0 && dim <= MostOfHead, "training attention",
		"%d heads of rows of %d elements: a head must have a multiple of 8, %d at most", a.Heads, a.Width, MostOfHead)
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

// Attention fills Out and LogSums.
func (t *Training) Attention(s *cuda.Stream, a TrainingAttention) error {
	if err := a.check(); err != nil || a.Queries.Rows == 0 {
		return err
	}
	return t.launch(s, "training_attention", a.grid(a.Queries), rowBlock.X, a.arguments(a.Queries, cuda.Address(a.Q), cuda.Address(a.K),
		cuda.Address(a.V), cuda.Address(a.Out), cuda.Address(a.LogSums))...)
}

// AttentionBackward sets dq, dk and dv to the gradients, given that of Out, which itself is not needed any more. inners is room for as many numbers as LogSums has.
func (t *Training) AttentionBackward(s *cuda.Stream, dq, dk, dv, dout, inners cuda.Pointer, a TrainingAttention) error {
	if err := a.check(); err != nil || a.Queries.Rows == 0 {
		return err
	}
	return cmp.Or(
		t.launch(s, "training_attention_queries", a.grid(a.Queries), rowBlock.X, a.arguments(a.Queries, cuda.Address(a.Q), cuda.Address(a.K),
			cuda.Address(a.V), cuda.Address(dout), cuda.Address(a.LogSums), cuda.Address(inners), cuda.Address(dq))...),
		t.launch(s, "training_attention_keys", a.grid(a.Keys), rowBlock.X, a.arguments(a.Keys, cuda.Address(a.Q), cuda.Address(a.K),
			cuda.Address(a.V), cuda.Address(dout), cuda.Address(a.LogSums), cuda.Address(inners), cuda.Address(dk), cuda.Address(dv))...),
	)
}
