//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

// The words of the activations that are taken apart at a time are on the stack. Few of them have a smaller place, since the
// stack has to be cleared.
const wideWords, fewWideWords = 24 << 10, 2 << 10

// wideCall is a product of which the activations have been taken apart into words.
type wideCall struct {
	*mulInt8Call
	words []uint16
}

// isWide reports whether the rows of a product should be taken apart: without VNNI, unless they are too long.
func (c *mulInt8Call) isWide() bool {
	return (c.level == cpu.AVX2 || c.level == cpu.AVX512) && c.aStride <= wideWords
}

// wide multiplies all rows.
func (c *mulInt8Call) wide(rows int) {
	if rows*c.aStride <= fewWideWords {
		c.fewWide(rows)
	} else {
		c.manyWide(rows)
	}
}

//go:noinline
func (c *mulInt8Call) fewWide(rows int) {
	var words [fewWideWords]uint16
	w := wideCall{c, words[:]}
	w.chunk(0, rows)
}

//go:noinline
func (c *mulInt8Call) manyWide(rows int) {
	var words [wideWords]uint16
	w := wideCall{c, words[:]}
	limit := wideWords / c.aStride
	for first := 0; first < rows; {
		n := evenPart(rows-first, limit)
		w.chunk(first, n)
		first += n
	}
}

// chunk takes rows apart and multiplies them with all panels, in blocks of nearly equal height.
func (c *wideCall) chunk(first, rows int) {
	widenInt8(&c.words[0], &c.a[first*c.aStride], rows*c.aStride)
	limit := mulInt8Rows
	if c.level == cpu.AVX2 {
		limit = mulInt8RowsAVX2
	}
	b := cutBlocks(rows, limit)
	perCall := partsPerCall(callWork/2, rows, c.w.K*int8Panel, 1)
	for p := 0; p*int8Panel < c.w.N; {
		n, mask := nextPanels(p, perCall, c.w.N)
		if b.higher > 0 {
			c.call(b.height+1, b.higher, first, 0, p, n, mask)
		}
		c.call(b.height, b.lower, first, b.split, p, n, mask)
		p += n
	}
}

// call multiplies blocks of one height, from a row of the chunk on, with some panels. See mulInt8Call.call.
//
//go:noinline
func (c *wideCall) call(height, blocks, first, row, panel, panels int, mask uint32) {
	column := panel * int8Panel
	a, s, w := &c.words[row*c.aStride], &c.aScales[first+row], &c.w.panels[column*c.w.steps*4]
	corrections, scales := &c.w.corrections[column], &c.w.scales[column]
	bias, biasStep := panelBias(c.bias, column)
	y, steps, aStride, yStride := &c.y[(first+row)*c.yStride+column], c.w.steps, 2*c.aStride, 4*c.yStride
	if c.level == cpu.AVX2 {
		mulInt8WideAVX2(height, a, aStride, s, blocks, w, steps, corrections, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
		return
	}
	mulInt8WideAVX512(height, a, aStride, s, blocks, w, steps, corrections, scales, bias, biasStep, y, yStride, panels, c.floor, mask)
}
