// Package mert tunes the weights of linear models: those with which the best candidates of a development set score best as a
// corpus. It is minimum error rate training (Och, "Minimum Error Rate Training in Statistical Machine Translation", 2003): along
// a line through the space of weights, the candidate that wins in each sentence changes at finitely many places, so that the
// best place on the line is found exactly.
package mert

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// A Candidate is a translation that can be chosen for a sentence.
type Candidate struct {
	Features []float64
	Counts   []int64 // what the metric counts in it; counts of sentences are summed
}

// A Problem is what weights are sought for.
type Problem struct {
	// Sentences hold the candidates of each sentence, at least one. The one with the greatest weighted sum of features is
	// chosen, among equal ones the first.
	Sentences [][]Candidate
	// Points turns the summed counts of the chosen candidates into a score, the higher the better. It is called by several
	// goroutines.
	Points func(counts []int64) float64
}

// Options say how hard to look.
type Options struct {
	Starts int    // random weights from which the search sets out, beside the given ones
	Seed   uint64 // of those; the same seed gives the same weights
	// Workers are the goroutines that search. Their number changes nothing.
	Workers int
}

// A Tuning is what was found.
type Tuning struct {
	Weights       []float64 // their magnitudes add up to 1, unless all are zero
	Before, After float64   // points of the given weights, and of these
}

// ErrProblem is wrapped by the errors of Tune.
var ErrProblem = errors.New("weights cannot be tuned")

// Tune looks for the best weights, from the given ones and from random ones. It ends in a local optimum: no change of a single
// weight, and none in a few random directions, makes the score better.
func Tune(p Problem, weights []float64, o Options) (Tuning, error) {
	if err := p.check(weights); err != nil {
		return Tuning{}, err
	}
	spread := p.spread(len(weights))
	found := make([]result, 1+o.Starts)
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range max(o.Workers, 1) {
		workers.Go(func() {
			for i := range numbers {
				random := rand.New(rand.NewPCG(o.Seed, uint64(i)))
				start := slices.Clone(weights)
				if i > 0 {
					start = randomDirection(random, spread)
				}
				found[i] = p.climb(start, spread, random)
			}
		})
	}
	for i := range found {
		numbers <- i
	}
	close(numbers)
	workers.Wait()

	best := slices.MaxFunc(found, func(a, b result) int { return cmp.Compare(a.points, b.points) }) // the first of equal ones
	before := p.points(weights)
	return Tuning{Weights: normalised(best.weights), Before: before, After: p.points(best.weights)}, nil
}

// A result is weights with their score.
type result struct {
	weights []float64
	points  float64
}

func (p *Problem) check(weights []float64) error {
	if len(p.Sentences) == 0 || len(weights) == 0 {
		return fmt.Errorf("%w: there are %d sentences and %d features", ErrProblem, len(p.Sentences), len(weights))
	}
	for i, candidates := range p.Sentences {
		if len(candidates) == 0 {
			return fmt.Errorf("%w: sentence %d has no candidates", ErrProblem, i+1)
		}
		for _, c := range candidates {
			if len(c.Features) != len(weights) || len(c.Counts) != len(p.Sentences[0][0].Counts) {
				return fmt.Errorf("%w: a candidate of sentence %d has %d features and %d counts, but there are %d weights and the first candidate has %d counts",
					ErrProblem, i+1, len(c.Features), len(c.Counts), len(weights), len(p.Sentences[0][0].Counts))
			}
			if slices.ContainsFunc(c.Features, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
				return fmt.Errorf("%w: a candidate of sentence %d has a feature that is not a finite number", ErrProblem, i+1)
			}
		}
	}
	return nil
}

// spread is how much each feature differs among the candidates of a sentence: the standard deviation, over all sentences. A
// feature that tells no candidates apart has 1.
func (p *Problem) spread(features int) []float64 {
	squares, n := make([]float64, features), 0
	for _, candidates := range p.Sentences {
		mean := make([]float64, features)
		for _, c := range candidates {
			for k, x := range c.Features {
				mean[k] += x / float64(len(candidates))
			}
		}
		for _, c := range candidates {
			for k, x := range c.Features {
				squares[k] += (x - mean[k]) * (x - mean[k])
			}
		}
		n += len(candidates)
	}
	for k, square := range squares {
		if squares[k] = math.Sqrt(square / float64(n)); squares[k] == 0 {
			squares[k] = 1
		}
	}
	return squares
}

// randomDirection draws weights under which every feature has about as much to say.
func randomDirection(random *rand.Rand, spread []float64) []float64 {
	weights := make([]float64, len(spread))
	for k := range weights {
		weights[k] = random.NormFloat64() / spread[k]
	}
	return weights
}

// most rounds are enough for any climb: each makes the score better.
const mostRounds = 100

// leastGain is the least gain in points that is worth a change of the weights.
const leastGain = 1e-9

// climb goes from weights to weights, in each round along the direction that gains most.
func (p *Problem) climb(weights, spread []float64, random *rand.Rand) result {
	at := result{weights: weights, points: p.points(weights)}
	for range mostRounds {
		best := at
		for _, direction := range directions(spread, random) {
			step, points := p.line(at.weights, direction)
			if points > best.points+leastGain {
				best = result{along(at.weights, direction, step), points}
			}
		}
		// The line promises what the sums of features say there. Rounding may tell otherwise where candidates are all but equal.
		if best.points = p.points(best.weights); best.points <= at.points+leastGain {
			break
		}
		at = best
	}
	return at
}

// directions are those in which one weight changes, and as many random ones.
func directions(spread []float64, random *rand.Rand) [][]float64 {
	var all [][]float64
	for k := range spread {
		axis := make([]float64, len(spread))
		axis[k] = 1 / spread[k]
		all = append(all, axis, randomDirection(random, spread))
	}
	return all
}

func along(weights, direction []float64, step float64) []float64 {
	moved := make([]float64, len(weights))
	for k := range moved {
		moved[k] = weights[k] + step*direction[k]
	}
	return moved
}

func normalised(weights []float64) []float64 {
	total := 0.0
	for _, weight := range weights {
		total += math.Abs(weight)
	}
	if total == 0 {
		return weights
	}
	scaled := make([]float64, len(weights))
	for k, weight := range weights {
		scaled[k] = weight / total
	}
	return scaled
}

func product(a, b []float64) float64 {
	sum := 0.0
	for k, x := range a {
		sum += x * b[k]
	}
	return sum
}

// points scores the choice that weights make.
func (p *Problem) points(weights []float64) float64 {
	counts := make([]int64, len(p.Sentences[0][0].Counts))
	for _, candidates := range p.Sentences {
		best, highest := 0, math.Inf(-1)
		for i := range candidates {
			if total := product(candidates[i].Features, weights); total > highest {
				best, highest = i, total
			}
		}
		for j, n := range candidates[best].Counts {
			counts[j] += n
		}
	}
	return p.Points(counts)
}
