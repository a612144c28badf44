//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const (
	bfloat16Rows = 4 // most rows of a block in registers

	// bfloat16CallWork is half of floatCallWork: a block that is done again, because results of it were denormal, takes about eight times as long.
	bfloat16CallWork = floatCallWork / 2
)

// bfloat16Call is what the calls of assembly for one product have in common.
type bfloat16Call struct {
	y       []float32
	yStride int
	x       []uint16
	stride  int // elements from row to row of x
	w       *BFloat16Matrix

	begins bool // sums begin at the bias, which may be nil; otherwise at what y contains
	bias   []float32
	floor  float32 // what results are at least
}

func accumulateBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	if cpu.Active() == cpu.Generic {
		accumulateBFloat16Generic(y, yStride, x, rows, w)
		return
	}
	c := bfloat16Call{y: y, yStride: yStride, x: x, stride: BFloat16Stride(w.K), w: w, floor: floorOf(None)}
	for from := 0; from < w.pairs; {
		pairs := evenPart(w.pairs-from, accumulateK)
		c.part(rows, from, pairs)
		from += pairs
	}
}

func mulBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix, bias []float32, act Activation) {
	if cpu.Active() == cpu.Generic || w.K == 0 {
		mulBFloat16Generic(y, yStride, x, rows, w, bias, act)
		return
	}
	c := bfloat16Call{y: y, yStride: yStride, x: x, stride: BFloat16Stride(w.K), w: w, begins: true, bias: bias, floor: floorOf(act)}
	c.part(rows, 0, w.pairs)
}

// part multiplies rows along a part of the pairs.
func (c *bfloat16Call) part(rows, from, pairs int) {
	chunk := max(mulFloat32Chunk/(4*pairs), 2*bfloat16Rows)
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		c.chunk(first, n, from, pairs)
		first += n
	}
}

// chunk multiplies a part of the rows, in blocks of nearly equal height, with all panels along a part of the pairs.
func (c *bfloat16Call) chunk(first, rows, from, pairs int) {
	b := cutBlocks(rows, bfloat16Rows)
	perCall := partsPerCall(bfloat16CallWork, rows, 2*pairs*bfloat16Panel, 2)
	for p := 0; p*bfloat16Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, from, pairs, p, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, from, pairs, p, n, mask)
		p += n
	}
}

// call multiplies blocks of one height, from a row on, with some panels along a part of the pairs: whole panels, or an incomplete one. See
// mulFloat32Call.call.
//
//go:noinline
func (c *bfloat16Call) call(height, blocks, row, from, pairs, panel, panels int, mask uint32) {
	if mask != ^uint32(0) {
		c.incomplete(height, blocks, row, from, pairs, panel)
		return
	}
	column := panel * bfloat16Panel
	y, yStride := &c.y[row*c.yStride+column], 4*c.yStride
	begin, beginStride, beginStep := y, yStride, 4*bfloat16Panel
	if c.begins {
		begin, beginStep = panelBias(c.bias, column)
		beginStride = 0
	}
	c.assembly(height, blocks, row, from, pairs, column, begin, beginStride, beginStep, y, yStride, panels)
}

// incomplete multiplies with the last panel, of which some columns do not exist: block by block, by way of a whole tile.
func (c *bfloat16Call) incomplete(height, blocks, row, from, pairs, panel int) {
	var tile [bfloat16Rows * bfloat16Panel]float32
	column := panel * bfloat16Panel
	for range blocks {
		for r := range height {
			begin := c.y[(row+r)*c.yStride+column:][:c.w.N-column]
			if c.begins {
				begin = noBias[:c.w.N-column]
				if c.bias != nil {
					begin = c.bias[column:c.w.N]
				}
			}
			copy(tile[r*bfloat16Panel:], begin)
		}
		const stride = 4 * bfloat16Panel
		c.assembly(height, 1, row, from, pairs, column, &tile[0], stride, stride, &tile[0], stride, 1)
		for r := range height {
			copy(c.y[row*c.yStride+column:][:c.w.N-column], tile[r*bfloat16Panel:])
			row++
		}
	}
}

// assembly multiplies blocks from a row on with panels from a column on. Strides and steps are in bytes.
func (c *bfloat16Call) assembly(height, blocks, row, from, pairs, column int, begin *float32, beginStride, beginStep int, y *float32, yStride, panels int) {
	x, w := &c.x[row*c.stride+2*from], &c.w.panels[(column*c.w.pairs+from*bfloat16Panel)*2]
	accumulateBFloat16NEON(height, x, 2*c.stride, blocks, w, 4*bfloat16Panel*c.w.pairs, pairs, begin, beginStride, beginStep, y, yStride, panels, c.floor)
}

// roundToBFloat16 rounds as many elements as dst has: all but the last ones with assembly.
func roundToBFloat16(dst []uint16, x []float32) {
	for n := wholePart(len(dst), 16); n > 0; n = wholePart(len(dst), 16) {
		roundBFloat16Call(dst, x, n)
		dst, x = dst[n:], x[n:]
	}
	roundToBFloat16Generic(dst, x)
}

//go:noinline
func roundBFloat16Call(dst []uint16, x []float32, n int) { roundBFloat16NEON(&dst[0], &x[0], n) }

// packBFloat16Call packs pairs of rows that have all columns. It is not inlined, as mulFloat32Call.call is not.
//
//go:noinline
func packBFloat16Call(panel []uint16, b []float32, stride, pairs int) {
	packBFloat16NEON(&panel[0], &b[0], 4*stride, pairs)
}

// transposeWords writes the columns of blocks of eight rows of eight pairs as rows. Strides and steps are in elements.
func transposeWords(dst []uint16, dstStride, dstStep int, src []uint16, srcStride, srcStep, blocks int) {
	transposeWordsNEON(&dst[0], 2*dstStride, 2*dstStep, &src[0], 2*srcStride, 2*srcStep, blocks)
}

func dotRowsBFloat16(y, x []float32, t *BFloat16Rows, ids []int32, bias []float32) {
	if !hasDots(t.K) {
		dotRowsBFloat16Generic(y, x, t, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWorkNEON/t.K))
		dotRowsBFloat16Call(y, x, t, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsBFloat16Call(y, x []float32, t *BFloat16Rows, ids []int32, bias []float32) {
	dotsBFloat16NEON(&y[0], &x[0], &t.rows[0], &ids[0], 2*t.stride, len(ids), t.K)
	for i, id := range ids {
		y[i] += biasAt(bias, int(id))
	}
}

// bfloat16Burst does about n multiply-accumulates of bfloat16 and returns how many.
func bfloat16Burst(n int) int { return bfloat16BurstProduct(n) }
