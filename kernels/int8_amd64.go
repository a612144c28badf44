//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

const (
	// mulInt8Rows is the most rows of a block in registers.
	mulInt8Rows = 12
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
}

func mulInt8(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) {
	if cpu.Active() < cpu.AVX512 || w.K == 0 {
		mulInt8Generic(y, yStride, a, aScales, rows, w, bias, act)
		return
	}
	c := mulInt8Call{w: w, bias: &noBias[0], y: unsafe.Pointer(&y[0]), yStride: 4 * yStride, aStride: Int8Stride(w.K), floor: float32(math.Inf(-1))}
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

// evenPart returns the size of the next part if n are cut into nearly equal parts of at most limit.
func evenPart(n, limit int) int {
	parts := (n + limit - 1) / limit
	return (n + parts - 1) / parts
}

// rows multiplies a chunk of rows with all panels. The rows are cut into blocks of nearly equal height: the first blocks
// may be one row higher than the others.
func (c *mulInt8Call) rows(a *uint8, aScales []float32) {
	rows := len(aScales)
	blocks := (rows + mulInt8Rows - 1) / mulInt8Rows
	height, higher := rows/blocks, rows%blocks
	split := higher * (height + 1)
	perCall := max(1, callWork/(rows*c.w.K*int8Panel))
	panels := (c.w.N + int8Panel - 1) / int8Panel
	for p := 0; p < panels; {
		n := min(perCall, panels-p)
		mask := ^uint32(0)
		if rest := c.w.N % int8Panel; rest != 0 && p+n == panels {
			if n > 1 {
				n-- // the last panel goes alone
			} else {
				mask = 1<<rest - 1
			}
		}
		if higher > 0 {
			c.call(height+1, higher, a, aScales, 0, p, n, mask)
		}
		c.call(height, blocks-higher, (*uint8)(unsafe.Add(unsafe.Pointer(a), split*c.aStride)), aScales[split:], split, p, n, mask)
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
	mulInt8AVX512(height, a, c.aStride, s, blocks, w, steps, corrections, scales, bias, c.biasStep, y, c.yStride, panels, c.floor, mask)
}
