//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// mulInt16Call is what the calls of assembly for one product have in common.
type mulInt16Call struct {
	y       []float32
	yStride int
	a       []int16
	aStride int // in words
	aScales []float32
	w       *Int16Matrix
	bias    []float32
	floor   float32
	level   cpu.Level
}

func mulInt16(y []float32, yStride int, a []int16, aScales []float32, rows int, w *Int16Matrix, bias []float32, act Activation) {
	level := cpu.Integer()
	if level == cpu.Generic || w.K == 0 {
		mulInt16Generic(y, yStride, a, aScales, rows, w, bias, act)
		return
	}
	c := mulInt16Call{y, yStride, a, Int16Stride(w.K), aScales, w, bias, floorOf(act), level}
	chunk := max(mulInt8Chunk/(2*c.aStride), 2*mulInt8Rows)
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		c.chunk(first, n)
		first += n
	}
}

// chunk multiplies rows with all panels, two at a time where that pays.
func (c *mulInt16Call) chunk(first, rows int) {
	limit := mulInt8Rows
	if c.level.Family() == cpu.AVX2 {
		limit = mulInt8RowsAVX2
	}
	column := 0
	if c.level == cpu.AVX512VNNI && doublePays(rows, c.w.bytes(), c.w.doubleFrom) {
		column = wholePairs(c.w.N)
		c.pairs(first, rows, column)
	}
	c.panels(first, rows, column, limit)
}

// pairs multiplies rows with the first columns, two whole panels at a time, in blocks of nearly equal height.
func (c *mulInt16Call) pairs(first, rows, columns int) {
	const width = 2 * int16Panel
	b := cutBlocks(rows, mulInt8RowsDouble)
	perCall := partsPerCall(callWork/2, rows, c.w.K*width, 2)
	for pair := 0; pair*width < columns; {
		n, _ := nextParts(pair, perCall, columns, width)
		c.callPairs(b, first, pair*width, n)
		pair += n
	}
}

// panels multiplies rows with the columns from one on, a panel at a time, in blocks of nearly equal height.
func (c *mulInt16Call) panels(first, rows, column, limit int) {
	b := cutBlocks(rows, limit)
	perCall := partsPerCall(callWork/2, rows, c.w.K*int16Panel, 2)
	for panel := column / int16Panel; panel*int16Panel < c.w.N; {
		n, mask := nextPanels(panel, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, panel*int16Panel, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, panel*int16Panel, n, mask)
		panel += n
	}
}

// callPairs multiplies blocks, from a row and a column on, with some pairs of panels. It is not inlined, so that its prologue lets the garbage
// collector in between two calls of assembly.
//
//go:noinline
func (c *mulInt16Call) callPairs(b blocks, row, column, pairs int) {
	a, s, w, scales := &c.a[row*c.aStride], &c.aScales[row], &c.w.panels[column*c.w.steps*2], &c.w.scales[column]
	bias, biasStep := partBias(c.bias, column, 2*int16Panel)
	mulInt16AVX512VNNIDouble(b.height, b.higher, b.lower, a, 2*c.aStride, s, w, c.w.steps, scales, bias, biasStep,
		&c.y[row*c.yStride+column], 4*c.yStride, pairs, c.floor)
}

// call multiplies blocks of one height, from a row and a column on, with some panels. It is not inlined either.
//
//go:noinline
func (c *mulInt16Call) call(height, blocks, row, column, panels int, mask uint32) {
	a, s, w, scales := &c.a[row*c.aStride], &c.aScales[row], &c.w.panels[column*c.w.steps*2], &c.w.scales[column]
	bias, biasStep := panelBias(c.bias, column)
	y, steps, aStride, yStride := &c.y[row*c.yStride+column], c.w.steps, 2*c.aStride, 4*c.yStride
	switch c.level {
	case cpu.AVX2:
		mulInt16AVX2(height, a, aStride, s, blocks, w, steps, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
	case cpu.AVXVNNI:
		mulInt16AVXVNNI(height, a, aStride, s, blocks, w, steps, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
	case cpu.AVX512:
		mulInt16AVX512(height, a, aStride, s, blocks, w, steps, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
	default:
		mulInt16AVX512VNNI(height, a, aStride, s, blocks, w, steps, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
	}
}

// quantizeInt16 quantises a row; dst has the words of its padding too, which the assembly may write.
func quantizeInt16(dst []int16, x []float32, multiplier, limit float32) {
	switch level := cpu.Active(); {
	case level == cpu.Generic || multiplier == 0 || len(x) == 0:
		quantizeInt16Generic(dst, x, multiplier, limit)
	case len(x) > callElements:
		cut := half(len(x))
		quantizeInt16(dst[:cut], x[:cut], multiplier, limit)
		quantizeInt16(dst[cut:], x[cut:], multiplier, limit)
	case level == cpu.AVX2:
		quantizeInt16AVX2(&dst[0], &x[0], len(x), multiplier, limit)
	default:
		quantizeInt16AVX512(&dst[0], &x[0], len(x), multiplier, limit)
	}
}

// int16Burst does about n multiply-accumulates of words on registers and returns how many.
func int16Burst(n int) int {
	perTurn, burst := 0, (func(int))(nil) // multiply-accumulates in a turn of the loop
	switch cpu.Integer() {
	case cpu.AVX512VNNI:
		perTurn, burst = 24*32, int16BurstAVX512VNNI
	case cpu.AVX512:
		perTurn, burst = 24*32, int16BurstAVX512
	case cpu.AVXVNNI:
		perTurn, burst = 12*16, int16BurstAVXVNNI
	case cpu.AVX2:
		perTurn, burst = 12*16, int16BurstAVX2
	default:
		return int16BurstProduct(n)
	}
	turns := n/perTurn + 1
	burst(turns)
	return turns * perTurn
}
