package kernels

import (
	"cmp"
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
	p = &int8Pairs{}
	var packed, strip []pairStep
	for first := 0; first < n; first += pairColumns {
		strip = strip[:0]
		for i := range roundUp(k, 4) / 4 {
			strip = appendPairSteps(strip, k, n, weights, i, first)
		}
		p.starts = append(p.starts, len(packed))
		var pairs, singles int
		packed, pairs, singles = matchSteps(packed, strip)
		p.counts = append(p.counts, uint16(pairs), uint16(singles))
		instructions += pairs*perPair + singles*perSingle
	}
	p.weights, p.order = hugepage.Make[int8](stepWeights*len(packed)), make([]uint16, len(packed))
	for i := range packed {
		copy(p.weights[i*stepWeights:], packed[i].weights[:])
		p.order[i] = packed[i].step
	}
	return p, instructions
}

// pairStep is a step of a strip while it is packed.
type pairStep struct {
	step    uint16
	weights [stepWeights]int8
	// sums of the positive weights of each two neighbours, and of the negative ones, four of 16 bits in each element.
	sums  [stepWeights / 4]uint64
	total int
}

// appendPairSteps appends a step of a strip, in two if it has to be taken apart.
func appendPairSteps(to []pairStep, k, n int, weights []int8, step, first int) []pairStep {
	whole, rest := pairStep{step: uint16(step)}, pairStep{step: uint16(step)}
	apart := false
	for i := range min(4, k-4*step) {
		row := weights[(4*step+i)*n+first:]
		for j := range min(pairColumns, n-first) {
			whole.weights[4*j+i] = row[j]
		}
	}
	for i := 0; i < stepWeights; i += 2 {
		a, b := &whole.weights[i], &whole.weights[i+1]
		if sum := int(*a) + int(*b); (*a < 0) == (*b < 0) && (sum > pairLimit || sum < -pairLimit) {
			apart = true
			larger := i
			if max(*a, -*a) < max(*b, -*b) {
				larger = i + 1
			}
			rest.weights[larger], whole.weights[larger] = whole.weights[larger], 0
		}
	}
	to = append(to, whole.sum())
	if apart {
		to = append(to, rest.sum())
	}
	return to
}

// sum fills the sums.
func (s pairStep) sum() pairStep {
	add := func(lane int, w int8) {
		magnitude := int(w)
		if w < 0 {
			lane, magnitude = lane+stepWeights/2, -magnitude
		}
		s.sums[lane/4] += uint64(magnitude) << (lane % 4 * 16)
		s.total += magnitude
	}
	for i, w := range s.weights {
		add(i/2, w)
	}
	return s
}

// fits reports whether the products of two steps can be added in 16 bits.
func (s *pairStep) fits(other *pairStep) bool {
	const lanes = 0x0001_0001_0001_0001
	for i, sum := range s.sums {
		if (sum+other.sums[i]+(0x8000-pairLimit-1)*lanes)&(0x8000*lanes) != 0 {
			return false
		}
	}
	return true
}

// matchSteps appends the steps of a strip in pairs, then what is left of them: each gets, from the heaviest down, the heaviest
// partner that it can be added to.
func matchSteps(packed, steps []pairStep) (all []pairStep, pairs, singles int) {
	slices.SortStableFunc(steps, func(a, b pairStep) int { return cmp.Compare(b.total, a.total) })
	const taken = -1
	var alone []int
	for i := range steps {
		if steps[i].total == taken {
			continue
		}
		partner := i + 1
		for partner < len(steps) && (steps[partner].total == taken || !steps[i].fits(&steps[partner])) {
			partner++
		}
		if partner == len(steps) {
			alone = append(alone, i)
			continue
		}
		packed = append(packed, steps[i], steps[partner])
		steps[partner].total = taken
		pairs++
	}
	for _, i := range alone {
		packed = append(packed, steps[i])
	}
	return packed, pairs, len(alone)
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
