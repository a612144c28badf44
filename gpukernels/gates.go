package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// An Activation is a function of an element, by the numbers that model.Activation has, and one more.
type Activation int

// Tanh is the largest number of an Activation: none, relu, swish, gelu, gelu by the sigmoid, sigmoid, tanh. That of an infinity, which an
// overflow leaves, is NaN.
const Tanh Activation = 6

// Activate sets rows to f of them.
func (k *Kernels) Activate(s *cuda.Stream, x Matrix, f Activation) error {
	if err := cmp.Or(needPlain("activation", x), need(f >= 0 && f <= Tanh, "activation", "there is no number %d", f)); err != nil {
		return err
	}
	return k.overRows(s, "activate", x, cuda.Address(x.At), cuda.Int(x.Rows), cuda.Int(x.Columns), cuda.Int(int(f)))
}

// overRows launches a kernel that gives each row to one warp.
func (k *Kernels) overRows(s *cuda.Stream, name string, x Matrix, arguments ...cuda.Argument) error {
	if x.Rows == 0 {
		return nil
	}
	if err := needPlain(name, x); err != nil {
		return err
	}
	return k.byName[name].Launch(s, rowGrid(x.Rows), rowBlock, 0, arguments...)
}

// Add sets result to x + y, fp16 all; result may be either.
func (k *Kernels) Add(s *cuda.Stream, result Matrix, x, y cuda.Pointer) error {
	return k.overRows(s, "add", result, cuda.Address(x), cuda.Address(y), cuda.Address(result.At), cuda.Int(result.Rows), cuda.Int(result.Columns))
}

// Highway sets result to σ(gate)·x + (1-σ(gate))·y, fp16 all; result may be any of them.
func (k *Kernels) Highway(s *cuda.Stream, result Matrix, gate, x, y cuda.Pointer) error {
	return k.overRows(s, "highway", result, cuda.Address(gate), cuda.Address(x), cuda.Address(y), cuda.Address(result.At),
		cuda.Int(result.Rows), cuda.Int(result.Columns))
}

// GatedSum sets result to σ(gateX)·x + σ(gateY)·y, fp16 all; result may be any of them.
func (k *Kernels) GatedSum(s *cuda.Stream, result Matrix, gateX, x, gateY, y cuda.Pointer) error {
	return k.overRows(s, "gated_sum", result, cuda.Address(gateX), cuda.Address(x), cuda.Address(gateY), cuda.Address(y),
		cuda.Address(result.At), cuda.Int(result.Rows), cuda.Int(result.Columns))
}

// Average advances running means over positions, by the element x at position t: mean = (mean·t + x)/(t + 1). result has them as fp16.
func (k *Kernels) Average(s *cuda.Stream, result Matrix, x cuda.Pointer, mean States) error {
	return k.overRows(s, "average", result, cuda.Address(x), cuda.Address(mean.From), cuda.Address(mean.To), cuda.Address(mean.Positions),
		cuda.Address(mean.At), cuda.Address(result.At), cuda.Int(result.Rows), cuda.Int(result.Columns), cuda.Int(mean.Stride))
}

// SRU advances simple recurrent units: c = σ(f)·c + (1-σ(f))·w, h = σ(r)·tanh(c) + (1-σ(r))·x.
//
// gates: fp16, for each row w, f and then r. x: fp16, the input.
func (k *Kernels) SRU(s *cuda.Stream, h Matrix, gates, x cuda.Pointer, c States) error {
	return k.overRows(s, "sru", h, cuda.Address(gates), cuda.Address(x), cuda.Address(c.From), cuda.Address(c.To), cuda.Address(c.Positions),
		cuda.Address(c.At), cuda.Address(h.At), cuda.Int(h.Rows), cuda.Int(h.Columns), cuda.Int(c.Stride))
}

// Words are what a decoder with self-attention keeps of the target words, for one layer.
type Words struct {
	Cache    cuda.Pointer // fp16: in each row the keys and then the values of a word, where those of the layer begin
	Stride   int          // elements from row to row
	Numbers  cuda.Pointer // int32, Capacity for each slot: the rows of its words
	Capacity int
	// Slots and Positions, int32, are those of each row of the step.
	Slots, Positions cuda.Pointer
}

// KeepWords stores the keys and values of the rows' words, which lie fromStride elements apart, n elements each, in the rows of the cache
// that rowsOfCache (int32) names, and notes these as the slots' words at the rows' positions.
func (k *Kernels) KeepWords(s *cuda.Stream, w Words, from cuda.Pointer, fromStride, rows, n int, rowsOfCache cuda.Pointer) error {
	if rows == 0 {
		return nil
	}
	if err := need(n%8 == 0 && fromStride%8 == 0 && w.Stride%8 == 0, "words", "rows of %d elements, %d and %d apart, must be multiples of 8",
		n, fromStride, w.Stride); err != nil {
		return err
	}
	return k.byName["keep_words"].Launch(s, rowGrid(rows), rowBlock, 0, cuda.Address(from), cuda.Address(w.Cache), cuda.Address(w.Numbers),
		cuda.Address(rowsOfCache), cuda.Address(w.Slots), cuda.Address(w.Positions), cuda.Int(rows), cuda.Int(n), cuda.Int(fromStride),
		cuda.Int(w.Stride), cuda.Int(w.Capacity))
}

// FirstWords sets the rows at position 0 to those of x.
func (k *Kernels) FirstWords(s *cuda.Stream, result Matrix, x, positions cuda.Pointer) error {
	return k.overRows(s, "first_words", result, cuda.Address(x), cuda.Address(positions), cuda.Address(result.At), cuda.Int(result.Rows),
		cuda.Int(result.Columns))
}

// Recall is attention to the words so far, the row's own included. queries: fp16, rows that are queryStride elements apart. result: fp16,
// rows of heads × headDim. scale is the factor of scores.
func (k *Kernels) Recall(s *cuda.Stream, w Words, result, queries cuda.Pointer, queryStride, rows, heads, headDim int, scale float32) error {
	if rows == 0 {
		return nil
	}
	kernel, parts, err := k.headKernel("recall", headDim)
	if err := cmp.Or(err, need(w.Stride%8 == 0, "recall", "the stride %d must be a multiple of 8", w.Stride)); err != nil {
		return err
	}
	return kernel.Launch(s, cuda.Shape{X: blocks(rows, warpRows), Y: heads * max(parts, 1)}, rowBlock, queriesShared(parts),
		withParts(parts, cuda.Address(queries), cuda.Address(w.Cache), cuda.Address(cuda.Offset[Half](w.Cache, heads*headDim)),
			cuda.Address(w.Numbers), cuda.Address(w.Slots), cuda.Address(w.Positions), cuda.Address(result), cuda.Int(rows), cuda.Int(heads),
			cuda.Int(queryStride), cuda.Int(w.Stride), cuda.Int(w.Capacity), cuda.Float(scale))...)
}
