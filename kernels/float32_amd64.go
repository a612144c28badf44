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

// chunk multiplies rows with all panels, in blocks of nearly equal height.
func (c *mulFloat32Call) chunk(first, rows int) {
	limit := mulFloat32Rows
	if c.level == cpu.AVX2 {
		limit = mulFloat32RowsAVX2
	}
	p := 0
	if c.level != cpu.AVX2 && doublePays(rows, c.w.bytes(), c.w.doubleFrom) {
		p = c.doubles(first, rows)
	}
	b := cutBlocks(rows, limit)
	perCall := max(1, floatCallWork/(rows*c.w.K*float32Panel))
	for p*float32Panel < c.w.N {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, p, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, p, n, mask)
		p += n
	}
}

// doubles multiplies rows with the panels that are whole, two at a time, and returns with how many.
func (c *mulFloat32Call) doubles(first, rows int) int {
	b := cutBlocks(rows, mulFloat32RowsDouble)
	perCall := max(1, floatCallWork/(rows*c.w.K*2*float32Panel))
	all := c.w.N / (2 * float32Panel)
	for p := 0; p < all; {
		n := min(perCall, all-p)
		if b.higher > 0 {
			c.callDouble(b.height+1, b.higher, first, p, n)
		}
		c.callDouble(b.height, b.lower, first+b.split, p, n)
		p += n
	}
	return 2 * all
}

// callDouble is call for pairs of panels.
//
//go:noinline
func (c *mulFloat32Call) callDouble(height, blocks, row, pair, pairs int) {
	column := pair * 2 * float32Panel
	x, w, y := &c.x[row*c.xStride], &c.w.panels[column*c.w.K], &c.y[row*c.yStride+column]
	bias, biasStep := partBias(c.bias, column, 2*float32Panel)
	mulFloat32AVX512Double(height, x, 4*c.xStride, blocks, w, c.w.K, bias, biasStep, y, 4*c.yStride, pairs, c.floor)
}

// call multiplies blocks of one height, from a row on, with some panels. It is not inlined, so that its prologue lets the
// garbage collector in between two calls of assembly.
//
//go:noinline
func (c *mulFloat32Call) call(height, blocks, row, panel, panels int, mask uint32) {
	column := panel * float32Panel
	x, w, y := &c.x[row*c.xStride], &c.w.panels[column*c.w.K], &c.y[row*c.yStride+column]
	bias, biasStep := panelBias(c.bias, column)
	if c.level == cpu.AVX2 {
		mulFloat32AVX2(height, x, 4*c.xStride, blocks, w, c.w.K, bias, biasStep, y, 4*c.yStride, panels, c.floor, mask)
		return
	}
	mulFloat32AVX512(height, x, 4*c.xStride, blocks, w, c.w.K, bias, biasStep, y, 4*c.yStride, panels, c.floor, mask)
}
