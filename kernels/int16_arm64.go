//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// mulInt16Call is what the calls of assembly for one product have in common. See mulInt8Call.
type mulInt16Call struct {
	y       []float32
	yStride int
	a       []int16
	aStride int // in words
	aScales []float32
	w       *Int16Matrix
	bias    []float32
	floor   float32
}

const mulInt16Rows = 2 // most rows of a block in registers

func mulInt16(y []float32, yStride int, a []int16, aScales []float32, rows int, w *Int16Matrix, bias []float32, act Activation) {
	if cpu.Active() == cpu.Generic || w.K == 0 {
		mulInt16Generic(y, yStride, a, aScales, rows, w, bias, act)
		return
	}
	c := mulInt16Call{y, yStride, a, Int16Stride(w.K), aScales, w, bias, floorOf(act)}
	chunk := max(mulInt8Chunk/(2*c.aStride), 2*mulInt16Rows)
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		c.chunk(first, n)
		first += n
	}
}

// chunk multiplies rows with all panels, in blocks of nearly equal height.
func (c *mulInt16Call) chunk(first, rows int) {
	b := cutBlocks(rows, mulInt16Rows)
	perCall := partsPerCall(callWorkNEON, rows, c.w.K*int16Panel, 2)
	for p := 0; p*int16Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, p, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, p, n, mask)
		p += n
	}
}

// call multiplies blocks of one height, from a row on, with some panels: whole ones, or, by way of a whole tile, an
// incomplete one. It is not inlined, so that its prologue lets the garbage collector in between two calls of assembly.
//
//go:noinline
func (c *mulInt16Call) call(height, blocks, row, panel, panels int, mask uint32) {
	column := panel * int16Panel
	w, scales := &c.w.panels[column*c.w.steps*2], &c.w.scales[column]
	if mask == ^uint32(0) {
		bias, biasStep := panelBias(c.bias, column)
		mulInt16NEON(height, &c.a[row*c.aStride], 2*c.aStride, &c.aScales[row], blocks, w, c.w.steps, scales, bias, biasStep,
			&c.y[row*c.yStride+column], 4*c.yStride, panels, c.floor)
		return
	}
	var tile [mulInt16Rows * int16Panel]float32
	var bias [int16Panel]float32
	if c.bias != nil {
		copy(bias[:], c.bias[column:c.w.N])
	}
	for range blocks {
		mulInt16NEON(height, &c.a[row*c.aStride], 2*c.aStride, &c.aScales[row], 1, w, c.w.steps, scales, &bias[0], 0,
			&tile[0], 4*int16Panel, 1, c.floor)
		for r := range height {
			copy(c.y[row*c.yStride+column:][:c.w.N-column], tile[r*int16Panel:])
			row++
		}
	}
}

// quantizeInt16 quantises a row. See quantize.
func quantizeInt16(dst []int16, x []float32, multiplier, limit float32) {
	if n := wholePart(len(x), 16); n > 0 && multiplier != 0 {
		quantizeInt16NEON(&dst[0], &x[0], n, multiplier, limit)
		quantizeInt16(dst[n:], x[n:], multiplier, limit)
		return
	}
	quantizeInt16Generic(dst, x, multiplier, limit)
}

// int16Burst does about n multiply-accumulates of words on registers and returns how many.
func int16Burst(n int) int {
	if cpu.Active() == cpu.Generic {
		return int16BurstProduct(n)
	}
	const perTurn = 24 * 4 // multiply-accumulates in a turn of the loop
	turns := n/perTurn + 1
	int16BurstNEON(turns)
	return turns * perTurn
}
