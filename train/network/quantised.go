package network

import "github.com/sluice-mt/sluice/train/autodiff"

// A quantisedFactor is the last matrix that was rounded: queries, keys and values often have the same one.
type quantisedFactor[T autodiff.Float] struct{ from, to *autodiff.Matrix[T] }

// reset readies the replica for a batch.
func (r *Replica[T]) reset(recording bool, seed uint64) {
	r.factor = quantisedFactor[T]{}
	r.tape.Reset(recording, seed)
}

// input returns what a product takes for its input.
func (r *Replica[T]) input(x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	if !r.Quantised {
		return x
	}
	if r.factor.from != x {
		r.factor = quantisedFactor[T]{x, r.tape.QuantiseRows(x)}
	}
	return r.factor.to
}

// operand returns what a product takes for its input x when that meets a parameter. bias, which may be nil, is added to the product.
func (r *Replica[T]) operand(x, w, bias *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	y := r.input(x)
	if r.Observe != nil {
		r.Observe(r.number(w), r.number(bias), y)
	}
	return y
}

// number returns the index of a parameter, -1 for none.
func (r *Replica[T]) number(w *autodiff.Matrix[T]) int {
	for i := range r.parameters {
		if &r.parameters[i] == w {
			return i
		}
	}
	return -1
}
