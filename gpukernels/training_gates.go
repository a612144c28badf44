package gpukernels

import (
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Activate sets y to f(x), n elements with what is left of groups' places; kind is a number of an Activation.
func (t *Training) Activate(s *cuda.Stream, y, x cuda.Pointer, n int, of Spacing, kind int) error {
	arguments := []cuda.Argument{cuda.Address(x), cuda.Address(y), cuda.Int(n), cuda.Int(kind)}
	return t.over(s, "training_activate", n, append(arguments, of.arguments()...)...)
}

// ActivateBackward sets dx to dy·f'(x). What is left of groups' places is zero in dy, and so in dx.
func (t *Training) ActivateBackward(s *cuda.Stream, dx, dy, x cuda.Pointer, n, kind int) error {
	return t.over(s, "training_activate_backward", n, cuda.Address(x), cuda.Address(dy), cuda.Address(dx), cuda.Int(n), cuda.Int(kind))
}

// A GatedSum is σ(A)·U + σ(B)·V, or with B = 0, as in highway connections, σ(A)·U + (1 - σ(A))·V: N elements each. As the receiver of
// gradients it has the places of those.
type GatedSum struct {
	A, U, B, V cuda.Pointer
	N          int
}

// GatedSum sets y to the sum.
func (t *Training) GatedSum(s *cuda.Stream, y cuda.Pointer, g GatedSum) error {
	return t.over(s, "training_gated_sum", g.N, cuda.Address(g.A), cuda.Address(g.U), cuda.Address(g.B), cuda.Address(g.V), cuda.Address(y), cuda.Int(g.N))
}

// GatedSumBackward sets the gradients, in places of which no two are the same, given that of the result.
func (t *Training) GatedSumBackward(s *cuda.Stream, to GatedSum, dy cuda.Pointer, g GatedSum) error {
	if err := need(g.N%8 == 0, "training_gated_sum_backward", "%d elements are no multiple of 8", g.N); err != nil || g.N == 0 {
		return err
	}
	return t.launch(s, "training_gated_sum_backward", cuda.Shape{X: blocks(g.N/2, elementThreads)}, elementThreads, cuda.Address(g.A), cuda.Address(g.U),
		cuda.Address(g.B), cuda.Address(g.V), cuda.Address(dy), cuda.Address(to.A), cuda.Address(to.U), cuda.Address(to.B), cuda.Address(to.V), cuda.Int(g.N))
}

// Columns are the columns of sentences' rows, which are gone through one after another.
type Columns struct {
	Starts    cuda.Pointer // int32: the first row of each sentence, and the end
	Sentences int
	Columns   int
}

// ofSentences launches a kernel whose blocks have columns of a sentence each; arguments are its own, given where the sentences start.
func (t *Training) ofSentences(s *cuda.Stream, name string, c Columns, arguments func(starts cuda.Argument) []cuda.Argument) error {
	return t.inLaunches(c.Sentences, func(first, sentences int) error {
		return t.launch(s, name, cuda.Shape{X: blocks(c.Columns, elementThreads), Y: sentences}, elementThreads,
			append(arguments(cuda.Address(cuda.Offset[int32](c.Starts, first))), cuda.Int(c.Columns))...)
	})
}

// Mean sets each row of y to the mean of the rows of x from the beginning of its sentence up to it.
func (t *Training) Mean(s *cuda.Stream, y, x cuda.Pointer, c Columns) error {
	return t.ofSentences(s, "training_mean", c, func(starts cuda.Argument) []cuda.Argument {
		return []cuda.Argument{cuda.Address(x), starts, cuda.Address(y)}
	})
}

// MeanBackward sets dx to the gradient, given that of the means.
func (t *Training) MeanBackward(s *cuda.Stream, dx, dy cuda.Pointer, c Columns) error {
	return t.ofSentences(s, "training_mean_backward", c, func(starts cuda.Argument) []cuda.Argument {
		return []cuda.Argument{cuda.Address(dy), starts, cuda.Address(dx)}
	})
}

// SRU is what simple recurrent units have as input, or the gradients of that: the product W, the gates F and R, and the input X itself.
type SRU struct{ W, F, R, X cuda.Pointer }

// SRU sets h to what the units give. states is room for as many float32.
func (t *Training) SRU(s *cuda.Stream, h, states cuda.Pointer, u SRU, c Columns) error {
	return t.ofSentences(s, "training_sru", c, func(starts cuda.Argument) []cuda.Argument {
		return []cuda.Argument{cuda.Address(u.W), cuda.Address(u.F), cuda.Address(u.R), cuda.Address(u.X), starts, cuda.Address(states), cuda.Address(h)}
	})
}

// SRUBackward sets the gradients of the input, given that of h.
func (t *Training) SRUBackward(s *cuda.Stream, to SRU, dh, states cuda.Pointer, u SRU, c Columns) error {
	return t.ofSentences(s, "training_sru_backward", c, func(starts cuda.Argument) []cuda.Argument {
		return []cuda.Argument{cuda.Address(u.W), cuda.Address(u.F), cuda.Address(u.R), cuda.Address(u.X), starts, cuda.Address(states), cuda.Address(dh),
			cuda.Address(to.W), cuda.Address(to.F), cuda.Address(to.R), cuda.Address(to.X)}
	})
}
