package search

import (
	"math"
	"slices"
)

// scores are the log-probabilities of one row under all models.
type scores struct {
	candidates []Token     // nil for the whole vocabulary
	models     [][]float32 // each model's, owned by its Stepper
	sum        []float32   // weighted sums; -Inf for what is not allowed
	noisy      []float32
	heap       []int32
}

// score gathers the scores of hypothesis i in d.scores. It reports false if one is not finite.
func (d *Decoder) score(b *beam, i int) bool {
	s := &d.scores
	s.candidates = b.sentence.Source.Candidates
	s.models = s.models[:0]
	for m, stepper := range d.steppers {
		logProbs := stepper.LogProbs(int32(b.firstRow + i))
		s.models = append(s.models, logProbs)
		if m == 0 {
			s.sum = slices.Grow(s.sum[:0], len(logProbs))[:len(logProbs)]
			clear(s.sum)
		}
		if !addWeighted(s.sum, logProbs, d.weights[m]) {
			return false
		}
	}
	for _, token := range d.banned(b, i) {
		if index := candidateIndex(s.candidates, token); index >= 0 {
			s.sum[index] = negativeInfinity
		}
	}
	return true
}

// addWeighted adds weight × logProbs to sum. What is not allowed in one model is not allowed at all, whatever the weight. It
// reports false if a value is not finite.
func addWeighted(sum, logProbs []float32, weight float32) bool {
	for j, logProb := range logProbs[:len(sum)] {
		if logProb == negativeInfinity {
			sum[j] = negativeInfinity
			continue
		}
		if notFinite(logProb) {
			return false
		}
		sum[j] += float32(weight * logProb)
	}
	return true
}

// token is the candidate of an index.
func (s *scores) token(index int32) Token {
	if len(s.candidates) == 0 {
		return index
	}
	return s.candidates[index]
}

// candidateIndex is the index of a token among the candidates, or -1.
func candidateIndex(candidates []Token, token Token) int {
	if len(candidates) == 0 {
		return int(token)
	}
	if index, found := slices.BinarySearch(candidates, token); found {
		return index
	}
	return -1
}

// appendModels appends each model's log-probability of a candidate.
func (s *scores) appendModels(dst []float32, index int32) []float32 {
	for _, logProbs := range s.models {
		dst = append(dst, logProbs[index])
	}
	return dst
}

// addNoise makes noisy: the sums divided by the temperature, each with a Gumbel variate added. What is to be subtracted to
// normalise them is returned.
func (s *scores) addNoise(key uint64, inverseTemperature float64) float32 {
	s.noisy = slices.Grow(s.noisy[:0], len(s.sum))[:len(s.sum)]
	for j, x := range s.sum {
		if x == negativeInfinity {
			s.noisy[j] = negativeInfinity
			continue
		}
		s.noisy[j] = float32(float64(x)*inverseTemperature + gumbel(key, s.token(int32(j))))
	}
	return float32(logSumExp(s.noisy))
}

// logSumExp is log Σ exp(x), and -Inf for nothing but -Inf.
func logSumExp(xs []float32) float64 {
	highest := negativeInfinity
	for _, x := range xs {
		highest = max(highest, x)
	}
	if highest == negativeInfinity {
		return math.Inf(-1)
	}
	total := 0.0
	for _, x := range xs {
		if difference := float64(x - highest); difference > -50 { // what is below adds nothing to a float64
			total += math.Exp(difference)
		}
	}
	return float64(highest) + math.Log(total)
}

// largest appends the indices of the k largest values to dst, largest first, among equals the smaller index first. -Inf is
// left out.
func largest(dst []int32, values []float32, k int) []int32 {
	base := len(dst)
	for j, x := range values {
		if x == negativeInfinity {
			continue
		}
		if n := len(dst) - base; n == k {
			if !(x > values[dst[len(dst)-1]]) {
				continue
			}
			dst = dst[:len(dst)-1]
		}
		dst = append(dst, int32(j))
		for i := len(dst) - 1; i > base && x > values[dst[i-1]]; i-- {
			dst[i], dst[i-1] = dst[i-1], dst[i]
		}
	}
	return dst
}
