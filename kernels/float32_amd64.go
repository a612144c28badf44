//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

const (
	mulFloat32Rows, mulFloat32RowsAVX2 = 12, 6 // most rows of a block in registers

	mulFloat32Chunk = 256 << 10 // bytes of activations that stay in the second-level cache while all panels pass
	floatCallWork   = callWork / 4
)

// mulFloat32Call is what the blocks of one chunk of rows have in common.
type mulFloat32Call struct {
	w                *Float32Matrix
	bias             *float32
	biasStep         int
	x, y             unsafe.Pointer // of the chunk
	xStride, yStride int            // bytes
	floor            float32
	level            cpu.Level
}

func mulFloat32(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix, bias []float32, act Activation) {
	level := cpu.Active()
	if level == cpu.Generic || w.K == 0 {
		mulFloat32Generic(y, yStride, x, xStride, rows, w, bias, act)
		return
	}
	c := mulFloat32Call{
		w: w, bias: &noBias[0], floor: float32(math.Inf(-1)), level: level,
		x: unsafe.Pointer(&x[0]), y: unsafe.Pointer(&y[0]), xStride: 4 * xStride, yStride: 4 * yStride,
	}
	if bias != nil {
		c.bias, c.biasStep = &bias[0], 4*float32Panel
	}
	if act == Rectified {
		c.floor = 0
	}
	chunk := max(mulFloat32Chunk/(4*w.K), 2*mulFloat32Rows)
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		c.chunk(first, n)
		first += n
	}
}

// chunk multiplies rows with all panels, in blocks of nearly equal height.
func (c *mulFloat32Call) chunk(first, rows int) {
	limit := mulFloat32Rows
	if c.level == cpu.AVX2 {
		limit = mulFloat32RowsAVX2
	}
	b := cutBlocks(rows, limit)
	perCall := max(1, floatCallWork/(rows*c.w.K*float32Panel))
	for p := 0; p*float32Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, p, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, p, n, mask)
		p += n
	}
}

// call runs the kernel of one height. It is not inlined, so that its prologue lets the garbage collector in between two
// calls of assembly.
//
//go:noinline
func (c *mulFloat32Call) call(height, blocks, row, panel, panels int, mask uint32) {
	column := panel * float32Panel
	bias := (*float32)(unsafe.Add(unsafe.Pointer(c.bias), panel*c.biasStep))
	x := (*float32)(unsafe.Add(c.x, row*c.xStride))
	y := (*float32)(unsafe.Add(c.y, row*c.yStride+4*column))
	if c.level == cpu.AVX2 {
		mulFloat32AVX2(height, x, c.xStride, blocks, &c.w.panels[column*c.w.K], c.w.K, bias, c.biasStep, y, c.yStride, panels, c.floor, mask)
		return
	}
	mulFloat32AVX512(height, x, c.xStride, blocks, &c.w.panels[column*c.w.K], c.w.K, bias, c.biasStep, y, c.yStride, panels, c.floor, mask)
}
