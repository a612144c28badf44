//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const (
	mulFloat32Rows, mulFloat32RowsAVX2, mulFloat32RowsDouble = 12, 6, 6 // most rows of a block in registers

	mulFloat32Chunk = 256 << 10 // bytes of activations that stay in the second-level cache while all panels pass
	floatCallWork   = callWork / 4
)

// mulFloat32Call is what the calls of assembly for one product have in common.
type mulFloat32Call struct {
	y       []float32
	yStride int
	x       []float32
	xStride int
	w       *Float32Matrix
	bias    []float32
	floor   float32
	level   cpu.Level
}

func mulFloat32(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix, bias []float32, act Activation) {
	level := cpu.Active()
	if level == cpu.Generic || w.K == 0 {
		mulFloat32Generic(y, yStride, x, xStride, rows, w, bias, act)
		return
	}
	c := mulFloat32Call{y, yStride, x, xStride, w, bias, floorOf(act), level}
	chunk := max(mulFloat32Chunk/(4*w.K), 2*mulFloat32Rows)
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		c.chunk(first, n)
		first += n
	}
}

// chunk multiplies rows with all panels, two at a time where that pays.
func (c *mulFloat32Call) chunk(first, rows int) {
	limit, column := mulFloat32Rows, 0
	if c.level == cpu.AVX2 {
		limit = mulFloat32RowsAVX2
	} else if doublePays(rows, c.w.bytes(), c.w.doubleFrom) {
		column = wholePairs(c.w.N)
		c.pairs(first, rows, column)
	}
	c.panels(first, rows, column, limit)
}

// pairs multiplies rows with the first columns, two whole panels at a time, in blocks of nearly equal height.
func (c *mulFloat32Call) pairs(first, rows, columns int) {
	const width = 2 * float32Panel
	b := cutBlocks(rows, mulFloat32RowsDouble)
	perCall := partsPerCall(floatCallWork, rows, c.w.K*width, 4)
	for pair := 0; pair*width < columns; {
		n, _ := nextParts(pair, perCall, columns, width)
		c.callPairs(b, first, pair*width, n)
		pair += n
	}
}

// panels multiplies rows with the columns from one on, a panel at a time, in blocks of nearly equal height.
func (c *mulFloat32Call) panels(first, rows, column, limit int) {
	b := cutBlocks(rows, limit)
	perCall := partsPerCall(floatCallWork, rows, c.w.K*float32Panel, 4)
	for panel := column / float32Panel; panel*float32Panel < c.w.N; {
		n, mask := nextPanels(panel, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, panel*float32Panel, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, panel*float32Panel, n, mask)
		panel += n
	}
}

// callPairs multiplies blocks, from a row and a column on, with some pairs of panels. It is not inlined, so that its prologue lets the garbage
// collector in between two calls of assembly.
//
//go:noinline
func (c *mulFloat32Call) callPairs(b blocks, row, column, pairs int) {
	bias, biasStep := partBias(c.bias, column, 2*float32Panel)
	mulFloat32AVX512Double(b.height, b.higher, b.lower, &c.x[row*c.xStride], 4*c.xStride, &c.w.panels[column*c.w.K], c.w.K, bias, biasStep,
		&c.y[row*c.yStride+column], 4*c.yStride, pairs, c.floor)
}

// call multiplies blocks of one height, from a row and a column on, with some panels. It is not inlined either.
//
//go:noinline
func (c *mulFloat32Call) call(height, blocks, row, column, panels int, mask uint32) {
	x, w, y := &c.x[row*c.xStride], &c.w.panels[column*c.w.K], &c.y[row*c.yStride+column]
	bias, biasStep := panelBias(c.bias, column)
	if c.level == cpu.AVX2 {
		mulFloat32AVX2(height, x, 4*c.xStride, blocks, w, c.w.K, bias, biasStep, y, 4*c.yStride, panels, c.floor, mask)
		return
	}
	mulFloat32AVX512(height, x, 4*c.xStride, blocks, w, c.w.K, bias, biasStep, y, 4*c.yStride, panels, c.floor, mask)
}
