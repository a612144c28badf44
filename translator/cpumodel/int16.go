package cpumodel

import (
	"fmt"
	"math"
	"sync"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// Products in 16 bits.
//
// A sum of products has to fit into 31 bits, so that weights and activations of 16 bits each would be too many: with weights of
// magnitude W at most, in a column whose magnitudes sum up to W·H, activations may have the magnitude (2³¹-1)/(W·H). Weights
// that are quantised here get W = √((2³¹-1)/H), which leaves as much to the activations: about 12 bits with their signs for a few
// hundred rows. Weights that are stored in 16 bits stay as they are, and the activations get what is left. Each column of weights has
// its own scale, as has each row of activations. Marian multiplies both by 1024.
//
// Chosen rows of the output layer (those of a shortlist) are multiplied in float32, since each is read once for a hypothesis and
// needs no packing.

// maxInt16K is the largest number of rows of an int16 matrix: none of its columns can be too heavy for an activation of 1.
const maxInt16K = math.MaxInt32 >> 15

// packInt16 packs matrices as they are stored, if in 16 bits, or quantises them by column.
func packInt16(k int, pieces []model.Affine) (*kernels.Int16Matrix, error) {
	if k > maxInt16K {
		return nil, fmt.Errorf("parameter %s: %d rows are too many for int16", pieces[0].W.Name, k)
	}
	n, values := width(pieces), make([][]float32, len(pieces))
	heaviest := float32(1)
	for i, piece := range pieces {
		if piece.W.Type == marian.Intgemm16 {
			continue
		}
		var err error
		if values[i], err = piece.W.Float32(); err != nil {
			return nil, err
		}
		heaviest = max(heaviest, heaviestColumn(values[i], k, piece.Out))
	}
	largest := largestInt16(heaviest)
	joined, scales, first := make([]int16, k*n), make([]float32, n), 0
	for i, piece := range pieces {
		if values[i] != nil {
			quantiseColumns16(joined[first:], n, scales[first:], values[i], k, piece.Out, largest)
		} else if err := storedColumns16(joined[first:], n, scales[first:], piece); err != nil {
			return nil, err
		}
		first += piece.Out
	}
	return kernels.PackInt16(k, n, joined, scales), nil
}

// largestInt16 is what the largest weight of each column becomes, W for a given H.
func largestInt16(heaviest float32) float32 {
	return float32(min(math.MaxInt16, math.Floor(math.Sqrt(math.MaxInt32/float64(heaviest)))))
}

// storedColumns16 copies a matrix that is stored in 16 bits.
func storedColumns16(dst []int16, stride int, scales []float32, piece model.Affine) error {
	q, multiplier, err := piece.W.Int16()
	if err != nil {
		return err
	}
	for i := range piece.In {
		copy(dst[i*stride:], q[i*piece.Out:(i+1)*piece.Out])
	}
	for j := range piece.Out {
		scales[j] = 1 / multiplier
	}
	return nil
}

// heaviestColumn is the largest sum of the magnitudes of a column, in units of its largest magnitude.
func heaviestColumn(w []float32, k, n int) float32 {
	sums, largest := make([]float32, n), make([]float32, n)
	for i := range k {
		for j, v := range w[i*n : (i+1)*n] {
			magnitude := max(v, -v)
			sums[j] += magnitude
			largest[j] = max(largest[j], magnitude)
		}
	}
	heaviest := float32(1)
	for j, sum := range sums {
		if ratio := sum / largest[j]; ratio <= math.MaxFloat32 { // not for a column of zeros
			heaviest = max(heaviest, ratio)
		}
	}
	return heaviest
}

// quantiseColumns16 quantises a k×n row-major matrix with a scale for each column, so that its largest magnitude becomes largest,
// and writes it into dst, whose rows have stride elements.
func quantiseColumns16(dst []int16, stride int, scales []float32, w []float32, k, n int, largest float32) {
	multipliers := make([]float32, n)
	for i := range k {
		for j, v := range w[i*n : (i+1)*n] {
			multipliers[j] = max(multipliers[j], v, -v)
		}
	}
	for j, limit := range multipliers {
		scales[j], multipliers[j] = limit/largest, largest/limit
		if !(multipliers[j] <= math.MaxFloat32) { // so small that there is no inverse
			scales[j], multipliers[j] = 0, 0
		}
	}
	for i := range k {
		row, out := w[i*n:(i+1)*n], dst[i*stride:i*stride+n]
		for j, v := range row {
			out[j] = int16(math.RoundToEven(float64(max(-largest, min(largest, v*multipliers[j])))))
		}
	}
}

// packInt16 readies the output layer for products in 16 bits over the whole vocabulary. Chosen rows stay in float32.
func (o *output) packInt16(from *model.Output) error {
	if err := o.packFloat32(from); err != nil {
		return err
	}
	o.int16 = sync.OnceValue(func() *kernels.Int16Matrix {
		columns := transpose(o.float.values, o.n, o.dim)
		q, scales := make([]int16, len(columns)), make([]float32, o.n)
		quantiseColumns16(q, o.n, scales, columns, o.dim, o.n, largestInt16(heaviestColumn(columns, o.dim, o.n)))
		return kernels.PackInt16(o.dim, o.n, q, scales)
	})
	return nil
}

// fillBlockInt16 is fillBlock in 16 bits.
func (s *Stepper) fillBlockInt16(first, n int) {
	o, dim := &s.w.output, s.w.dim
	w := o.int16()
	s.operand.set(s.top[first*dim:], n, dim)
	s.operand.quantise16(w.Limit)
	m := multiplication{y: s.scores.block, stride: o.n, words: s.operand.words, scales: s.operand.wordScales, rows: n, bias: o.bias}
	s.mulBy(&m, &columns{end: o.n, int16: w}, dim)
}

// quantise16 makes the form of 16 bits whose largest magnitude is limit.
func (o *operand) quantise16(limit int) {
	if o.limit == limit {
		return
	}
	words := kernels.Int16Stride(o.k)
	o.words, o.wordScales = grow(o.words, o.rows*words), grow(o.wordScales, o.rows)
	o.each(func(first, rows int, x []float32) {
		kernels.QuantizeRowsInt16(o.words[first*words:], o.wordScales[first:], x, rows, o.k, limit)
	})
	o.limit = limit
}
