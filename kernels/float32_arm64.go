//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const (
	mulFloat32Rows = 6 // most rows of a block in registers

	mulFloat32Chunk = 128 << 10 // bytes of activations that stay in the second-level cache while all panels pass
	floatCallWork   = callWork / 4
	accumulateK     = 512 // how far along k a product goes before it continues with the next rows, see accumulate_amd64.go
)

// floatTile holds the results of a block for a panel of which some columns do not exist.
type floatTile [mulFloat32Rows * float32Panel]float32

// mulFloat32Call is what the calls of assembly for one product have in common.
type mulFloat32Call struct {
	y       []float32
	yStride int
	x       []float32
	xStride int
	w       *Float32Matrix
	bias    []float32
	floor   float32
}

func mulFloat32(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix, bias []float32, act Activation) {
	if cpu.Active() == cpu.Generic || w.K == 0 {
		mulFloat32Generic(y, yStride, x, xStride, rows, w, bias, act)
		return
	}
	c := mulFloat32Call{y, yStride, x, xStride, w, bias, floorOf(act)}
	chunk := max(mulFloat32Chunk/(4*w.K), 2*mulFloat32Rows)
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		c.chunk(first, n)
		first += n
	}
}

// chunk multiplies rows with all panels, in blocks of nearly equal height.
func (c *mulFloat32Call) chunk(first, rows int) {
	b := cutBlocks(rows, mulFloat32Rows)
	perCall := partsPerCall(floatCallWork, rows, c.w.K*float32Panel, 4)
	for p := 0; p*float32Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, p, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, p, n, mask)
		p += n
	}
}

// call multiplies blocks of one height, from a row on, with some panels: whole ones, or an incomplete one. It is not
// inlined, so that its prologue lets the garbage collector in between two calls of assembly.
//
//go:noinline
func (c *mulFloat32Call) call(height, blocks, row, panel, panels int, mask uint32) {
	column := panel * float32Panel
	w := &c.w.panels[column*c.w.K]
	if mask == ^uint32(0) {
		bias, biasStep := panelBias(c.bias, column)
		mulFloat32NEON(height, &c.x[row*c.xStride], 4*c.xStride, blocks, w, c.w.K, bias, biasStep, &c.y[row*c.yStride+column], 4*c.yStride, panels, c.floor)
		return
	}
	var tile floatTile
	var bias [float32Panel]float32
	if c.bias != nil {
		copy(bias[:], c.bias[column:c.w.N])
	}
	for range blocks {
		mulFloat32NEON(height, &c.x[row*c.xStride], 4*c.xStride, 1, w, c.w.K, &bias[0], 0, &tile[0], 4*float32Panel, 1, c.floor)
		for r := range height {
			copy(c.y[row*c.yStride+column:][:c.w.N-column], tile[r*float32Panel:])
			row++
		}
	}
}

// accumulateCall is what the calls of assembly for one product have in common. Steps are in elements.
type accumulateCall struct {
	y              []float32
	yStride        int
	x              []float32
	rowStep, kStep int
	w              *Float32Matrix
}

func accumulateFloat32(y []float32, yStride int, x []float32, rowStep, kStep, rows int, w *Float32Matrix) {
	if cpu.Active() == cpu.Generic {
		accumulateFloat32Generic(y, yStride, x, rowStep, kStep, rows, w)
		return
	}
	c := accumulateCall{y, yStride, x, rowStep, kStep, w}
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
	b := cutBlocks(rows, mulFloat32Rows)
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

// call adds to blocks of one height, from a row on, their products with some panels along a part of k. See
// mulFloat32Call.call.
//
//go:noinline
func (c *accumulateCall) call(height, blocks, row, from, k, panel, panels int, mask uint32) {
	column := panel * float32Panel
	w, wStep := &c.w.panels[column*c.w.K+from*float32Panel], 4*float32Panel*c.w.K
	x := c.x[from*c.kStep:]
	if mask == ^uint32(0) {
		accumulateFloat32NEON(height, &x[row*c.rowStep], 4*c.rowStep, 4*c.kStep, blocks, w, wStep, k, &c.y[row*c.yStride+column], 4*c.yStride, panels)
		return
	}
	var tile floatTile
	for range blocks {
		for r := range height {
			copy(tile[r*float32Panel:], c.y[(row+r)*c.yStride+column:][:c.w.N-column])
		}
		accumulateFloat32NEON(height, &x[row*c.rowStep], 4*c.rowStep, 4*c.kStep, 1, w, wStep, k, &tile[0], 4*float32Panel, 1)
		for r := range height {
			copy(c.y[row*c.yStride+column:][:c.w.N-column], tile[r*float32Panel:])
			row++
		}
	}
}
