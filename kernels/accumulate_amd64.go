//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// accumulateK is how far along k a product goes before it continues with the next rows: 32 columns of that many weights
// stay in the second-level cache beside the activations.
const accumulateK = 512

// accumulateCall is what the calls of assembly for one product have in common. Steps are in elements.
type accumulateCall struct {
	y              []float32
	yStride        int
	x              []float32
	rowStep, kStep int
	w              *Float32Matrix
	level          cpu.Level
}

func accumulateFloat32(y []float32, yStride int, x []float32, rowStep, kStep, rows int, w *Float32Matrix) {
	level := cpu.Active()
	if level == cpu.Generic {
		accumulateFloat32Generic(y, yStride, x, rowStep, kStep, rows, w)
		return
	}
	c := accumulateCall{y, yStride, x, rowStep, kStep, w, level}
	for from := 0; from < w.K; {
		k := evenPart(w.K-from, accumulateK)
		chunk := max(mulFloat32Chunk/(4*k), 2*mulFloat32Rows)
		for first := 0; first < rows; {
			n := evenPart(rows-first, chunk)
			c.chunk(first, n, from, k)
			first += n
		}
		from += k
	}
}

// chunk multiplies a part of the rows, in blocks of nearly equal height, with all panels along a part of k.
func (c *accumulateCall) chunk(first, rows, from, k int) {
	limit := mulFloat32Rows
	if c.level == cpu.AVX2 {
		limit = mulFloat32RowsAVX2
	}
	b := cutBlocks(rows, limit)
	perCall := partsPerCall(floatCallWork, rows, k*float32Panel, 4)
	for p := 0; p*float32Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, from, k, p, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, from, k, p, n, mask)
		p += n
	}
}

// call adds to blocks of one height, from a row on, their products with some panels along a part of k. It is not inlined,
// so that its prologue lets the garbage collector in between two calls of assembly.
//
//go:noinline
func (c *accumulateCall) call(height, blocks, row, from, k, panel, panels int, mask uint32) {
	column := panel * float32Panel
	x, y := &c.x[row*c.rowStep+from*c.kStep], &c.y[row*c.yStride+column]
	w, wStep := &c.w.panels[column*c.w.K+from*float32Panel], 4*float32Panel*c.w.K
	yStride, floor := 4*c.yStride, floorOf(None)
	if c.level == cpu.AVX2 {
		accumulateFloat32AVX2(height, x, 4*c.rowStep, 4*c.kStep, blocks, w, wStep, k, y, yStride, 4*float32Panel, y, yStride, panels, floor, mask)
		return
	}
	accumulateFloat32AVX512(height, x, 4*c.rowStep, 4*c.kStep, blocks, w, wStep, k, y, yStride, 4*float32Panel, y, yStride, panels, floor, mask)
}
