package search

import (
	"math"
	"slices"
)

// naive is a second reading of the search, for one sentence and with no regard for speed: every hypothesis carries all that
// is known of it, every continuation is written down and sorted.
type naive struct {
	models  []*fakeModel
	weights []float32
	options Options
	source  Source
	prefix  []Token
	seed    uint64
}

type naiveHypothesis struct {
	tokens     []Token
	score      float32
	noisy      float32
	own        float32 // of the last token alone, with noise
	models     []float32
	wordScores []float32
	alignment  [][]float32
}

func (n *naive) weight(m int) float32 {
	if n.weights == nil {
		return 1
	}
	return n.weights[m]
}

func (n *naive) repeats(tokens []Token, token Token) bool {
	size := n.options.NoRepeat
	all := append(slices.Clone(tokens), token)
	if size == 0 || len(all) < size {
		return false
	}
	gram := all[len(all)-size:]
	for i := 0; i+size < len(all); i++ {
		if slices.Equal(all[i:i+size], gram) {
			return true
		}
	}
	return false
}

// extensions are all continuations of a hypothesis, which is the number-th of its step, in the order of their tokens.
func (n *naive) extensions(h naiveHypothesis, number int) []naiveHypothesis {
	candidates := n.source.Candidates
	if candidates == nil {
		candidates = allTokens(n.models[0].vocabulary)
	}
	var out []naiveHypothesis
	var rows [][]float32
	for _, model := range n.models {
		rows = append(rows, model.logProbs(n.source, h.tokens))
	}
	sums := make([]float32, len(candidates))
	for j, token := range candidates {
		for m := range rows {
			if rows[m][j] == negativeInfinity {
				sums[j] = negativeInfinity
			} else if sums[j] != negativeInfinity {
				sums[j] += n.weight(m) * rows[m][j]
			}
		}
		if n.repeats(h.tokens, token) {
			sums[j] = negativeInfinity
		}
	}
	noise := slices.Clone(sums)
	if n.options.Sampling.Method == Gumbel {
		temperature := 1.0
		if n.options.Sampling.Temperature != 0 {
			temperature = float64(n.options.Sampling.Temperature)
		}
		key := stepKey(sentenceKey(n.options.Seed, n.seed), len(h.tokens), number)
		total := 0.0
		for j, token := range candidates {
			if sums[j] != negativeInfinity {
				noise[j] = float32(float64(sums[j])/temperature + gumbel(key, token))
				total += math.Exp(float64(noise[j]))
			}
		}
		for j := range noise {
			noise[j] -= float32(math.Log(total))
		}
	}
	for j, token := range candidates {
		if sums[j] == negativeInfinity {
			continue
		}
		next := n.append(h, token, sums[j], noise[j])
		for m := range rows {
			next.models = append(next.models, rows[m][j]+modelSum(h, m))
		}
		out = append(out, next)
	}
	return out
}

func modelSum(h naiveHypothesis, m int) float32 {
	if len(h.models) == 0 {
		return 0
	}
	return h.models[m]
}

func (n *naive) append(h naiveHypothesis, token Token, score, noisy float32) naiveHypothesis {
	total := h.score + score
	return naiveHypothesis{
		tokens: append(slices.Clone(h.tokens), token), score: total, noisy: h.noisy + noisy, own: noisy,
		wordScores: append(slices.Clone(h.wordScores), total-h.score),
		alignment:  append(slices.Clone(h.alignment), n.models[0].attention(n.source.Tokens, h.tokens)),
	}
}

// force is the one continuation that the prefix gives.
func (n *naive) force(h naiveHypothesis, token Token) naiveHypothesis {
	score := float32(0)
	var models []float32
	for m, model := range n.models {
		index := candidateIndex(n.source.Candidates, token)
		x := float32(0)
		if index >= 0 {
			if x = model.logProbs(n.source, h.tokens)[index]; x == negativeInfinity {
				x = 0
			}
		}
		score += n.weight(m) * x
		models = append(models, modelSum(h, m)+x)
	}
	next := n.append(h, token, score, score)
	next.models = models
	return next
}

func (n *naive) total(score float32, length int) float32 {
	x := score - n.options.WordPenalty*float32(length)
	return x / float32(math.Pow(float64(length), float64(n.options.Normalize)))
}

// search returns all hypotheses that the beam ends with, best first.
func (n *naive) search() []Hypothesis {
	type ended struct {
		naiveHypothesis
		finished bool
	}
	var final []ended
	beam := []naiveHypothesis{{}}
	width := n.options.Beam
	limit := 1
	for float32(limit) < n.options.MaxLengthFactor*float32(len(n.source.Tokens)) || limit <= len(n.prefix) {
		limit++
	}
	for length := 1; len(beam) > 0; length++ {
		var all []naiveHypothesis
		if length <= len(n.prefix) {
			all = append(all, n.force(beam[0], n.prefix[length-1]))
		} else {
			for number, h := range beam {
				next := n.extensions(h, number)
				slices.SortStableFunc(next, func(a, b naiveHypothesis) int { return descending(a.own, b.own) })
				all = append(all, next...)
			}
			slices.SortStableFunc(all, func(a, b naiveHypothesis) int { return descending(a.noisy, b.noisy) })
			all = all[:min(len(all), width)]
		}
		if len(all) == 0 {
			for _, h := range beam {
				final = append(final, ended{h, false})
			}
			break
		}
		beam = nil
		for _, h := range all {
			if finished := lastOf(h.tokens) == end; finished || length >= limit {
				final = append(final, ended{h, finished})
			} else {
				beam = append(beam, h)
			}
		}
		if length > len(n.prefix) {
			width = len(beam)
		}
		if stop := n.options.StopBelow; stop > 0 && len(final) > 0 && len(beam) > 0 {
			penalised := func(h naiveHypothesis) float32 { return h.noisy - n.options.WordPenalty*float32(len(h.tokens)) }
			best, open := negativeInfinity, negativeInfinity
			for _, h := range final {
				best = max(best, n.total(h.noisy, len(h.tokens)))
			}
			for _, h := range beam {
				open = max(open, penalised(h))
			}
			if open < best*float32(math.Pow(float64(length), float64(n.options.Normalize)))-stop {
				break
			}
		}
	}
	slices.SortStableFunc(final, func(a, b ended) int {
		return descending(n.total(a.noisy, len(a.tokens)), n.total(b.noisy, len(b.tokens)))
	})
	var out []Hypothesis
	for _, h := range final {
		out = append(out, Hypothesis{
			Tokens: h.tokens, Finished: h.finished, Score: n.total(h.score, len(h.tokens)), ModelScores: h.models,
			WordScores: h.wordScores, Alignment: h.alignment,
		})
	}
	return out
}

func descending(x, y float32) int {
	switch {
	case x > y:
		return -1
	case x < y:
		return 1
	}
	return 0
}
