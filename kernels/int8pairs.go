package kernels

import (
	"slices"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

const (
	pairColumns = 8               // columns of a strip of int8Pairs
	stepWeights = 4 * pairColumns // weights of a strip for four k
	// pairLimit bounds the sum of the positive weights that are multiplied and added in 16 bits, and that of the negative
	// ones: 255·128 fits.
	pairLimit = 128
	// maxPairK bounds the inner dimension: a block of activations has to fit the first-level cache.
	maxPairK = 4 << 10
)

// int8Pairs are the weights of an Int8Matrix, packed for processors whose product of bytes, VPMADDUBSW, adds in 16 bits.
//
// The columns are cut into strips of 8. The steps of a strip, four k each, come in an order of its own: first pairs of steps
// whose products can be added in 16 bits without overflow, whatever the activations are, then steps that found no partner.
// A step where not even the products of neighbours can be added (two large weights of one sign) is taken apart into two, which
// each have some of its weights, and zeros for the others.
type int8Pairs struct {
	weights []int8   // 32 for each step, [8 columns][4 k]
	order   []uint16 // which four k each step is for
	counts  []uint16 // for each strip: how many pairs it has, and how many single steps
	starts  []int    // of the strips, in steps
}

// packInt8Pairs packs k×n row-major weights. It returns nil if words multiply them as fast, as where most steps have to be
// taken apart.
func packInt8Pairs(k, n int, weights []int8) *int8Pairs {
	const perWordStep = 4
	p, instructions := newInt8Pairs(k, n, weights)
	if instructions > perWordStep*len(p.starts)*roundUp(k, 4)/4 {
		return nil
	}
	return p
}

// newInt8Pairs also returns how many vector instructions multiply all weights with a row.
func newInt8Pairs(k, n int, weights []int8) (p *int8Pairs, instructions int) {
	const perPair, perSingle = 5, 3
	strips, steps := roundUp(n, pairColumns)/pairColumns, roundUp(k, 4)/4
	p = &int8Pairs{
		order: make([]uint16, 0, strips*steps*9/8), counts: make([]uint16, 0, 2*strips), starts: make([]int, 0, strips),
	}
	p.weights = hugepage.Make[int8](stepWeights * cap(p.order))[:0]
	s := pairStrip{place: p.place}
	for first := 0; first < n; first += pairColumns {
		p.starts = append(p.starts, len(p.order))
		s.load(k, n, weights, first)
		pairs, singles := s.match()
		p.counts = append(p.counts, uint16(pairs), uint16(singles))
		instructions += pairs*perPair + singles*perSingle
	}
	return p, instructions
}

// place appends a step.
func (p *int8Pairs) place(s *pairStep) {
	if len(p.order) == cap(p.order) {
		p.order = slices.Grow(p.order, len(p.order)/2+1)
		p.weights = append(hugepage.Make[int8](stepWeights * cap(p.order))[:0], p.weights...)
	}
	p.weights = append(p.weights, s.weights[:]...)
	p.order = append(p.order, s.step)
}

// pairStep is a step of a strip while it is packed.
type pairStep struct {
	step    uint16
	weights [stepWeights]int8
	// sums are those of the positive weights of each two neighbours, then of the negative ones, a byte each. The limit itself
	// is kept as one less: only a zero can be added to both.
	sums  [stepWeights / 8]uint64
	total int // of the sums
}

// sum fills the sums and reports whether they are within the limit.
func (s *pairStep) sum() bool {
	s.sums, s.total = [len(s.sums)]uint64{}, 0
	fits := true
	for lane := range stepWeights / 2 {
		a, b := int(s.weights[2*lane]), int(s.weights[2*lane+1])
		positive := max(a, 0) + max(b, 0)
		negative := positive - a - b
		shift := lane % 8 * 8
		s.sums[lane/8] |= uint64(min(positive, pairLimit-1)) << shift
		s.sums[len(s.sums)/2+lane/8] |= uint64(min(negative, pairLimit-1)) << shift
		s.total += positive + negative
		fits = fits && positive <= pairLimit && negative <= pairLimit
	}
	return fits
}

// takeApart moves the larger of two neighbours that are too large together to another step.
func (s *pairStep) takeApart() (rest pairStep) {
	rest.step = s.step
	for i := 0; i < stepWeights; i += 2 {
		a, b := int(s.weights[i]), int(s.weights[i+1])
		if (a < 0) != (b < 0) || a+b <= pairLimit && a+b >= -pairLimit {
			continue
		}
		larger := i
		if max(a, -a) < max(b, -b) {
			larger = i + 1
		}
		rest.weights[larger], s.weights[larger] = s.weights[larger], 0
	}
	s.sum()
	rest.sum()
	return rest
}

// pairStrip is a strip while it is packed.
type pairStrip struct {
	place func(*pairStep) // takes the steps in the order that they will have
	steps []pairStep
	order []int
	open  []openStep
	alone []int
}

// openStep is a step that may get a partner. They are linked in a ring, the heaviest first, from an element at 0 that is none.
type openStep struct {
	sums [stepWeights / 8]uint64
	step int
	next int
}

// fits reports whether the products of two steps can be added in 16 bits: no sum of two bytes may exceed 127.
func (s *openStep) fits(other *openStep) bool {
	a, b := &s.sums, &other.sums
	return ((a[0]+b[0])|(a[1]+b[1])|(a[2]+b[2])|(a[3]+b[3]))&0x8080_8080_8080_8080 == 0
}

// load cuts the columns from the given one on into steps.
func (s *pairStrip) load(k, n int, weights []int8, first int) {
	s.steps = s.steps[:0]
	for step := 0; 4*step < k; step++ {
		whole := pairStep{step: uint16(step)}
		for i := range min(4, k-4*step) {
			row := weights[(4*step+i)*n+first:]
			for j, w := range row[:min(pairColumns, n-first)] {
				whole.weights[4*j+i] = w
			}
		}
		if whole.sum() {
			s.steps = append(s.steps, whole)
			continue
		}
		rest := whole.takeApart()
		s.steps = append(s.steps, whole, rest)
	}
}

// match places the steps in pairs, then what is left of them, and counts both. Each step gets, from the heaviest down, the
// heaviest partner that it can be added to.
func (s *pairStrip) match() (pairs, singles int) {
	s.line()
	open := s.open
	s.alone = s.alone[:0]
	for open[0].next != 0 {
		step := &open[open[0].next]
		open[0].next = step.next
		before, partner := 0, step.next
		for partner != 0 && !step.fits(&open[partner]) {
			before, partner = partner, open[partner].next
		}
		if partner == 0 {
			s.alone = append(s.alone, step.step)
			continue
		}
		open[before].next = open[partner].next
		s.place(&s.steps[step.step])
		s.place(&s.steps[open[partner].step])
		pairs++
	}
	for _, step := range s.alone {
		s.place(&s.steps[step])
	}
	return pairs, len(s.alone)
}

// line links all steps, the heaviest first.
func (s *pairStrip) line() {
	s.order = s.order[:0]
	for i := range s.steps {
		s.order = append(s.order, i-s.steps[i].total<<16) // a strip has no more than 2·maxPairK/4 steps
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
func (p *int8Pairs) addPanel(sums *[int8Panel]int32, row []uint8, panel int) {
	const perPanel = int8Panel / pairColumns
	for i := range min(perPanel, len(p.starts)-panel*perPanel) {
		p.addStrip(sums[i*pairColumns:][:pairColumns], row, panel*perPanel+i)
	}
}

// addStrip adds to the sums of a strip the exact products with a row.
func (p *int8Pairs) addStrip(sums []int32, row []uint8, strip int) {
	first := p.starts[strip]
	last := first + 2*int(p.counts[2*strip]) + int(p.counts[2*strip+1])
	for i := first; i < last; i++ {
		a, w := row[4*int(p.order[i]):][:4], p.weights[i*stepWeights:][:stepWeights]
		for j := range sums {
			for e, q := range a {
				sums[j] += int32(q) * int32(w[4*j+e])
			}
		}
	}
}
