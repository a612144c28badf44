//go:build (amd64 || arm64) && !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const (
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
	for row := range rows {
		c.sparseRow(row, c.list(row, l), l)
	}
}

// sparseRow multiplies a row whose lists have n entries.
func (c *mulInt8Call) sparseRow(row, n int, l sparseLists) {
	for column := 0; column < c.w.N; {
		width := c.sparseWidth(column)
		strips := min(partsPerCall(callWork/2, 1, max(1, n)*width, 1), (c.w.N-column)/width)
		c.sparseStrips(row, n, column, width, strips, l)
		column += width * strips
	}
}

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
