package gpumodel

import (
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
)

// Products in 8 bits: weights are integers with a scale for each column of the result, and the rows that they are multiplied with are
// quantised before each product. The integers of the weights are those of cpumodel, and sums are exact, so that what a product adds to the
// processor's rounding is that of 16 bits before and behind it.

// defaultSaturation is that of cpumodel: where weights are cut off that are quantised at load.
const defaultSaturation = 7

// int8 says whether the device multiplies in 8 bits.
func (d *Device) int8() bool { return d.as.Products == gpukernels.Int8 }

func (o *Options) saturation() float64 {
	switch {
	case o.Saturation == 0:
		return defaultSaturation
	case o.Saturation < 0:
		return 0
	}
	return o.Saturation
}

// integers uploads a matrix with a row for each column of the result. Rows of matrices that are stored in 8 bits are as they are stored.
func (u *uploader) integers(rows, columns int, values []int8, scales []float32) gpukernels.Int8Matrix {
	m := gpukernels.Int8Matrix{Rows: rows, Columns: columns}
	if columns > gpukernels.MaxInt8Columns && u.err == nil {
		u.err = fmt.Errorf("%w: it has a matrix with %d rows, which are too many for int8", ErrUnsupported, columns)
	}
	if u.err != nil {
		return m
	}
	stride := gpukernels.Int8Stride(columns)
	padded := make([]int8, rows*stride)
	for i := range rows {
		copy(padded[i*stride:], values[i*columns:(i+1)*columns])
	}
	m.At, m.Scales = upload(u, padded), upload(u, scales)
	return m
}

// quantise returns the integers and scales of a tensor with a row for each of n columns of the result; across says that it is stored with a
// column for each.
func (u *uploader) quantise(t *marian.Tensor, n, k int, across bool) (values []int8, scales []float32) {
	values, scales = make([]int8, n*k), make([]float32, n)
	if u.err != nil {
		return values, scales
	}
	if t.Type == marian.Intgemm8 {
		q, multiplier, err := t.Int8()
		if u.err = err; err != nil {
			return values, scales
		}
		if across {
			q = transpose(q, k, n)
		}
		copy(values, q)
		for i := range scales {
			scales[i] = 1 / multiplier
		}
		return values, scales
	}
	floats := u.floats(t)
	if u.err != nil {
		return values, scales
	}
	if across {
		floats = transpose(floats, k, n)
	}
	kernels.QuantizeTable(values, scales, floats, n, k, u.options.saturation())
	return values, scales
}

// quantised returns rows as integers, made where the rows of a are quantised.
func (s *Stepper) quantised(a *activations, from gpukernels.Matrix) (gpukernels.Int8Matrix, error) {
	to := gpukernels.Int8Matrix{At: a.integers, Scales: a.scales, Rows: from.Rows, Columns: from.Columns}
	return to, s.w.device.kernels.Quantise(a.stream, to, from)
}

// runProduct runs a product with l, whose other operands are filled in.
func (s *Stepper) runProduct(a *activations, l *linear, p gpukernels.Product) error {
	if l.integers.At == 0 {
		return s.multiplyBy(a.stream, l, p)
	}
	x, err := s.quantised(a, p.X)
	if err != nil {
		return err
	}
	return s.w.device.kernels.Int8Product(a.stream, gpukernels.Int8Product{X: x, Weights: l.integers, Bias: l.bias, Residual: p.Residual, Result: p.Result,
		Rectified: p.Rectified})
}

// chooseFrom runs the output layer over the rows o.X.
func (s *Stepper) chooseFrom(o gpukernels.Output) error {
	if table := s.w.integers; table.At != 0 {
		x, err := s.quantised(&s.rowsOf, o.X)
		if err != nil {
			return err
		}
		o.X.At, o.XScales, o.Table, o.TableScales = x.At, x.Scales, table.At, table.Scales
	}
	return s.w.device.kernels.Output(s.stream, o)
}

// scoresOf writes the score of every token for rows of the decoder.
func (s *Stepper) scoresOf(x gpukernels.Matrix, to cuda.Pointer) error {
	w, k := s.w, s.w.device.kernels
	if w.integers.At == 0 {
		return k.Scores(s.stream, x, w.table, w.bias, to, w.vocabulary)
	}
	integers, err := s.quantised(&s.rowsOf, x)
	if err != nil {
		return err
	}
	return k.Int8Scores(s.stream, integers, w.integers, w.bias, to)
}
