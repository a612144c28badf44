package search

import "math"

var negativeInfinity = float32(math.Inf(-1))

// extend chooses how a sentence's live hypotheses go on, and makes it so.
func (d *Decoder) extend(b *beam) {
	d.chosen, d.logProbs = d.chosen[:0], d.logProbs[:0]
	var ok bool
	switch {
	case b.mode == modeForced:
		ok = d.extendForced(b)
	case b.mode == modeBest:
		ok = d.extendBest(b)
	case b.options.Sampling.independent():
		ok = d.extendSamples(b)
	case b.mode == modeTop:
		ok = d.extendTop(b)
	case b.mode == modeJoint:
		ok = d.extendJoint(b)
	default:
		ok = d.extendFull(b)
	}
	switch {
	case !ok:
		b.fail()
	case len(d.chosen) == 0:
		b.strand()
	default:
		b.fanned = b.fanned || b.mode != modeForced
		d.place(b, d.chosen)
	}
}

// extendForced goes on with the token that the prefix gives. The functions below report false if a score is not finite.
func (d *Decoder) extendForced(b *beam) bool {
	token := b.sentence.Prefix[b.length]
	for i := range b.live {
		e := expansion{row: i, token: token}
		if b.trellis.models > 0 {
			e.logProbs = len(d.logProbs)
			for m := range d.steppers {
				logProb := d.givenLogProb(b, i, m)
				if notFinite(logProb) {
					return false
				}
				d.logProbs = append(d.logProbs, logProb)
				e.score += float32(d.weights[m] * logProb)
			}
			node := b.live[i].node
			e.rank = b.trellis.rank(node) + e.score
			e.score = b.trellis.score(node) + e.score
		}
		d.chosen = append(d.chosen, e)
	}
	return true
}

// extendBest is the greedy step without scores.
func (d *Decoder) extendBest(b *beam) bool {
	best := b.question.answers[b.answer]
	if notFinite(best.Score) {
		return false
	}
	if best.Token != NoToken && best.Score != negativeInfinity {
		d.chosen = append(d.chosen, expansion{token: best.Token})
	}
	return true
}

// extendTop is a step of the beam of a single model, whose best continuations of each row are known.
func (d *Decoder) extendTop(b *beam) bool {
	width := b.width()
	for i := range b.live {
		for _, answer := range d.topAnswers(b, i) {
			if notFinite(answer.Score) {
				return false
			}
			if answer.Token == NoToken || answer.Score == negativeInfinity {
				break
			}
			score := float32(d.weights[0] * answer.Score)
			node := b.live[i].node
			e := expansion{
				row: i, token: answer.Token, logProbs: len(d.logProbs),
				score: b.trellis.score(node) + score, rank: b.trellis.rank(node) + score,
			}
			if !d.choose(e, width) {
				break
			}
			d.logProbs = append(d.logProbs, answer.Score)
		}
	}
	return true
}

// topAnswers are the answers to the question Top for hypothesis i, as many as its sentence asked for.
func (d *Decoder) topAnswers(b *beam, i int) []Scored {
	first := b.answer + i*b.answers
	return b.question.answers[first : first+d.topWanted(b)]
}

// jointAnswers are those of the Joint for hypothesis i, and the log-probabilities of all models for each of them.
func (d *Decoder) jointAnswers(b *beam, i int) (answers []Scored, parts []float32) {
	first, models := b.answer+i*b.answers, len(d.steppers)
	return b.question.answers[first : first+d.jointlyWanted(b)], d.parts[first*models : (first+d.jointlyWanted(b))*models]
}

// extendJoint is a step of the beam of an ensemble, or with noise, of which the best continuations of each row are known.
func (d *Decoder) extendJoint(b *beam) bool {
	width, models := b.width(), len(d.steppers)
	for i := range b.live {
		node := b.live[i].node
		answers, parts := d.jointAnswers(b, i)
		for n, answer := range answers {
			if notFinite(answer.Score) {
				return false
			}
			if answer.Token == NoToken || answer.Score == negativeInfinity {
				break
			}
			own, score := parts[n*models:(n+1)*models], answer.Score
			if b.options.Sampling.Method == Gumbel { // the answer's is with noise
				score = 0
				for m, logProb := range own {
					score += float32(d.weights[m] * logProb)
				}
			}
			e := expansion{
				row: i, token: answer.Token, logProbs: len(d.logProbs),
				score: b.trellis.score(node) + score, rank: b.trellis.rank(node) + answer.Score,
			}
			if !d.choose(e, width) {
				break
			}
			d.logProbs = append(d.logProbs, own...)
		}
	}
	return true
}

// extendFull is a step of the beam of an ensemble, or with noise, without a Joint.
func (d *Decoder) extendFull(b *beam) bool {
	width := b.width()
	for i := range b.live {
		if !d.score(b, i) {
			return false
		}
		node := b.live[i].node
		ranks, shift := d.scores.sum, float32(0)
		if b.options.Sampling.Method == Gumbel {
			key := stepKey(b.key, b.length, i)
			shift = d.scores.addNoise(key, b.options.Sampling.inverseTemperature())
			ranks = d.scores.noisy
		}
		d.picked = largest(d.picked[:0], ranks, width)
		for _, index := range d.picked {
			e := expansion{
				row: i, token: d.scores.token(index), logProbs: len(d.logProbs),
				score: b.trellis.score(node) + d.scores.sum[index], rank: b.trellis.rank(node) + (ranks[index] - shift),
			}
			if !d.choose(e, width) {
				break
			}
			d.logProbs = d.scores.appendModels(d.logProbs, index)
		}
	}
	return true
}

// choose puts an expansion into chosen, which holds the width best: higher ranks first, among equals those that came first.
// It reports whether there was room.
func (d *Decoder) choose(e expansion, width int) bool {
	n := len(d.chosen)
	if n == width {
		if !(e.rank > d.chosen[n-1].rank) {
			return false
		}
		d.chosen = d.chosen[:n-1]
	}
	d.chosen = append(d.chosen, e)
	for i := len(d.chosen) - 1; i > 0 && d.chosen[i].rank > d.chosen[i-1].rank; i-- {
		d.chosen[i], d.chosen[i-1] = d.chosen[i-1], d.chosen[i]
	}
	return true
}

// notFinite says whether a log-probability or score is one that sound arithmetic cannot give. Minus infinity stands for a
// token that is not allowed.
func notFinite(x float32) bool { return x != x || x > math.MaxFloat32 }
