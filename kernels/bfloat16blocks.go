//go:build (amd64 || arm64) && !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// bfloat16Call is what the calls of assembly for one product have in common.
type bfloat16Call struct {
	y       []float32
	yStride int
	x       []uint16
	stride  int // elements from row to row of x
	w       *BFloat16Matrix
	level   cpu.Level
	native  bool // with the processor's own instruction

	begins bool // sums begin at the bias, which may be nil; otherwise at what y contains
	bias   []float32
	floor  float32 // what results are at least
}

func accumulateBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	if cpu.Active() == cpu.Generic {
		accumulateBFloat16Generic(y, yStride, x, rows, w)
		return
	}
	c := newBFloat16Call(y, yStride, x, w)
	c.multiply(rows)
}

func mulBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix, bias []float32, act Activation) {
	if cpu.Active() == cpu.Generic || w.K == 0 {
		mulBFloat16Generic(y, yStride, x, rows, w, bias, act)
		return
	}
	c := newBFloat16Call(y, yStride, x, w)
	c.begins, c.bias, c.floor = true, bias, floorOf(act)
	c.part(rows, 0, w.pairs)
}

// newBFloat16Call is a product that is added to y, with the fastest instructions that may be used.
func newBFloat16Call(y []float32, yStride int, x []uint16, w *BFloat16Matrix) bfloat16Call {
	return bfloat16Call{
		y: y, yStride: yStride, x: x, stride: BFloat16Stride(w.K), w: w, floor: floorOf(None),
		level: cpu.Active(), native: multipliesNatively(),
	}
}

// multiply adds the products, a part of k after the other.
func (c *bfloat16Call) multiply(rows int) {
	for from := 0; from < c.w.pairs; {
		pairs := evenPart(c.w.pairs-from, accumulateK)
		c.part(rows, from, pairs)
		from += pairs
	}
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
	b := cutBlocks(rows, c.mostRows())
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
