//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const (
	mulInt8PairRows = 11 // most rows of a block in registers
	// The activations of some blocks at a time are on the stack, each step's together. Few of them have a smaller place, since
	// the stack has to be cleared.
	pairBytes, fewPairBytes = 48 << 10, 4 << 10
)

// packsPairs reports whether a matrix should be packed as pairs.
func packsPairs(k int) bool { return cpu.Integer() == cpu.AVX2 && k > 0 && k <= maxPairK }

// pairCall is a product of which the activations have been brought together by steps.
type pairCall struct {
	*mulInt8Call
	steps []uint8
}

// pairs multiplies all rows with a matrix that is packed as pairs.
func (c *mulInt8Call) pairs(rows int) {
	switch {
	case rows == 1: // is as it has to be
		p := pairCall{c, c.a}
		p.blocks(0, 1)
	case rows*c.aStride <= fewPairBytes:
		c.fewPairs(rows)
	default:
		c.manyPairs(rows)
	}
}

//go:noinline
func (c *mulInt8Call) fewPairs(rows int) {
	var steps [fewPairBytes]uint8
	p := pairCall{c, steps[:]}
	p.chunk(0, rows)
}

//go:noinline
func (c *mulInt8Call) manyPairs(rows int) {
	var steps [pairBytes]uint8
	p := pairCall{c, steps[:]}
	limit := pairBytes / c.aStride
	for first := 0; first < rows; {
		n := evenPart(rows-first, limit)
		p.chunk(first, n)
		first += n
	}
}

// chunk brings rows together and multiplies them.
func (c *pairCall) chunk(first, rows int) {
	b := cutBlocks(rows, mulInt8PairRows)
	for row := 0; row < rows; {
		height := b.height
		if row < b.split {
			height++
		}
		interleaveInt8(&c.steps[row*4*c.w.steps], &c.a[(first+row)*c.aStride], c.aStride, height, c.w.steps)
		row += height
	}
	c.blocks(first, rows)
}

// blocks multiplies rows with all strips, in blocks of nearly equal height.
func (c *pairCall) blocks(first, rows int) {
	b := cutBlocks(rows, mulInt8PairRows)
	perCall := max(1, callWork/2/(rows*c.w.K*pairColumns))
	for strip := 0; strip*pairColumns < c.w.N; {
		n, mask := nextStrips(strip, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, 0, strip, n, mask)
		}
		c.call(b.height, b.lower, first, b.split, strip, n, mask)
		strip += n
	}
}

// nextStrips is nextPanels for strips.
func nextStrips(strip, limit, columns int) (n int, mask uint32) {
	if whole := columns / pairColumns; strip < whole {
		return min(limit, whole-strip), 1<<pairColumns - 1
	}
	return 1, 1<<(columns%pairColumns) - 1
}

// call multiplies blocks of one height, from a row of the chunk on, with some strips. See mulInt8Call.call.
//
//go:noinline
func (c *pairCall) call(height, blocks, first, row, strip, strips int, mask uint32) {
	column, pairs := strip*pairColumns, c.w.pairs
	start := pairs.starts[strip]
	bias, biasStep := &noBias[0], 0
	if c.bias != nil {
		bias, biasStep = &c.bias[column], 4*pairColumns
	}
	mulInt8PairsAVX2(height, &c.steps[row*4*c.w.steps], height*4*c.w.steps, &c.aScales[first+row], blocks,
		&pairs.weights[start*stepWeights], &pairs.order[start], &pairs.counts[2*strip],
		&c.w.corrections[column], &c.w.scales[column], bias, biasStep, &c.y[(first+row)*c.yStride+column], 4*c.yStride, strips, c.floor, mask)
}
