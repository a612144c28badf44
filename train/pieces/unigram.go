package pieces

import (
	"context"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// An estimator learns the probabilities of pieces from the words.
type estimator struct {
	words   *words
	workers int
	block   int // words that a worker takes at a time
	// unit is what a count of one is as an integer: sums of integers do not depend on the order.
	unit float64
}

func newEstimator(w *words, workers int) *estimator {
	// No sum exceeds the number of characters.
	shift := min(40, 62-bits.Len64(uint64(w.total)))
	return &estimator{words: w, workers: workers, block: 1024, unit: math.Ldexp(1, shift)}
}

// A path is a piece of a word in one of the ways to divide it.
type path struct {
	end   int32
	piece int32
	share float64 // probability that a division that has come to its start takes it; at first the logarithm of it and a constant
}

// A lattice has all ways to divide one word.
type lattice struct {
	paths  []path
	first  []int32   // index of the first path from each place, which end where those of the place before begin
	beyond []float64 // score of all ways from each place to the end of the word
	mass   []float64 // probability that a division comes to each place
	best   []int32   // path of the best way from each place
}

// eachWord calls f for all words, in several goroutines, with the number of the worker.
func (e *estimator) eachWord(ctx context.Context, f func(worker, word int)) error {
	return eachIndex(ctx, e.words.len(), e.block, e.workers, f)
}

// eachIndex calls f for all indices below n, in several goroutines that take blocks of so many at a time, with the number of the worker.
func eachIndex(ctx context.Context, n, block, workers int, f func(worker, index int)) error {
	next := atomic.Int64{}
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for ctx.Err() == nil {
				low := int(next.Add(int64(block))) - block
				if low >= n {
					return
				}
				for i := low; i < min(low+block, n); i++ {
					f(worker, i)
				}
			}
		})
	}
	group.Wait()
	return ctx.Err()
}

// An expectation is what the pieces are expected to do in the text.
type expectation struct {
	counts []float64 // by piece
	// likelihood is the mean logarithm of the probability of a word.
	likelihood float64
}

// expect returns how often each piece is expected in the text, over all divisions of all words.
func (e *estimator) expect(ctx context.Context, l *lexicon) (expectation, error) {
	sums := make([][]int64, e.workers)
	lattices := make([]lattice, e.workers)
	for i := range sums {
		sums[i] = make([]int64, len(l.pieces))
	}
	scores := make([]float64, e.words.len())
	err := e.eachWord(ctx, func(worker, i int) {
		count := float64(e.words.counts[i])
		t := &lattices[worker]
		scores[i] = count * t.fill(l, e.words.word(i))
		t.distribute(count*e.unit, sums[worker])
	})
	result := expectation{counts: make([]float64, len(l.pieces))}
	for i := range result.counts {
		sum := int64(0)
		for _, of := range sums {
			sum += of[i]
		}
		result.counts[i] = float64(sum) / e.unit
	}
	occurrences := int64(0)
	for i, score := range scores {
		result.likelihood += score
		occurrences += e.words.counts[i]
	}
	result.likelihood /= float64(occurrences)
	return result, err
}

// fill finds all ways to divide a word and returns the logarithm of its probability.
func (t *lattice) fill(l *lexicon, word []symbol) float64 {
	n := len(word)
	t.paths = t.paths[:0]
	t.beyond = append(t.beyond[:0], make([]float64, n+1)...)
	t.first = append(t.first[:0], make([]int32, n+1)...)
	for start := n - 1; start >= 0; start-- {
		first := len(t.paths)
		t.first[start] = int32(first)
		highest := math.Inf(-1)
		for node, end := l.roots[word[start]], start+1; node != 0; end++ {
			if p := l.nodes[node].piece; p >= 0 {
				score := l.pieces[p].score + t.beyond[end]
				highest = max(highest, score)
				t.paths = append(t.paths, path{int32(end), p, score})
			}
			if end == n {
				break
			}
			node = l.next(node, word[end])
		}
		from := t.paths[first:]
		if len(from) == 1 {
			t.beyond[start], from[0].share = highest, 1
			continue
		}
		sum := 0.0
		for i := range from {
			from[i].share = math.Exp(from[i].share - highest)
			sum += from[i].share
		}
		for i := range from {
			from[i].share /= sum
		}
		t.beyond[start] = highest + math.Log(sum)
	}
	return t.beyond[0]
}

