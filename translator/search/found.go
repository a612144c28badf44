package search

import "slices"

// found is the memory of the hypotheses that a step has ended, which the next step uses again.
type found struct {
	hypotheses []Hypothesis
	ids        []Token
	sums       []float32 // cut up from its beginning, for callers to keep
}

// sumsAtOnce is how many sums of log-probabilities are allocated together. As long as a caller keeps one of them, all of them stay.
const sumsAtOnce = 256

func (f *found) reset() {
	clear(f.hypotheses)
	f.hypotheses, f.ids = f.hypotheses[:0], f.ids[:0]
}

// list returns n hypotheses without anything in them. Lists given before stay what they are.
func (f *found) list(n int) []Hypothesis {
	first := len(f.hypotheses)
	f.hypotheses = slices.Grow(f.hypotheses, n)[:first+n]
	return f.hypotheses[first : first+n : first+n]
}

// tokens returns memory for n tokens.
func (f *found) tokens(n int) []Token {
	first := len(f.ids)
	f.ids = slices.Grow(f.ids, n)[:first+n]
	return f.ids[first : first+n : first+n]
}

// modelScores returns memory for the sums of n models, which is not used again.
func (f *found) modelScores(n int) []float32 {
	if n > len(f.sums) {
		f.sums = make([]float32, max(n, sumsAtOnce))
	}
	scores := f.sums[:n:n]
	f.sums = f.sums[n:]
	return scores
}
