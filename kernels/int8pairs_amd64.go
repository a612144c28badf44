//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const (
	// mulInt8PairRows and mulInt8PairsOfRows are the most rows, or pairs of rows, of a block in registers.
	mulInt8PairRows, mulInt8PairsOfRows = 11, 12
	// The activations of some blocks at a time are on the stack, each step's together. Few of them have a smaller place, since
	// the stack has to be cleared.
	pairBytes, fewPairBytes = 48 << 10, 4 << 10
)

// packsPairs reports whether a matrix should be packed as pairs.
func packsPairs(k int) bool {
	level := cpu.Integer()
	return (level == cpu.AVX2 || level == cpu.AVX512) && k > 0 && k <= maxPairK
}

// pairCall is a product of which the activations have been brought together by steps.
type pairCall struct {
	*mulInt8Call
	steps []uint8
	unit  int // rows that share a register: 1, or 2 of AVX-512
}

// pairs multiplies all rows with a matrix that is packed as pairs.
func (c *mulInt8Call) pairs(rows int) {
	unit := 1
	if c.level.Family() == cpu.AVX512 && (rows > 8 || rows == 4 || rows == 6 || rows == 8) { // else sharing does not pay
		unit = 2
	}
	shared := rows / unit * unit
	switch {
	case rows == 1:
		shared = 0
	case shared*c.aStride <= fewPairBytes:
		c.fewPairs(shared, unit)
	default:
		c.manyPairs(shared, unit)
	}
	if shared < rows { // a single row is in the order of its steps
		p := pairCall{c, c.a[shared*c.aStride:], 1}
		p.blocks(shared, 1)
	}
}

//go:noinline
func (c *mulInt8Call) fewPairs(rows, unit int) {
	var steps [fewPairBytes]uint8
	p := pairCall{c, steps[:], unit}
	p.chunk(0, rows)
}

//go:noinline
func (c *mulInt8Call) manyPairs(rows, unit int) {
	var steps [pairBytes]uint8
	p := pairCall{c, steps[:], unit}
	limit := pairBytes / c.aStride / unit
	for first := 0; first < rows; {
		n := unit * evenPart((rows-first)/unit, limit)
		p.chunk(first, n)
		first += n
	}
}

// chunk brings rows together and multiplies them.
func (c *pairCall) chunk(first, rows int) {
	b, steps := c.cut(rows), c.w.steps
	for row := 0; row < rows; {
		height := b.height
		if row < c.unit*b.split {
			height++
		}
		interleaveInt8(&c.steps[row*4*steps], &c.a[(first+row)*c.aStride], c.aStride, c.unit*height, steps)
		row += c.unit * height
	}
	c.blocks(first, rows)
}

func (c *pairCall) cut(rows int) blocks {
	if c.unit == 2 {
		return cutBlocks(rows/2, mulInt8PairsOfRows)
	}
	return cutBlocks(rows, mulInt8PairRows)
}

// blocks multiplies rows with all strips, in blocks of nearly equal height.
func (c *pairCall) blocks(first, rows int) {
	b := c.cut(rows)
	perCall := max(1, callWork/2/(rows*c.w.K*pairColumns))
	for strip := 0; strip*pairColumns < c.w.N; {
		n, mask := nextParts(strip, perCall, c.w.N, pairColumns)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, 0, strip, n, mask)
		}
		c.call(b.height, b.lower, first, c.unit*b.split, strip, n, mask)
		strip += n
	}
}

// call multiplies blocks of one height, from a row of the chunk on, with some strips. See mulInt8Call.call.
//
//go:noinline
func (c *pairCall) call(height, blocks, first, row, strip, strips int, mask uint32) {
	column, pairs, rowBytes := strip*pairColumns, c.w.pairs, 4*c.w.steps
	start := pairs.starts[strip]
	a, s, w := &c.steps[row*rowBytes], &c.aScales[first+row], &pairs.weights[start*stepWeights]
	order, counts, corrections, scales := &pairs.order[start], &pairs.counts[2*strip], &c.w.corrections[column], &c.w.scales[column]
	bias, biasStep := partBias(c.bias, column, pairColumns)
	y, yStride, blockBytes := &c.y[(first+row)*c.yStride+column], 4*c.yStride, c.unit*height*rowBytes
	if c.unit == 2 {
		mulInt8PairsAVX512(height, a, blockBytes, s, blocks, w, order, counts, corrections, scales, bias, biasStep, y, yStride, strips, c.floor, mask)
		return
	}
	mulInt8PairsAVX2(height, a, blockBytes, s, blocks, w, order, counts, corrections, scales, bias, biasStep, y, yStride, strips, c.floor, mask)
}
