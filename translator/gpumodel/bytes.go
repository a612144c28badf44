package gpumodel

import (
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
)

// Products in 8 bits, of integers or of gpukernels.Float8: weights are bytes with a scale for each column of the result, and the rows that
// they are multiplied with are quantised before each product.
//
// The integers of the weights are those of cpumodel, and sums are exact, so that what a product adds to the processor's rounding is that of 16
// bits before and behind it. Sums of Float8 are float32, added in the same order whatever the number of rows.

// defaultSaturation is that of cpumodel: where weights are cut off that are quantised at load.
const defaultSaturation = 7

// inBytes says whether the device multiplies in 8 bits.
func (d *Device) inBytes() bool { return d.as.Products != gpukernels.Stored }

func (o *Options) saturation() float64 {
	switch {
	case o.Saturation == 0:
		return defaultSaturation
	case o.Saturation < 0:
		return 0
	}
	return o.Saturation
}

// bytes uploads a matrix with a row for each column of the result.
func (u *uploader) bytes(rows, columns int, values []int8, scales []float32) gpukernels.ByteMatrix {
	m := gpukernels.ByteMatrix{Rows: rows, Columns: columns}
	if columns > gpukernels.MaxByteColumns && u.err == nil {
		u.err = fmt.Errorf("%w: it has a matrix with %d rows, which are too many for %v", ErrUnsupported, columns, u.w.device.as)
	}
	if u.err != nil {
		return m
	}
	stride := gpukernels.ByteStride(columns)
	padded := make([]int8, rows*stride)
	for i := range rows {
		copy(padded[i*stride:], values[i*columns:(i+1)*columns])
	}
	m.At, m.Scales = upload(u, padded), upload(u, scales)
	return m
}

// quantise returns the bytes and scales of a tensor with a row for each of n columns of the result; across says that it is stored with a
// column for each. Integers of matrices that are stored in 8 bits are as they are stored.
func (u *uploader) quantise(t *marian.Tensor, n, k int, across bool) (values []int8, scales []float32) {
	values, scales = make([]int8, n*k), make([]float32, n)
	if u.err != nil {
		return values, scales
	}
	if t.Type == marian.Intgemm8 && u.w.device.as.Products == gpukernels.Int8 {
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
	if u.w.device.as.Products == gpukernels.FP8 {
		gpukernels.RowsToFloat8(values, scales, floats, k)
		return values, scales
	}
	kernels.QuantizeTable(values, scales, floats, n, k, u.options.saturation())
	return values, scales
}

// A bytePart is columns of a product's result before which rows are quantised in the same way.
type bytePart struct {
	first, columns int
	multiplier     float32 // of the model; 0: each row has its own
}

// addPart adds columns to those that there are.
func (l *linear) addPart(columns int, multiplier float32) {
	first := 0
	if n := len(l.parts); n > 0 {
		last := &l.parts[n-1]
		if last.multiplier == multiplier {
			last.columns += columns
			return
		}
		first = last.first + last.columns
	}
	l.parts = append(l.parts, bytePart{first, columns, multiplier})
}

// known returns a multiplier that could be read.
func (u *uploader) known(multiplier float32, err error) float32 {
	if u.err == nil {
		u.err = err
	}
	return multiplier
}

// of returns what of a product with l belongs to the part.
func (part bytePart) of(l *linear, p gpukernels.Product) gpukernels.ByteProduct {
	weights := l.bytes
	weights.At, weights.Scales = cuda.Offset[int8](weights.At, part.first*gpukernels.ByteStride(weights.Columns)), cuda.Offset[float32](weights.Scales, part.first)
	weights.Rows = part.columns
	return gpukernels.ByteProduct{Weights: weights, Bias: cuda.Offset[float32](l.bias, part.first), Residual: part.columnsOf(p.Residual),
		Result: part.columnsOf(p.Result), Rectified: p.Rectified}
}

// columnsOf returns those columns of a matrix, of none nothing.
func (part bytePart) columnsOf(m gpukernels.Matrix) gpukernels.Matrix {
	if m.At == 0 {
		return m
	}
	if m.Stride == 0 {
		m.Stride = m.Columns
	}
	m.At, m.Columns = cuda.Offset[gpukernels.Half](m.At, part.first), part.columns
	return m
}

// quantised returns rows as bytes, made where the rows of a are quantised, with a multiplier or, if that is 0, one for each row.
func (s *Stepper) quantised(a *activations, from gpukernels.Matrix, multiplier float32) (gpukernels.ByteMatrix, error) {
	to, k := gpukernels.ByteMatrix{At: a.bytes, Scales: a.scales, Rows: from.Rows, Columns: from.Columns}, s.w.device.kernels
	if multiplier == 0 {
		return to, k.Quantise(a.stream, to, from)
	}
	return to, k.QuantiseFixed(a.stream, to, from, multiplier)
}

// runProduct runs a product with l, whose other operands are filled in.
func (s *Stepper) runProduct(a *activations, l *linear, p gpukernels.Product) error {
	if l.bytes.At == 0 {
		return s.multiplyBy(a.stream, l, p)
	}
	for _, part := range l.parts {
		product := part.of(l, p)
		var err error
		if product.X, err = s.quantised(a, p.X, part.multiplier); err != nil {
			return err
		}
		if err := s.w.device.kernels.ByteProduct(a.stream, product); err != nil {
			return err
		}
	}
	return nil
}

// chooseFrom runs the output layer over the rows o.X.
func (s *Stepper) chooseFrom(o gpukernels.Output) error {
	if table := s.w.bytes; table.At != 0 {
		x, err := s.quantised(&s.rowsOf, o.X, s.w.multiplier)
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
	if w.bytes.At == 0 {
		return k.Scores(s.stream, x, w.table, w.bias, to, w.vocabulary)
	}
	rows, err := s.quantised(&s.rowsOf, x, w.multiplier)
	if err != nil {
		return err
	}
	return k.ByteScores(s.stream, rows, w.bytes, w.bias, to)
}
