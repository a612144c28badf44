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
		c.columns(first, rows, 0, column, 2*float32Panel, mulFloat32RowsDouble)
	}
	c.columns(first, rows, column, c.w.N, float32Panel, limit)
}

// columns multiplies rows with some columns, a panel or two of the given width at a time, in blocks of nearly equal height.
func (c *mulFloat32Call) columns(first, rows, column, end, width, limit int) {
	b := cutBlocks(rows, limit)
	perCall := partsPerCall(floatCallWork, rows, c.w.K*width, 4)
	for part := column / width; part*width < end; {
		n, mask := nextParts(part, perCall, end, width)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, part*width, n, width, mask)
		}
		c.call(b.height, b.lower, first+b.split, part*width, n, width, mask)
		part += n
	}
}

// call multiplies blocks of one height, from a row and a column on, with some parts of the given width. It is not inlined, so that its
// prologue lets the garbage collector in between two calls of assembly.
//
//go:noinline
func (c *mulFloat32Call) call(height, blocks, row, column, parts, width int, mask uint32) {
	x, w, y := &c.x[row*c.xStride], &c.w.panels[column*c.w.K], &c.y[row*c.yStride+column]
	bias, biasStep := partBias(c.bias, column, width)
	switch {
	case width > float32Panel:
		mulFloat32AVX512Double(height, x, 4*c.xStride, blocks, w, c.w.K, bias, biasStep, y, 4*c.yStride, parts, c.floor)
	case c.level == cpu.AVX2:
		mulFloat32AVX2(height, x, 4*c.xStride, blocks, w, c.w.K, bias, biasStep, y, 4*c.yStride, parts, c.floor, mask)
	default:
		mulFloat32AVX512(height, x, 4*c.xStride, blocks, w, c.w.K, bias, biasStep, y, 4*c.yStride, parts, c.floor, mask)
	}
}
