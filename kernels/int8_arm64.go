//go:build !purego

package kernels

import (
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

const (
	// mulInt8Rows are the most rows of a block in registers.
	mulInt8RowsNEON, mulInt8RowsSDOT, mulInt8RowsSMMLA = 2, 4, 8
	// mulInt8Chunk is about how many bytes of activations stay in the second-level cache while all panels pass.
	mulInt8Chunk = 128 << 10
	// callWork bounds the multiply-accumulates of one call of assembly to some 10 to 100 µs: the garbage collector cannot
	// interrupt assembly, it waits for it.
	callWork, callWorkNEON = 2 << 20, 1 << 19
)

// mulInt8Call is what the calls of assembly for one product have in common.
type mulInt8Call struct {
	y       []float32
	yStride int
	a       []uint8
	aStride int
	aScales []float32
	w       *Int8Matrix
	bias    []float32
	floor   float32
	level   cpu.Level
}

func mulInt8(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) {
	level := cpu.Integer()
	if level == cpu.Generic || w.K == 0 {
		mulInt8Scalar(y, yStride, a, aScales, rows, w, bias, act)
		return
	}
	c := mulInt8Call{y: y, yStride: yStride, a: a, aStride: Int8Stride(w.K), aScales: aScales, w: w, bias: bias, floor: floorOf(act), level: level}
	chunk := max(mulInt8Chunk/c.aStride, 2*mulInt8RowsSMMLA) &^ 1
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		c.chunk(first, n)
		first += n
	}
}

// chunk multiplies rows with all panels. SMMLA does pairs of rows, and leaves the last of an odd number to SDOT.
func (c *mulInt8Call) chunk(first, rows int) {
	switch c.level {
	case cpu.NEON:
		c.blocks(cpu.NEON, first, cutBlocks(rows, mulInt8RowsNEON), 1)
	case cpu.SDOT:
		c.blocks(cpu.SDOT, first, cutBlocks(rows, mulInt8RowsSDOT), 1)
	default:
		if pairs := rows / 2; pairs > 0 {
			c.blocks(cpu.SMMLA, first, cutBlocks(pairs, mulInt8RowsSMMLA/2), 2)
		}
		if rows%2 == 1 {
			c.blocks(cpu.SDOT, first+rows-1, cutBlocks(1, 1), 1)
		}
	}
}

// blocks multiplies blocks of nearly equal height with all panels. unit is how many rows the heights count.
func (c *mulInt8Call) blocks(level cpu.Level, first int, b blocks, unit int) {
	work := callWork
	if level == cpu.NEON {
		work = callWorkNEON
	}
	rows := unit * (b.split + b.height*b.lower)
	perCall := partsPerCall(work, rows, c.w.K*int8Panel, 1)
	for p := 0; p*int8Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(level, unit*(b.height+1), b.higher, first, p, n, mask)
		}
		c.call(level, unit*b.height, b.lower, first+unit*b.split, p, n, mask)
		p += n
	}
}

// call multiplies blocks of one height, from a row on, with some panels: whole ones, or an incomplete one. It is not
// inlined, so that its prologue lets the garbage collector in between two calls of assembly.
//
//go:noinline
func (c *mulInt8Call) call(level cpu.Level, height, blocks, row, panel, panels int, mask uint32) {
	if mask != ^uint32(0) {
		c.incomplete(level, height, blocks, row, panel)
		return
	}
	column := panel * int8Panel
	bias, biasStep := panelBias(c.bias, column)
	c.assembly(level, height, blocks, row, panel, panels, bias, biasStep, &c.y[row*c.yStride+column], 4*c.yStride)
}

// incomplete multiplies with the last panel, of which some columns do not exist: block by block, by way of a whole tile.
func (c *mulInt8Call) incomplete(level cpu.Level, height, blocks, row, panel int) {
	var tile [mulInt8RowsSMMLA * int8Panel]float32
	var bias [int8Panel]float32
	column := panel * int8Panel
	if c.bias != nil {
		copy(bias[:], c.bias[column:c.w.N])
	}
	for range blocks {
		c.assembly(level, height, 1, row, panel, 1, &bias[0], 0, &tile[0], 4*int8Panel)
		for r := range height {
			copy(c.y[row*c.yStride+column:][:c.w.N-column], tile[r*int8Panel:])
			row++
		}
	}
}

func (c *mulInt8Call) assembly(level cpu.Level, height, blocks, row, panel, panels int, bias *float32, biasStep int, y *float32, yStride int) {
	column := panel * int8Panel
	a, s, w, scales := &c.a[row*c.aStride], &c.aScales[row], &c.w.panels[column*c.w.steps*4], &c.w.scales[column]
	switch level {
	case cpu.NEON:
		mulInt8NEON(height, a, c.aStride, s, blocks, w, c.w.steps, scales, bias, biasStep, y, yStride, panels, c.floor)
	case cpu.SDOT:
		mulInt8SDOT(height, a, c.aStride, s, blocks, w, c.w.steps, scales, bias, biasStep, y, yStride, panels, c.floor)
	default:
		mulInt8SMMLA(height, a, c.aStride, s, blocks, w, c.w.steps, scales, bias, biasStep, y, yStride, panels, c.floor)
	}
}

func dotRowsInt8(y []float32, a []uint8, aScale float32, c Int8Choice) {
	level := cpu.Integer()
	if level == cpu.Generic || c.table.K == 0 {
		dotRowsInt8Generic(y, a, aScale, c)
		return
	}
	perCall := max(choiceGroup, callWorkNEON/c.table.stride/choiceGroup*choiceGroup)
	for c.n > perCall {
		dotRowsInt8Call(level, y[:perCall], a, aScale, &c)
		y, c = y[perCall:], c.from(perCall)
	}
	dotRowsInt8Call(level, y, a, aScale, &c)
}

// dotRowsInt8Call multiplies as many of the chosen rows as y is long.
//
//go:noinline
func dotRowsInt8Call(level cpu.Level, y []float32, a []uint8, aScale float32, c *Int8Choice) {
	sums := unsafe.Slice((*int32)(unsafe.Pointer(&y[0])), len(y))
	if level == cpu.NEON {
		dotsInt8NEON(&sums[0], &a[0], &c.table.rows[0], &c.ids[0], c.table.stride, len(y))
	} else {
		dotsInt8SDOT(&sums[0], &a[0], &c.table.rows[0], &c.ids[0], c.table.stride, len(y))
	}
	whole := len(y) &^ 3
	if whole > 0 {
		finishDotsNEON(&y[0], &c.scales[0], &c.bias[0], whole, aScale)
	}
	for i := whole; i < len(y); i++ {
		y[i] = float32(float32(sums[i])*float32(aScale*c.scales[i])) + c.bias[i]
	}
}

// int8Burst does about n int8 multiply-accumulates on registers and returns how many.
func int8Burst(n int) int {
	perTurn, burst := 0, (func(int))(nil) // multiply-accumulates in a turn of the loop
	switch cpu.Integer() {
	case cpu.SMMLA:
		perTurn, burst = 24*32, int8BurstSMMLA
	case cpu.SDOT:
		perTurn, burst = 24*16, int8BurstSDOT
	case cpu.NEON:
		perTurn, burst = 24*8, int8BurstNEON
	default:
		return int8BurstGeneric(n)
	}
	turns := n/perTurn + 1
	burst(turns)
	return turns * perTurn
}
