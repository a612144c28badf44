//go:build !purego

package kernels

import (
	"math"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// packsSparse reports whether there are kernels for lists of activations.
func packsSparse() bool { return cpu.Integer() != cpu.Generic }

// sparsePlace is where, in a row of int8Sparse, the weight of a column is. Four rows of a register's bytes are interleaved into four registers
// of columns, but only within each 16 bytes: the first has the first four columns of each sixteen, the second the next four. Columns come out in
// their order if the weights were stored so that this undoes it.
func sparsePlace(column int) int {
	sixteens := 2 // of a register
	if cpu.Integer() == cpu.AVX512VNNI {
		sixteens = 4
	}
	// registers × sixteens × 4 come from sixteens × registers × 4
	register, sixteen := column/(4*sixteens)%4, column/4%sixteens
	return column/(16*sixteens)*(16*sixteens) + 16*sixteen + 4*register + column%4
}

// countPart is countNonzero for what one call of assembly counts. It is not inlined, as mulInt8Call.call is not.
//
//go:noinline
func countPart(a []uint8) (nonzero int, ok bool) {
	nonzero, every := countInt8(&a[0], len(a))
	return nonzero, every == math.MaxUint32
}

// list fills the lists of a row, and returns how many entries they have.
func (c *mulInt8Call) list(row int, l sparseLists) (n int) {
	if c.level == cpu.AVX512VNNI && cpu.HasByteCompress() {
		return listInt8AVX512(&l.ks[0], &l.values[0], &c.a[row*c.aStride], c.w.K)
	}
	return listInt8AVX2(&l.ks[0], &l.values[0], &c.a[row*c.aStride], c.w.K)
}

// sparseWidth is how many columns are multiplied together from one on.
func (c *mulInt8Call) sparseWidth(column int) int {
	if c.level == cpu.AVX512VNNI && c.w.N-column >= sparseWide*sparseStrip {
		return sparseWide * sparseStrip
	}
	return sparseStrip
}

// sparseStrips multiplies a row with strips of columns. It is not inlined, as mulInt8Call.call is not.
//
//go:noinline
func (c *mulInt8Call) sparseStrips(row, n, column, width, strips int, l sparseLists) {
	w, stride, a, scales := &c.w.sparse.weights[column], c.w.sparse.stride, &c.aScales[row], &c.w.scales[column]
	bias, biasStep := partBias(c.bias, column, sparseStrip)
	y, quads := &c.y[row*c.yStride+column], (n+3)/4
	switch {
	case width > sparseStrip:
		mulInt8SparseAVX512Wide(quads, &l.ks[0], &l.values[0], w, stride, a, scales, bias, biasStep, y, strips, c.floor)
	case c.level == cpu.AVX512VNNI:
		mulInt8SparseAVX512(quads, &l.ks[0], &l.values[0], w, stride, a, scales, bias, biasStep, y, strips, c.floor)
	default:
		mulInt8SparseAVX2(quads, &l.ks[0], &l.values[0], w, stride, a, scales, bias, biasStep, y, strips, c.floor)
	}
}

const (
	// fewRowsShare is for which share of activations lists pay where a product takes as long as its weights take to be read: lists read that
	// share of them, in pieces.
	fewRowsShare nonzeroShare = 700
	// manyRowsShare is for which share they pay otherwise, if a Tuning does not know better: less than on any processor that was measured.
	manyRowsShare nonzeroShare = 200
)
