//go:build !purego

package kernels

import (
	"math"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/internal/cpu"
)

const (
	bfloat16Rows     = mulFloat32Rows // most rows of a block in registers
	bfloat16CallWork = floatCallWork
)

// mostRows is how many rows a block in registers has at most.
func (c *bfloat16Call) mostRows() int {
	if c.level == cpu.AVX2 {
		return mulFloat32RowsAVX2
	}
	return bfloat16Rows
}

// multipliesNatively reports whether products are those of VDPBF16PS. Where they are not, operands are unpacked to float32.
func multipliesNatively() bool { return cpu.Integer() == cpu.AVX512VNNI && usesBF16() }

// usesBF16 reports whether VDPBF16PS is to be used: if the processor has it, if it computes what accumulateBFloat16Generic
// says (the manuals of its makers leave the roundings of its two products open), and if it is faster than unpacking to
// float32, which on Sapphire Rapids it is not.
var usesBF16 = sync.OnceValue(func() bool {
	return cpu.HasBF16() && nativeAgrees() && bfloat16Time(true) < bfloat16Time(false)
})

// probe is a product between whose sums every rounding matters.
func probe(y []float32, x []uint16, w *BFloat16Matrix, rows, k int) bfloat16Call {
	state := uint32(1)
	next := func() uint16 { // a linear congruential generator (Numerical Recipes)
		state = state*1664525 + 1013904223
		return uint16(0x3c80 + state>>16%0x600 | state>>30&1<<15) // of magnitudes 2^-6 to 2^6, both signs
	}
	for i := range x {
		x[i] = next()
	}
	w.resize(k, bfloat16Panel)
	for i := range w.panels {
		w.panels[i] = next()
	}
	return bfloat16Call{y: y, yStride: bfloat16Panel, x: x, stride: k, w: w, level: cpu.AVX512, native: true, floor: floorOf(None)}
}

// nativeAgrees compares VDPBF16PS with the reference.
func nativeAgrees() bool {
	const rows, k = 2, 512
	var w BFloat16Matrix
	y, want, x := make([]float32, rows*bfloat16Panel), make([]float32, rows*bfloat16Panel), make([]uint16, rows*k)
	c := probe(y, x, &w, rows, k)
	c.multiply(rows)
	accumulateBFloat16Generic(want, bfloat16Panel, x, rows, &w)
	for i := range y {
		if math.Float32bits(y[i]) != math.Float32bits(want[i]) {
			return false
		}
	}
	return true
}

// bfloat16Time returns how long a small product takes, with VDPBF16PS or without: the best of several.
func bfloat16Time(native bool) time.Duration {
	const rows, k = 2 * mulFloat32Rows, 512
	var w BFloat16Matrix
	c := probe(make([]float32, rows*bfloat16Panel), make([]uint16, rows*k), &w, rows, k)
	c.native = native
	best := time.Duration(math.MaxInt64)
	for range 20 {
		begin := time.Now()
		c.multiply(rows)
		best = min(best, time.Since(begin))
	}
	return best
}

// call adds to blocks of one height, from a row on, their products with some panels along a part of the pairs. See
// accumulateCall.call.
//
//go:noinline
func (c *bfloat16Call) call(height, blocks, row, from, pairs, panel, panels int, mask uint32) {
	column := panel * bfloat16Panel
	x, y := &c.x[row*c.stride+2*from], &c.y[row*c.yStride+column]
	w, wStep := &c.w.panels[(column*c.w.pairs+from*bfloat16Panel)*2], 4*bfloat16Panel*c.w.pairs
	yStride := 4 * c.yStride
	begin, beginStride, beginStep := y, yStride, 4*bfloat16Panel
	if c.begins {
		begin, beginStep = panelBias(c.bias, column)
		beginStride = 0
	}
	switch {
	case c.level == cpu.AVX2:
		accumulateBFloat16AVX2(height, x, 2*c.stride, 4, blocks, w, wStep, pairs, begin, beginStride, beginStep, y, yStride, panels, c.floor, mask)
	case c.native:
		accumulateBFloat16BF16(height, x, 2*c.stride, 4, blocks, w, wStep, pairs, begin, beginStride, beginStep, y, yStride, panels, c.floor, mask)
	default:
		accumulateBFloat16AVX512(height, x, 2*c.stride, 4, blocks, w, wStep, pairs, begin, beginStride, beginStep, y, yStride, panels, c.floor, mask)
	}
}

//go:noinline
func roundBFloat16Call(dst []uint16, x []float32, n int) {
	if cpu.Active() == cpu.AVX2 {
		roundBFloat16AVX2(&dst[0], &x[0], n)
		return
	}
	roundBFloat16AVX512(&dst[0], &x[0], n)
}

// packBFloat16Call packs pairs of rows that have all columns. It is not inlined, as mulFloat32Call.call is not.
//
//go:noinline
func packBFloat16Call(panel []uint16, b []float32, stride, pairs int) {
	if cpu.Active() == cpu.AVX2 {
		packBFloat16AVX2(&panel[0], &b[0], 4*stride, pairs)
		return
	}
	packBFloat16AVX512(&panel[0], &b[0], 4*stride, pairs)
}

// transposeWords writes the columns of blocks of eight rows of eight pairs as rows. Strides and steps are in elements.
func transposeWords(dst []uint16, dstStride, dstStep int, src []uint16, srcStride, srcStep, blocks int) {
	transposeWordsAVX2(&dst[0], 2*dstStride, 2*dstStep, &src[0], 2*srcStride, 2*srcStep, blocks)
}

// bfloat16Burst does about n multiply-accumulates on registers, those of the products, and returns how many.
func bfloat16Burst(n int) int {
	switch {
	case cpu.Active() == cpu.Generic:
		return bfloat16BurstProduct(n)
	case !multipliesNatively():
		return float32Burst(n)
	}
	const perTurn = 24 * 32
	turns := n/perTurn + 1
	bfloat16BurstBF16(turns)
	return turns * perTurn
}
