package mert

import (
	"cmp"
	"math"
	"slices"
)

// A ray is the total of a candidate along a line of weights: base + step·slope.
type ray struct {
	base, slope float64
	candidate   int
}

// A change is a place on the line from which on another candidate of a sentence wins.
type change struct {
	step     float64
	sentence int
	from, to int
}

// line finds the step along a direction at which the chosen candidates score best, and what they score. If no other place is
// better than that of the weights, the step is 0.
func (p *Problem) line(weights, direction []float64) (step, points float64) {
	counts := make([]int64, len(p.Sentences[0][0].Counts))
	var changes []change
	var rays []ray
	for i, candidates := range p.Sentences {
		rays = rays[:0]
		for j := range candidates {
			rays = append(rays, ray{product(candidates[j].Features, weights), product(candidates[j].Features, direction), j})
		}
		var first int
		first, changes = envelope(rays, i, changes)
		for j, n := range candidates[first].Counts {
			counts[j] += n
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.sentence, b.sentence))
	})
	return p.sweep(counts, changes)
}

// envelope appends the changes of a sentence, whose rays it sorts, and returns the candidate that wins before the first. The
// winners are those on the upper side of all rays, from the least slope to the greatest.
func envelope(rays []ray, sentence int, changes []change) (first int, _ []change) {
	slices.SortFunc(rays, func(a, b ray) int {
		return cmp.Or(cmp.Compare(a.slope, b.slope), cmp.Compare(b.base, a.base), cmp.Compare(a.candidate, b.candidate))
	})
	top := rays[:0] // no more than were read
	for i, r := range rays {
		if i > 0 && len(top) > 0 && r.slope == top[len(top)-1].slope {
			continue // parallel to one that is at least as high
		}
		for len(top) > 1 && crossing(top[len(top)-2], r) <= crossing(top[len(top)-2], top[len(top)-1]) {
			top = top[:len(top)-1]
		}
		top = append(top, r)
	}
	for i := 1; i < len(top); i++ {
		changes = append(changes, change{crossing(top[i-1], top[i]), sentence, top[i-1].candidate, top[i].candidate})
	}
	return top[0].candidate, changes
}

// crossing is the step from which on b, whose slope is greater, is above a.
func crossing(a, b ray) float64 { return (a.base - b.base) / (b.slope - a.slope) }

// sweep goes through the changes in order, from the counts before the first.
func (p *Problem) sweep(counts []int64, changes []change) (step, points float64) {
	step, points = math.Inf(-1), math.Inf(-1)
	from := math.Inf(-1)
	for i := 0; ; {
		to := math.Inf(1)
		if i < len(changes) {
			to = changes[i].step
		}
		if wide(from, to) {
			here, score := middle(from, to), p.Points(counts)
			if score > points || score == points && math.Abs(here) < math.Abs(step) {
				step, points = here, score
			}
		}
		if i == len(changes) {
			return step, points
		}
		for ; i < len(changes) && changes[i].step == to; i++ {
			c := &changes[i]
			before, after := p.Sentences[c.sentence][c.from].Counts, p.Sentences[c.sentence][c.to].Counts
			for j := range counts {
				counts[j] += after[j] - before[j]
			}
		}
		from = to
	}
}

// wide says whether there is room between two places for a third that rounding does not put elsewhere.
func wide(from, to float64) bool {
	return math.IsInf(from, -1) || math.IsInf(to, 1) || to-from > 1e-9*(1+math.Min(math.Abs(from), math.Abs(to)))
}

// middle is a place between two, the one nearest to 0 where 0 is between them.
func middle(from, to float64) float64 {
	switch {
	case from < 0 && to > 0:
		return 0
	case math.IsInf(from, -1):
		return to - 1
	case math.IsInf(to, 1):
		return from + 1
	}
	return from + (to-from)/2
}
