package kernels

import (
	"slices"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

const (
	chainColumns = 8                // columns of a strip of int8Chains
	stepWeights  = 4 * chainColumns // weights of a strip for four k
	longestChain = 4                // steps
	// chainLimit bounds the sum of the positive weights that are multiplied and added in 16 bits, and that of the negative
	// ones: 255·128 fits, and where activations are at most 127, so does 127·2·128.
	chainLimit = 128
	// maxChainK bounds the inner dimension: a block of activations has to fit the first-level cache.
	maxChainK = 4 << 10
)

// int8Chains are the weights of an Int8Matrix, packed for processors whose product of bytes, VPMADDUBSW, adds in 16 bits.
//
// The columns are cut into strips of 8. The steps of a strip, four k each, come in an order of its own: first chains of four steps
// whose products can be added in 16 bits without overflow, whatever the activations are, then those of three, of two, and steps that
// found no partner. A step where not even the products of neighbours can be added (two large weights of one sign) is taken apart into
// two, which each have some of its weights, and zeros for the others.
type int8Chains struct {
	weights []int8   // 32 for each step, [8 columns][4 k]
	order   []uint16 // which four places each step is for
	counts  []uint16 // for each strip: how many chains it has of each length, the longest first
	starts  []int    // of the strips, in steps, and where the last one ends
	// places are for each placedStrips strips, counted from the first one of the matrix: see placeRows. Parts of a matrix begin with strip first
	// of it.
	places [][]uint8
	first  int
	// rectified says that activations are what a ReLU lets pass: they are from 0 to 127 without their zero point, which is taken
	// off before they are multiplied, and weights may be twice as large.
	rectified bool
}

// packInt8Chains packs k×n row-major weights. It returns nil if words multiply them as fast, as where most steps have to be
// taken apart.
func packInt8Chains(k, n int, weights []int8, rectified bool) *int8Chains {
	const perWordStep = 4
	c, instructions := newInt8Chains(k, n, weights, rectified)
	if instructions > perWordStep*c.strips()*roundUp(k, 4)/4 {
		return nil
	}
	return c
}

// newInt8Chains also returns how many vector instructions multiply all weights with a row.
func newInt8Chains(k, n int, weights []int8, rectified bool) (c *int8Chains, instructions int) {
	const perStep, perChain = 2, 1
	strips, steps := roundUp(n, chainColumns)/chainColumns, roundUp(k, 4)/4
	c = &int8Chains{
		order: make([]uint16, 0, strips*steps*9/8), counts: make([]uint16, 0, longestChain*strips), starts: make([]int, 0, strips+1),
		rectified: rectified,
	}
	c.weights = hugepage.Make[int8](stepWeights * cap(c.order))[:0]
	s := chainStrip{limit: chainLimit}
	if rectified {
		s.limit *= 2
	}
	for first := 0; first < n; first += chainColumns {
		c.starts = append(c.starts, len(c.order))
		if first%placedColumns == 0 {
			c.places = append(c.places, placeRows(k, n, weights, first, s.limit))
		}
		s.load(k, n, weights, c.places[len(c.places)-1], first)
		s.join()
		for _, chains := range slices.Backward(s.chains[:]) {
			c.place(s.steps, chains)
		}
		for length := longestChain; length > 0; length-- {
			chains := len(s.chains[length-1]) / length
			c.counts = append(c.counts, uint16(chains))
			instructions += chains * (length*perStep + perChain)
		}
	}
	c.starts = append(c.starts, len(c.order))
	return c, instructions
}

// strips is how many there are.
func (c *int8Chains) strips() int { return len(c.starts) - 1 }

// columns returns strips from first to end. They share the memory of all.
func (c *int8Chains) columns(first, end int) *int8Chains {
	part := *c
	part.first += first
	part.starts, part.counts = c.starts[first:end+1], c.counts[longestChain*first:longestChain*end]
	return &part
}

// placesOf returns the places of the rows for a strip.
func (c *int8Chains) placesOf(strip int) []uint8 { return c.places[(c.first+strip)/placedStrips] }

// samePlaces returns where the strips end that have the rows in the same places as one of them.
func (c *int8Chains) samePlaces(strip int) (end int) {
	return min(c.strips(), roundUp(c.first+strip+1, placedStrips)-c.first)
}

// place appends steps.
func (c *int8Chains) place(steps []chainStep, order []int) {
	if needed := len(c.order) + len(order); needed > cap(c.order) {
		c.order = slices.Grow(c.order, needed+needed/2-len(c.order))
		c.weights = append(hugepage.Make[int8](stepWeights * cap(c.order))[:0], c.weights...)
	}
	for _, i := range order {
		c.weights = append(c.weights, steps[i].weights[:]...)
		c.order = append(c.order, steps[i].step)
	}
}

// chainSums are those of the positive weights of each two neighbours in a step or a chain, then of the negative ones, a byte each, in
// parts of the limit, 1/128 or more. The limit itself is kept as one less: only a zero can be added to both.
type chainSums [stepWeights / 8]uint64

// fit reports whether what has these sums can be added in 16 bits: no sum of two bytes may exceed 127.
func (s *chainSums) fit(other *chainSums) bool {
	return ((s[0]+other[0])|(s[1]+other[1])|(s[2]+other[2])|(s[3]+other[3]))&0x8080_8080_8080_8080 == 0
}

func (s *chainSums) add(other *chainSums) {
	for i := range s {
		s[i] += other[i]
	}
}

// chainStep is a step of a strip while it is packed.
type chainStep struct {
	step    uint16
	weights [stepWeights]int8
	sums    chainSums
	total   int // of the magnitudes of the weights
}

// sum fills the sums and reports whether they are within the limit, which is a multiple of chainLimit.
func (s *chainStep) sum(limit int) bool {
	s.sums, s.total = chainSums{}, 0
	fits, unit := true, limit/chainLimit
	for lane := range stepWeights / 2 {
		a, b := int(s.weights[2*lane]), int(s.weights[2*lane+1])
		positive := max(a, 0) + max(b, 0)
		negative := positive - a - b
		shift := lane % 8 * 8
		s.sums[lane/8] |= uint64(min((positive+unit-1)/unit, chainLimit-1)) << shift
		s.sums[len(s.sums)/2+lane/8] |= uint64(min((negative+unit-1)/unit, chainLimit-1)) << shift
		s.total += positive + negative
		fits = fits && positive <= limit && negative <= limit
	}
	return fits
}

// takeApart moves the larger of two neighbours that are too large together to another step.
func (s *chainStep) takeApart(limit int) (rest chainStep) {
	rest.step = s.step
	for i := 0; i < stepWeights; i += 2 {
		a, b := int(s.weights[i]), int(s.weights[i+1])
		if (a < 0) != (b < 0) || a+b <= limit && a+b >= -limit {
			continue
		}
		larger := i
		if max(a, -a) < max(b, -b) {
			larger = i + 1
		}
		rest.weights[larger], s.weights[larger] = s.weights[larger], 0
	}
	s.sum(limit)
	rest.sum(limit)
	return rest
}

// chainStrip is a strip while it is packed.
type chainStrip struct {
	limit  int // of the sums
	steps  []chainStep
	order  []int
	open   []openStep
	chains [longestChain][]int // of each length, the steps of one after the other
}

// openStep is a step that is in no chain yet. They are linked in a ring, the heaviest first, from an element at 0 that is none.
type openStep struct {
	sums chainSums
	step int
	next int
}

// load cuts the columns from the given one on into steps, with the rows in their places.
func (s *chainStrip) load(k, n int, weights []int8, places []uint8, first int) {
	s.steps = s.steps[:0]
	for step := 0; 4*step < k; step++ {
		whole := chainStep{step: uint16(step)}
		for i := range min(4, k-4*step) {
			row := weights[rowAt(places, 4*step+i)*n+first:]
			for j, w := range row[:min(chainColumns, n-first)] {
				whole.weights[4*j+i] = w
			}
		}
		if whole.sum(s.limit) {
			s.steps = append(s.steps, whole)
			continue
		}
		rest := whole.takeApart(s.limit)
		s.steps = append(s.steps, whole, rest)
	}
}

// join makes chains. Each begins with the heaviest step that is left and goes on with the heaviest that can be added to it.
func (s *chainStrip) join() {
	s.line()
	for i := range s.chains {
		s.chains[i] = s.chains[i][:0]
	}
	open := s.open
	for open[0].next != 0 {
		first := &open[open[0].next]
		chain, sums := [longestChain]int{first.step}, first.sums
		length, before := 1, 0
		open[0].next = first.next
		for next := first.next; next != 0 && length < longestChain; next = open[next].next {
			if !sums.fit(&open[next].sums) {
				before = next
				continue
			}
			sums.add(&open[next].sums)
			chain[length] = open[next].step
			length++
			open[before].next = open[next].next
		}
		s.chains[length-1] = append(s.chains[length-1], chain[:length]...)
	}
}

// line links all steps, the heaviest first.
func (s *chainStrip) line() {
	s.order = s.order[:0]
	for i := range s.steps {
		s.order = append(s.order, i-s.steps[i].total<<16) // a strip has no more than 2·maxChainK/4 steps
	}
	slices.Sort(s.order)
	s.open = append(s.open[:0], openStep{})
	for _, key := range s.order {
		i := key & (1<<16 - 1)
		s.open = append(s.open, openStep{step: i, sums: s.steps[i].sums})
	}
	for i := range s.open {
		s.open[i].next = (i + 1) % len(s.open)
	}
}

// addPanel adds to the sums of a panel the exact products with a row.
func (c *int8Chains) addPanel(sums *[int8Panel]int32, row []uint8, panel int) {
	const perPanel = int8Panel / chainColumns
	for i := range min(perPanel, c.strips()-panel*perPanel) {
		c.addStrip(sums[i*chainColumns:][:chainColumns], row, panel*perPanel+i)
	}
}

// addStrip adds to the sums of a strip the exact products with a row.
func (c *int8Chains) addStrip(sums []int32, row []uint8, strip int) {
	zero, places := int32(0), c.placesOf(strip)
	if c.rectified {
		zero = int8Zero
	}
	for i := c.starts[strip]; i < c.starts[strip+1]; i++ {
		w := c.weights[i*stepWeights:][:stepWeights]
		for e := range 4 {
			q := int32(row[rowAt(places, 4*int(c.order[i])+e)]) - zero
			for j := range sums {
				sums[j] += q * int32(w[4*j+e])
			}
		}
	}
}
