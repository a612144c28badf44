//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

const (
	// chainRows and chainPairs are the most rows of a block in registers, or pairs of rows that share registers. A step of a block has
	// room for so many.
	chainRows, chainPairs = 9, 10
	// The activations of a block are on the stack, each step's together. Most have a smaller place, since the stack has to be cleared.
	chainBytes, midChainBytes, fewChainBytes = maxChainK / 4 * 4 * chainPairs, 16 << 10, 4 << 10
	// chainGroup is about how many bytes of weights stay in the second-level cache while all blocks pass.
	chainGroup = 512 << 10
)

// packsChains reports whether a matrix should be packed as chains.
func packsChains(k int) bool {
	level := cpu.Integer()
	return (level == cpu.AVX2 || level == cpu.AVX512) && k > 0 && k <= maxChainK
}

// chainCall is a product with a matrix that is packed as chains.
type chainCall struct {
	*mulInt8Call
	steps []uint8 // place for the activations of a block
	unit  int     // rows that share a register: 1, or 2 of AVX-512
	limit int     // the most units of a block
}

// chains multiplies all rows with a matrix that is packed as chains.
func (c *mulInt8Call) chains(rows int) {
	unit := 1
	if c.level.Family() == cpu.AVX512 && c.w.steps*chainStepBytes(2) <= chainBytes && (rows > 8 || rows == 4 || rows == 6 || rows == 8) { // else sharing does not pay
		unit = 2
	}
	shared := rows / unit * unit
	c.sharedChains(0, shared, unit)
	if shared < rows {
		c.sharedChains(shared, rows, 1)
	}
}

// chainStepBytes returns the room for the activations of a step of a block, of which each unit of rows shares a register.
func chainStepBytes(unit int) int { return 4 * unit * mostChainUnits(unit) }

// mostChainUnits returns the most units of a block.
func mostChainUnits(unit int) int {
	if unit == 2 {
		return chainPairs
	}
	return chainRows
}

// sharedChains multiplies rows from first to end, of which each unit shares a register.
func (c *mulInt8Call) sharedChains(first, end, unit int) {
	switch size := c.w.steps * chainStepBytes(unit); {
	case size <= fewChainBytes:
		c.fewChains(first, end, unit)
	case size <= midChainBytes:
		c.midChains(first, end, unit)
	default:
		c.manyChains(first, end, unit)
	}
}

//go:noinline
func (c *mulInt8Call) fewChains(first, end, unit int) {
	var steps [fewChainBytes]uint8
	p := chainCall{c, steps[:], unit, mostChainUnits(unit)}
	p.rows(first, end)
}

//go:noinline
func (c *mulInt8Call) midChains(first, end, unit int) {
	var steps [midChainBytes]uint8
	p := chainCall{c, steps[:], unit, mostChainUnits(unit)}
	p.rows(first, end)
}

//go:noinline
func (c *mulInt8Call) manyChains(first, end, unit int) {
	var steps [chainBytes]uint8
	p := chainCall{c, steps[:], unit, mostChainUnits(unit)}
	p.rows(first, end)
}

// rows multiplies rows from first to end, with groups of strips that have the matrix's rows in the same places.
func (c *chainCall) rows(first, end int) {
	perGroup := max(1, chainGroup/(c.w.K*chainColumns))
	for strip := 0; strip < c.w.chains.strips(); {
		group := evenPart(c.w.chains.samePlaces(strip)-strip, perGroup)
		c.blocks(first, end, strip, strip+group)
		strip += group
	}
}

// blocks multiplies rows from first to end with some strips, in blocks of nearly equal height. While the weights, which come in the order of
// memory, pass from the second-level cache, the activations of a block, which do not, stay in the first.
func (c *chainCall) blocks(first, end, strip, endStrip int) {
	b := cutBlocks((end-first)/c.unit, c.limit)
	for i := range b.higher + b.lower {
		height := b.height
		if i < b.higher {
			height++
		}
		c.gather(first, height, c.w.chains.placesOf(strip))
		c.block(first, height, strip, endStrip)
		first += c.unit * height
	}
}

// gather brings the activations of a block together, each step's, in their places.
func (c *chainCall) gather(row, height int, places []uint8) {
	flip := uint32(0)
	if c.w.chains.rectified {
		flip = 0x8080_8080 // takes the zero point off
	}
	seen := interleaveInt8(&c.steps[0], &c.a[row*c.aStride], c.aStride, c.unit*height, c.w.steps, chainStepBytes(c.unit), &places[0], flip)
	if flip != 0 && seen&0x8080_8080 != 0 {
		panic("kernels: activations of a product that is packed for results of a ReLU are negative")
	}
}

// block multiplies a block with some strips.
func (c *chainCall) block(row, height, strip, endStrip int) {
	perCall := partsPerCall(callWork/2, c.unit*height, c.w.K*chainColumns, 1)
	for strip < endStrip {
		n, mask := nextParts(strip, min(perCall, endStrip-strip), c.w.N, chainColumns)
		c.call(height, row, strip, n, mask)
		strip += n
	}
}

// call multiplies a block with strips of which all columns exist, or with an incomplete one. See mulInt8Call.call.
//
//go:noinline
func (c *chainCall) call(height, row, strip, strips int, mask uint32) {
	column, chains := strip*chainColumns, c.w.chains
	start := chains.starts[strip]
	a, s, w := &c.steps[0], &c.aScales[row], &chains.weights[start*stepWeights]
	order, counts, corrections, scales := &chains.order[start], &chains.counts[longestChain*strip], &c.w.corrections[column], &c.w.scales[column]
	bias, biasStep := partBias(c.bias, column, chainColumns)
	y, yStride := &c.y[row*c.yStride+column], 4*c.yStride
	if c.unit == 2 {
		mulInt8ChainsAVX512(height, a, s, w, order, counts, corrections, scales, bias, biasStep, y, yStride, strips, c.floor, mask)
		return
	}
	mulInt8ChainsAVX2(height, a, s, w, order, counts, corrections, scales, bias, biasStep, y, yStride, strips, c.floor, mask)
}
