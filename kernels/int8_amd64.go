//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const (
	// mulInt8Rows and those beside it are the most rows of a block in registers.
	mulInt8Rows, mulInt8RowsAVX2, mulInt8RowsDouble = 12, 6, 6
	// mulInt8Chunk is about how many bytes of activations stay in the second-level cache while all panels pass.
	mulInt8Chunk = 256 << 10
	// callWork bounds the multiply-accumulates of one call of assembly, of which a Zen 4 does 220 in a nanosecond: the garbage collector cannot
	// interrupt assembly, it waits for it. Slower instructions have a half or a quarter of it. See callBytes, too.
	callWork = 4 << 20
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

	bytes      []uint8 // if not nil, results are rounded to bytes, and stored here
	multiplier float32
}

func mulInt8(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) {
	level := cpu.Integer()
	if level == cpu.Generic || w.K == 0 {
		mulInt8Scalar(y, yStride, a, aScales, rows, w, bias, act)
		return
	}
	c := mulInt8Call{y: y, yStride: yStride, a: a, aStride: Int8Stride(w.K), aScales: aScales, w: w, bias: bias, floor: floorOf(act), level: level}
	if w.chains != nil {
		c.chains(rows)
		return
	}
	if c.isWide() {
		c.wide(rows)
		return
	}
	c.chunks(rows, c.chunk)
}

// mulInt8Quantised computes the first columns of MulInt8Quantised where that pays, and returns how many.
func mulInt8Quantised(dst []uint8, multiplier float32, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) int {
	level := cpu.Integer()
	if level != cpu.AVX512VNNI || w.K == 0 || w.chains != nil || !doublePays(rows, len(w.panels), w.doubleFrom) {
		return 0
	}
	c := mulInt8Call{a: a, aStride: Int8Stride(w.K), aScales: aScales, w: w, bias: bias, floor: floorOf(act), level: level, bytes: dst, multiplier: multiplier}
	column := wholePairs(w.N)
	c.chunks(rows, func(first, rows int) { c.pairs(first, rows, column, c.doubleLimit()) })
	return column
}

// chunks calls multiply for nearly equal parts of the rows, whose activations stay in the second-level cache.
func (c *mulInt8Call) chunks(rows int, multiply func(first, rows int)) {
	chunk := max(mulInt8Chunk/c.aStride, 2*mulInt8Rows)
	for first := 0; first < rows; {
		n := evenPart(rows-first, chunk)
		multiply(first, n)
		first += n
	}
}

// chunk multiplies rows with all panels, two at a time where that pays.
func (c *mulInt8Call) chunk(first, rows int) {
	column := 0
	if c.level == cpu.AVX512VNNI && doublePays(rows, len(c.w.panels), c.w.doubleFrom) {
		column = wholePairs(c.w.N)
		c.pairs(first, rows, column, c.doubleLimit())
	}
	c.panels(first, rows, column, c.blockLimit(rows))
}

// pairs multiplies rows with the first columns, two whole panels at a time, in blocks of nearly equal height.
func (c *mulInt8Call) pairs(first, rows, columns, limit int) {
	const width = 2 * int8Panel
	b := cutBlocks(rows, limit)
	perCall := partsPerCall(callWork, rows, c.w.K*width, 1)
	for pair := 0; pair*width < columns; {
		n, _ := nextParts(pair, perCall, columns, width)
		c.callPairs(b, first, pair*width, n)
		pair += n
	}
}

// panels multiplies rows with the columns from one on, a panel at a time, in blocks of nearly equal height.
func (c *mulInt8Call) panels(first, rows, column, limit int) {
	b := cutBlocks(rows, limit)
	perCall := partsPerCall(callWork, rows, c.w.K*int8Panel, 1)
	for panel := column / int8Panel; panel*int8Panel < c.w.N; {
		n, mask := nextPanels(panel, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, panel*int8Panel, n, mask)
		}
		c.call(b.height, b.lower, first+b.split, panel*int8Panel, n, mask)
		panel += n
	}
}

// hasDoubleIntegers and hasDoubleFloats report whether panels can be multiplied two at a time.
func hasDoubleIntegers() bool { return cpu.Integer() == cpu.AVX512VNNI }
func hasDoubleFloats() bool   { return cpu.Active() == cpu.AVX512 }

// wholePairs returns how many columns are in pairs of panels that are whole, from the first column on.
func wholePairs(columns int) int { return columns / (2 * panelColumns) * (2 * panelColumns) }

// doubleLimit returns the most rows of a block of two panels.
func (c *mulInt8Call) doubleLimit() int {
	if c.w.lowBlocks {
		return lowRows
	}
	return mulInt8RowsDouble
}

// blockLimit returns the most rows of a block.
func (c *mulInt8Call) blockLimit(rows int) int {
	switch {
	case c.level == cpu.AVX512VNNI:
		return mulInt8Rows
	case c.level == cpu.AVXVNNI && (rows == 7 || rows == 8):
		return 3 // 4 rows of 16 columns have too few sums to keep the processor busy, 3 rows have two sets of them
	}
	return mulInt8RowsAVX2
}

// callPairs multiplies blocks, from a row and a column on, with some pairs of panels. It is not inlined, so that its prologue lets the garbage
// collector in between two calls of assembly.
//
//go:noinline
func (c *mulInt8Call) callPairs(b blocks, row, column, pairs int) {
	a, s, w := &c.a[row*c.aStride], &c.aScales[row], &c.w.panels[column*c.w.steps*4]
	corrections, scales := &c.w.corrections[column], &c.w.scales[column]
	bias, biasStep := partBias(c.bias, column, 2*int8Panel)
	if c.bytes != nil {
		stride := Int8Stride(c.w.N)
		mulInt8AVX512DoubleBytes(b.height, b.higher, b.lower, a, c.aStride, s, w, c.w.steps, corrections, scales, bias, biasStep,
			&c.bytes[row*stride+column], stride, pairs, c.floor, c.multiplier)
		return
	}
	mulInt8AVX512Double(b.height, b.higher, b.lower, a, c.aStride, s, w, c.w.steps, corrections, scales, bias, biasStep,
		&c.y[row*c.yStride+column], 4*c.yStride, pairs, c.floor)
}

// call multiplies blocks of one height, from a row and a column on, with some panels. It is not inlined either.
//
//go:noinline
func (c *mulInt8Call) call(height, blocks, row, column, panels int, mask uint32) {
	a, s, w := &c.a[row*c.aStride], &c.aScales[row], &c.w.panels[column*c.w.steps*4]
	corrections, scales := &c.w.corrections[column], &c.w.scales[column]
	bias, biasStep := panelBias(c.bias, column)
	y, steps, aStride, yStride := &c.y[row*c.yStride+column], c.w.steps, c.aStride, 4*c.yStride
	switch c.level {
	case cpu.AVX512VNNI:
		if height <= fewRows && c.w.unfetched {
			mulInt8AVX512Unfetched(height, a, aStride, s, blocks, w, steps, corrections, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
			return
		}
		mulInt8AVX512(height, a, aStride, s, blocks, w, steps, corrections, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
	case cpu.AVX2, cpu.AVX512: // rows that are too long to be taken apart
		mulInt8AVX2(height, a, aStride, s, blocks, w, steps, corrections, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
	case cpu.AVXVNNI:
		mulInt8AVXVNNI(height, a, aStride, s, blocks, w, steps, corrections, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
	}
}
