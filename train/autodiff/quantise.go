package autodiff

import "math"

// rounding is y = x, rounded.
type rounding[T Float] struct{ y, x *Matrix[T] }

// quantisedLimit is what the largest magnitude of a row becomes in 8 bits.
const quantisedLimit = 127

// QuantiseRows returns what the engine's 8-bit products make of x: each row is rounded to whole multiples of its largest
// magnitude divided by 127, halves to even. The gradient goes through as if nothing had happened.
func (t *Tape[T]) QuantiseRows(x *Matrix[T]) *Matrix[T] {
	y := t.matrix(x.Rows, x.Cols)
	for i := range x.Rows {
		quantiseRow(y.Row(i), x.Row(i))
	}
	o := t.roundings.next()
	*o = rounding[T]{y, x}
	t.record(o)
	return y
}

// quantiseRow rounds a row. One that is not finite stays as it is, so that the loss is not finite either.
func quantiseRow[T Float](y, x []T) {
	var largest T
	for _, v := range x {
		largest = max(largest, v, -v)
	}
	multiplier, scale := quantisedLimit/largest, largest/quantisedLimit
	switch {
	case math.IsInf(float64(largest), 0) || largest != largest:
		copy(y, x)
		return
	case float64(multiplier) > math.MaxFloat32:
		clear(y)
		return
	}
	for i, v := range x {
		y[i] = T(math.RoundToEven(float64(v*multiplier))) * scale
	}
}

// RoundBFloat16 returns x rounded to bfloat16, halves to even: what the engine's 8-bit models keep of keys and values. The gradient
// goes through as if nothing had happened.
func (t *Tape[T]) RoundBFloat16(x *Matrix[T]) *Matrix[T] {
	y := t.matrix(x.Rows, x.Cols)
	for i, v := range x.Value {
		y.Value[i] = T(bfloat16(float32(v)))
	}
	o := t.roundings.next()
	*o = rounding[T]{y, x}
	t.record(o)
	return y
}

func bfloat16(v float32) float32 {
	bits := math.Float32bits(v)
	if v != v {
		return v
	}
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

func (o *rounding[T]) backward(t *Tape[T]) {
	if o.x.Grad != nil {
		t.device.Add(o.x.Grad, o.y.Grad)
	}
}
