//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// packsSparse reports whether there are kernels for lists of activations: without SDOT, sums of bytes take too long to be worth it.
func packsSparse() bool { return cpu.Integer() >= cpu.SDOT }

// sparsePlace is where, in a row of int8Sparse, the weight of a column is: ZIP1 and ZIP2 leave columns in their order.
func sparsePlace(column int) int { return column }

// countPart is countNonzero for what one call of assembly counts. It is not inlined, as mulInt8Call.call is not.
//
//go:noinline
func countPart(a []uint8) (nonzero int, ok bool) {
	nonzero = countInt8NEON(&a[0], len(a))
	return nonzero, nonzero >= 0
}

// list fills the lists of a row, and returns how many entries they have. NEON cannot bring together what is chosen of a vector.
func (c *mulInt8Call) list(row int, l sparseLists) (n int) {
	return listInt8Generic(l.ks, l.values, c.a[row*c.aStride:][:c.w.K])
}

// sparseWidth is how many columns are multiplied together from one on.
func (c *mulInt8Call) sparseWidth(int) int { return sparseStrip }

// sparseStrips multiplies a row with strips of columns. It is not inlined, as mulInt8Call.call is not.
//
//go:noinline
func (c *mulInt8Call) sparseStrips(row, n, column, _, strips int, l sparseLists) {
	bias, biasStep := partBias(c.bias, column, sparseStrip)
	mulInt8SparseSDOT((n+3)/4, &l.ks[0], &l.values[0], &c.w.sparse.weights[column], c.w.sparse.stride, &c.aScales[row], &c.w.scales[column], bias, biasStep,
		&c.y[row*c.yStride+column], strips, c.floor)
}

// No ARM processor was measured. To bring four rows of weights together takes two instructions for each one that multiplies them, so that lists
// cannot pay for more than a third of the activations, or a sixth where SMMLA multiplies all of them. These rules stay below that; for many rows
// a Tuning knows better.
const (
	// fewRowsShare is for which share of activations lists pay for one or two rows, which load all weights for themselves.
	fewRowsShare nonzeroShare = 250
	// manyRowsShare is for which share they pay otherwise.
	manyRowsShare nonzeroShare = 100
)
