//go:build !purego

package kernels

import (
	"math"
	"sync"
	"time"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// bfloat16Call is what the calls of assembly for one product have in common.
type bfloat16Call struct {
	y       []float32
	yStride int
	x       []uint16
	stride  int // elements from row to row of x
	w       *BFloat16Matrix
	level   cpu.Level
	native  bool // with VDPBF16PS
}

func accumulateBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	level := cpu.Active()
	if level == cpu.Generic {
		accumulateBFloat16Generic(y, yStride, x, rows, w)
		return
	}
	c := bfloat16Call{y, yStride, x, BFloat16Stride(w.K), w, level, cpu.Integer() == cpu.AVX512VNNI && usesBF16()}
	c.multiply(rows)
}

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
	return bfloat16Call{y, bfloat16Panel, x, k, w, cpu.AVX512, true}
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

// multiply adds the products, a part of k after the other.
func (c *bfloat16Call) multiply(rows int) {
	for from := 0; from < c.w.pairs; {
		pairs := evenPart(c.w.pairs-from, accumulateK)
		chunk := max(mulFloat32Chunk/(4*pairs), 2*mulFloat32Rows)
		for first := 0; first < rows; {
			n := evenPart(rows-first, chunk)
			c.chunk(first, n, from, pairs)
			first += n
		}
		from += pairs
	}
}

// chunk multiplies a part of the rows, in blocks of nearly equal height, with all panels along a part of the pairs.
func (c *bfloat16Call) chunk(first, rows, from, pairs int) {
	limit := mulFloat32Rows
	if c.level == cpu.AVX2 {
		limit = mulFloat32RowsAVX2
	}
	b := cutBlocks(rows, limit)
	perCall := partsPerCall(floatCallWork, rows, 2*pairs*bfloat16Panel, 2)
	for p := 0; p*bfloat16Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, from, pairs, p, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, from, pairs, p, n, mask)
		p += n
	}
}

// call adds to blocks of one height, from a row on, their products with some panels along a part of the pairs. See
// accumulateCall.call.
//
//go:noinline
func (c *bfloat16Call) call(height, blocks, row, from, pairs, panel, panels int, mask uint32) {
	column := panel * bfloat16Panel
	x, y := &c.x[row*c.stride+2*from], &c.y[row*c.yStride+column]
	w, wStep := &c.w.panels[(column*c.w.pairs+from*bfloat16Panel)*2], 4*bfloat16Panel*c.w.pairs
	switch {
	case c.level == cpu.AVX2:
		accumulateBFloat16AVX2(height, x, 2*c.stride, 4, blocks, w, wStep, pairs, y, 4*c.yStride, panels, mask)
	case c.native:
		accumulateBFloat16BF16(height, x, 2*c.stride, 4, blocks, w, wStep, pairs, y, 4*c.yStride, panels, mask)
	default:
		accumulateBFloat16AVX512(height, x, 2*c.stride, 4, blocks, w, wStep, pairs, y, 4*c.yStride, panels, mask)
	}
}