// pathsFrom returns the paths from a place.
func (t *lattice) pathsFrom(start int) []path {
	if start == 0 {
		return t.paths[t.first[0]:]
	}
	return t.paths[t.first[start]:t.first[start-1]]
}

// distribute adds the count of the word to its pieces, each way of dividing it by its probability.
func (t *lattice) distribute(count float64, sums []int64) {
	n := len(t.first) - 1
	t.mass = append(t.mass[:0], make([]float64, n+1)...)
	t.mass[0] = 1
	for start := range n {
		if t.mass[start] == 0 {
			continue
		}
		for _, p := range t.pathsFrom(start) {
			mass := t.mass[start] * p.share
			t.mass[p.end] += mass
			sums[p.piece] += int64(math.Round(mass * count))
		}
	}
}

// divide finds the most probable way to divide a word, leaving out one piece, -1 for none, and returns the logarithm of its
// probability. t.best then has its paths.
func (t *lattice) divide(l *lexicon, word []symbol, without int32) float64 {
	n := len(word)
	t.paths = t.paths[:0]
	t.beyond = append(t.beyond[:0], make([]float64, n+1)...)
	t.best = append(t.best[:0], make([]int32, n+1)...)
	for start := n - 1; start >= 0; start-- {
		t.beyond[start] = math.Inf(-1)
		for node, end := l.roots[word[start]], start+1; node != 0; end++ {
			if p := l.nodes[node].piece; p >= 0 && p != without {
				// The longest of equals wins.
				if score := l.pieces[p].score + t.beyond[end]; score >= t.beyond[start] {
					t.beyond[start] = score
					t.best[start] = int32(len(t.paths))
					t.paths = append(t.paths, path{end: int32(end), piece: p})
				}
			}
			if end == n {
				break
			}
			node = l.next(node, word[end])
		}
	}
	return t.beyond[0]
}

// bestPieces calls f with the pieces of the way that divide has found.
func (t *lattice) bestPieces(f func(piece int32)) {
	for start := 0; start < len(t.best)-1; {
		p := t.paths[t.best[start]]
		f(p.piece)
		start = int(p.end)
	}
}

// leastCount is the expected count below which a piece is dropped.
const leastCount = 0.5

// maximise returns the pieces with the probabilities that the counts give, without those that are hardly expected. As in variational
// Bayes (Liang and Klein 2007), exp(digamma(count)) takes the place of the count, which takes most from the rare.
func maximise(l *lexicon, counts []float64) []piece {
	var kept []piece
	sum := 0.0
	for i, p := range l.pieces {
		count := counts[i]
		if len(p.text) == 1 {
			count = max(count, leastCount)
		}
		if count >= leastCount {
			kept = append(kept, piece{p.text, digamma(count)})
			sum += count
		}
	}
	all := digamma(sum)
	for i := range kept {
		kept[i].score -= all
	}
	return kept
}

// digamma returns the derivative of the logarithm of the gamma function, for x > 0 with an error below 1e-10: by
// psi(x) = psi(x+1) - 1/x, and for large x by its asymptotic series (Abramowitz and Stegun 6.3.18).
func digamma(x float64) float64 {
	result := 0.0
	for ; x < 10; x++ {
		result -= 1 / x
	}
	y := 1 / (x * x)
	return result + math.Log(x) - 0.5/x - y*(1./12-y*(1./120-y*(1./252-y*(1./240-y*(1./132)))))
}
