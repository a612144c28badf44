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

const (
	// sparsePad is how much longer than k the lists of a row are.
	sparsePad = 64
	// Most lists have a smaller place, since the stack has to be cleared.
	fewSparseK = 2 << 10
	// From fetchedRows on, the weights are brought into the second-level cache first, unless they are more than it can keep: the rows of
	// the matrix are in no order in which the processor would see them coming.
	fetchedRows, fetchedBytes = 16, 1 << 20
	// countedBytes is how many activations are counted in a call.
	countedBytes = 256 << 10
)

// sparseLists are the places of lists of activations.
type sparseLists struct {
	ks     []uint16
	values []uint8
}

// mulInt8Sparse multiplies with lists of activations if that pays, and returns how many multiply-accumulates that leaves out; false if it
// does not pay, or if an activation is negative.
func mulInt8Sparse(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) (leftOut int, done bool) {
	c := mulInt8Call{y: y, yStride: yStride, a: a, aStride: Int8Stride(w.K), aScales: aScales, w: w, bias: bias, floor: floorOf(act), level: cpu.Integer()}
	nonzero, ok := countNonzero(a[:rows*c.aStride])
	if !ok || !c.nonzeroShare(rows).pays(nonzero, rows*w.K) {
		return 0, false
	}
	if w.K <= fewSparseK {
		c.fewSparse(rows)
	} else {
		c.manySparse(rows)
	}
	return (rows*w.K - nonzero) * w.N, true
}

// countNonzero counts the activations that are something. It reports false if there is one below zero, which lists have no place for.
func countNonzero(a []uint8) (nonzero int, ok bool) {
	for len(a) > 0 {
		part := a[:min(len(a), countedBytes)]
		n, ok := countPart(part)
		if !ok {
			return 0, false
		}
		nonzero, a = nonzero+n, a[len(part):]
	}
	return nonzero, true
}

// countPart is countNonzero for what one call of assembly counts. It is not inlined, as mulInt8Call.call is not.
//
//go:noinline
func countPart(a []uint8) (nonzero int, ok bool) {
	nonzero, every := countInt8(&a[0], len(a))
	return nonzero, every == math.MaxUint32
}

//go:noinline
func (c *mulInt8Call) fewSparse(rows int) {
	var ks [fewSparseK + sparsePad]uint16
	var values [fewSparseK + sparsePad]uint8
	c.sparseRows(rows, sparseLists{ks[:], values[:]})
}

//go:noinline
func (c *mulInt8Call) manySparse(rows int) {
	var ks [maxSparseK + sparsePad]uint16
	var values [maxSparseK + sparsePad]uint8
	c.sparseRows(rows, sparseLists{ks[:], values[:]})
}

// sparseRows lists and multiplies a row after the other.
func (c *mulInt8Call) sparseRows(rows int, l sparseLists) {
	if size := len(c.w.sparse.weights); rows >= fetchedRows && size <= fetchedBytes {
		fetchInt8(&c.w.sparse.weights[0], size)
	}
	compress := c.level == cpu.AVX512VNNI && cpu.HasByteCompress()
	for row := range rows {
		a, n := &c.a[row*c.aStride], 0
		if compress {
			n = listInt8AVX512(&l.ks[0], &l.values[0], a, c.w.K)
		} else {
			n = listInt8AVX2(&l.ks[0], &l.values[0], a, c.w.K)
		}
		c.sparseRow(row, n, l)
	}
}

// sparseRow multiplies a row whose lists have n entries.
func (c *mulInt8Call) sparseRow(row, n int, l sparseLists) {
	for column := 0; column < c.w.N; {
		width := sparseStrip
		if c.level == cpu.AVX512VNNI && c.w.N-column >= sparseWide*sparseStrip {
			width = sparseWide * sparseStrip
		}
		strips := min(partsPerCall(callWork/2, 1, max(1, n)*width, 1), (c.w.N-column)/width)
		c.sparseStrips(row, n, column, width, strips, l)
		column += width * strips
	}
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

// nonzeroShare returns the share of activations for which lists pay.
func (c *mulInt8Call) nonzeroShare(rows int) nonzeroShare {
	if rows <= fewRows {
		return fewRowsShare
	}
	if share := c.w.sparse.share; share != 0 {
		return share
	}
	return manyRowsShare
}
