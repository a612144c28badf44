//go:build !purego

package kernels

const (
	bfloat16Rows = 4 // most rows of a block in registers

	// bfloat16CallWork is half of floatCallWork: a block that is done again, because results of it were denormal, takes about eight times as long.
	bfloat16CallWork = floatCallWork / 2
)

// mostRows is how many rows a block in registers has at most.
func (c *bfloat16Call) mostRows() int { return bfloat16Rows }

// multipliesNatively reports whether products are those of an instruction for bfloat16: none, since BFDOT rounds in another way.
func multipliesNatively() bool { return false }

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
