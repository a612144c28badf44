//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

const (
	// mulInt8Rows and mulInt8RowsAVX2 are the most rows of a block in registers.
	mulInt8Rows, mulInt8RowsAVX2 = 12, 6
	// mulInt8Chunk is about how many bytes of activations stay in the second-level cache while all panels pass.
	mulInt8Chunk = 256 << 10
	// callWork bounds the multiply-accumulates of one call of assembly to some 10 to 50 µs: the garbage collector cannot
	// interrupt assembly, it waits for it.
	callWork = 4 << 20
)

// noBias is the bias of a panel without one.
var noBias [int8Panel]float32

// mulInt8Call is what the blocks of one chunk of rows have in common.
type mulInt8Call struct {
	w        *Int8Matrix
	bias     *float32
	biasStep int
	y        unsafe.Pointer
	yStride  int // bytes
	aStride  int
	floor    float32
	level    cpu.Level
}

func mulInt8(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) {
	level := cpu.Active()
	if level == cpu.Generic || w.K == 0 {
		mulInt8Generic(y, yStride, a, aScales, rows, w, bias, act)
		return
	}
	c := mulInt8Call{w: w, bias: &noBias[0], y: unsafe.Pointer(&y[0]), yStride: 4 * yStride, aStride: Int8Stride(w.K), floor: float32(math.Inf(-1)), level: level}
	if bias != nil {
		c.bias, c.biasStep = &bias[0], 4*int8Panel
	}
	if act == Rectified {
		c.floor = 0
	}
	chunk := max(mulInt8Chunk/c.aStride, 2*mulInt8Rows)
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		c.rows(&a[first*c.aStride], aScales[first:first+n])
		c.y = unsafe.Add(c.y, n*c.yStride)
		first += n
	}
}

// rows multiplies a chunk of rows with all panels, in blocks of nearly equal height.
func (c *mulInt8Call) rows(a *uint8, aScales []float32) {
	limit := mulInt8Rows
	if c.level == cpu.AVX2 {
		limit = mulInt8RowsAVX2
	}
	b := cutBlocks(len(aScales), limit)
	lower := (*uint8)(unsafe.Add(unsafe.Pointer(a), b.split*c.aStride))
	perCall := max(1, callWork/(len(aScales)*c.w.K*int8Panel))
	for p := 0; p*int8Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, a, aScales, 0, p, n, mask)
		}
		c.call(b.height, b.lower, lower, aScales[b.split:], b.split, p, n, mask)
		p += n
	}
}

// call runs the kernel of one height. It is not inlined, so that its prologue lets the garbage collector in between two
// calls of assembly.
//
//go:noinline
func (c *mulInt8Call) call(height, blocks int, a *uint8, aScales []float32, firstRow, panel, panels int, mask uint32) {
	s, first := &aScales[0], panel*int8Panel
	w, steps := &c.w.panels[first*c.w.steps*4], c.w.steps
	corrections, scales := &c.w.corrections[first], &c.w.scales[first]
	bias := (*float32)(unsafe.Add(unsafe.Pointer(c.bias), panel*c.biasStep))
	y := (*float32)(unsafe.Add(c.y, firstRow*c.yStride+4*first))
	if c.level == cpu.AVX2 {
		mulInt8AVX2(height, a, c.aStride, s, blocks, w, steps, corrections, scales, bias, c.biasStep, y, c.yStride, panels, c.floor, mask)
		return
	}
	mulInt8AVX512(height, a, c.aStride, s, blocks, w, steps, corrections, scales, bias, c.biasStep, y, c.yStride, panels, c.floor, mask)
}
