package search

import (
	"math"
	"slices"
)

// extendSamples draws the next token of every independent sample.
func (d *Decoder) extendSamples(b *beam) bool {
	for i := range b.live {
		h := &b.live[i]
		e := expansion{row: i, logProbs: len(d.logProbs)}
		var drawn, ok bool
		switch b.mode {
		case modeTop:
			drawn, ok = d.drawTop(b, i, &e)
		case modeJoint:
			drawn, ok = d.drawJoint(b, i, &e)
		default:
			drawn, ok = d.drawFull(b, i, &e)
		}
		if !ok {
			return false
		}
		if !drawn {
			continue
		}
		e.score += b.trellis.score(h.node)
		e.rank = e.score
		d.chosen = append(d.chosen, e)
	}
	if len(d.chosen) > 0 && len(d.chosen) < len(b.live) {
		b.finishUndrawn(d.chosen)
	}
	return true
}

// chance is the number by which an independent sample draws its next token.
func (b *beam) chance(number int) float64 { return uniform(stepKey(b.key, b.length, number)) }

// finishUndrawn ends the samples that cannot go on, while others can.
func (b *beam) finishUndrawn(chosen []expansion) {
	for i, h := range b.live {
		if !slices.ContainsFunc(chosen, func(e expansion) bool { return e.row == i }) {
			b.finish(h.node, h.number, false)
		}
	}
}

// drawTop draws from the answers of Top. The two functions put the token and its own score into e; drawn is false if no token
// is allowed, ok if a score is not finite.
func (d *Decoder) drawTop(b *beam, i int, e *expansion) (drawn, ok bool) {
	answers := d.topAnswers(b, i)
	number, ok := d.drawAmong(b, i, answers, d.weights[0])
	if number < 0 {
		return false, ok
	}
	answer := answers[number]
	e.token, e.score = answer.Token, float32(d.weights[0]*answer.Score)
	d.logProbs = append(d.logProbs, answer.Score)
	return true, true
}

// drawJoint draws from the answers of the Joint, or takes the one that it has drawn.
func (d *Decoder) drawJoint(b *beam, i int, e *expansion) (drawn, ok bool) {
	answers, parts := d.jointAnswers(b, i)
	number, ok := d.drawAmong(b, i, answers, 1)
	if number < 0 {
		return false, ok
	}
	e.token, e.score = answers[number].Token, answers[number].Score
	d.logProbs = append(d.logProbs, parts[number*len(d.steppers):(number+1)*len(d.steppers)]...)
	return true, true
}

// drawAmong returns the number of the answer that a sample draws, -1 if none is allowed. ok is false if a score is not finite.
func (d *Decoder) drawAmong(b *beam, i int, answers []Scored, weight float32) (number int, ok bool) {
	d.odds = d.odds[:0]
	for _, answer := range answers {
		if notFinite(answer.Score) {
			return -1, false
		}
		if answer.Token == NoToken || answer.Score == negativeInfinity {
			break
		}
		difference := float64(float32(weight*answer.Score) - float32(weight*answers[0].Score))
		d.odds = append(d.odds, math.Exp(difference*b.options.Sampling.inverseTemperature()))
	}
	if len(d.odds) == 0 {
		return -1, true
	}
	return draw(d.odds, b.chance(b.live[i].number)), true
}

// drawFull draws from the log-probabilities of all candidates.
func (d *Decoder) drawFull(b *beam, i int, e *expansion) (drawn, ok bool) {
	if !d.score(b, i) {
		return false, false
	}
	d.picked = d.scores.support(d.picked[:0], &b.options.Sampling)
	if len(d.picked) == 0 {
		return false, true
	}
	highest := negativeInfinity
	for _, index := range d.picked {
		highest = max(highest, d.scores.sum[index])
	}
	inverse := b.options.Sampling.inverseTemperature()
	d.odds = d.odds[:0]
	for _, index := range d.picked {
		d.odds = append(d.odds, odds(float64(d.scores.sum[index]-highest)*inverse))
	}
	index := d.picked[draw(d.odds, b.chance(b.live[i].number))]
	e.token, e.score = d.scores.token(index), d.scores.sum[index]
	d.logProbs = d.scores.appendModels(d.logProbs, index)
	return true, true
}

// odds is exp(x), or 0 where that is too small to be drawn by a number of 53 bits.
func odds(x float64) float64 {
	if x < -60 {
		return 0
	}
	return math.Exp(x)
}

// draw turns u in (0, 1) into an index, each with a probability proportional to its odds.
func draw(odds []float64, u float64) int {
	total := 0.0
	for _, x := range odds {
		total += x
	}
	sum, last := 0.0, 0
	for i, x := range odds {
		if x == 0 {
			continue
		}
		sum += x
		last = i
		if sum > u*total {
			break
		}
	}
	return last
}

// support appends to dst the indices of the candidates that a sampling method draws from.
func (s *scores) support(dst []int32, sampling *Sampling) []int32 {
	switch sampling.Method {
	case TopK:
		return largest(dst, s.sum, sampling.K)
	case Nucleus:
		return s.nucleus(dst, float64(sampling.P))
	}
	least := math.Inf(-1)
	if sampling.Method == Epsilon {
		least = logSumExp(s.sum) + math.Log(float64(sampling.Epsilon))
		highest := negativeInfinity
		for _, x := range s.sum {
			highest = max(highest, x)
		}
		least = min(least, float64(highest)) // the best is always in
	}
	for j, x := range s.sum {
		if x != negativeInfinity && float64(x) >= least {
			dst = append(dst, int32(j))
		}
	}
	return dst
}

// nucleus appends the indices of the fewest most probable candidates whose probabilities reach p together.
func (s *scores) nucleus(dst []int32, p float64) []int32 {
	total := logSumExp(s.sum)
	s.heap = s.heap[:0]
	for j, x := range s.sum {
		if x != negativeInfinity {
			s.heap = append(s.heap, int32(j))
		}
	}
	for i := len(s.heap)/2 - 1; i >= 0; i-- {
		s.sift(i)
	}
	mass := 0.0
	for len(s.heap) > 0 && (mass < p || len(dst) == 0) {
		top := s.heap[0]
		mass += math.Exp(float64(s.sum[top]) - total)
		dst = append(dst, top)
		last := len(s.heap) - 1
		s.heap[0] = s.heap[last]
		s.heap = s.heap[:last]
		s.sift(0)
	}
	return dst
}

// sift restores the heap below i: the largest sum on top, among equals the smaller index.
func (s *scores) sift(i int) {
	for {
		child := 2*i + 1
		if child >= len(s.heap) {
			return
		}
		if right := child + 1; right < len(s.heap) && s.above(right, child) {
			child = right
		}
		if !s.above(child, i) {
			return
		}
		s.heap[i], s.heap[child] = s.heap[child], s.heap[i]
		i = child
	}
}

func (s *scores) above(i, j int) bool {
	x, y := s.sum[s.heap[i]], s.sum[s.heap[j]]
	return x > y || x == y && s.heap[i] < s.heap[j]
}
