package align

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// An Iteration is what one pass over the corpus found.
type Iteration struct {
	Number  int     // from 1
	Entropy float64 // bits for each target word, under the model that the pass began with
	Null    float64 // share of target words that come from nowhere
	Tension float64 // that the pass began with
	Parts   int     // into which the target words were divided
}

// Learn learns a model of the target side of a corpus given its source side, or for reverse the other way round, and aligns
// the corpus. report, if not nil, is called after each iteration. Close the Links after use.
func Learn(ctx context.Context, corpus *Corpus, reverse bool, options Options, report func(Iteration)) (*Links, error) {
	if err := options.Check(); err != nil {
		return nil, err
	}
	if err := corpus.endBlock(); err != nil {
		return nil, err
	}
	l := newLearner(corpus, reverse, options)
	if l.words == 0 {
		return nil, fmt.Errorf("%w: none of %d pairs of sentences has 1 to %d words on each side", ErrCorpus, corpus.Sentences, corpus.maxLength)
	}
	if l.words >= unit {
		return nil, fmt.Errorf("%w: %d words are more than can be counted", ErrCorpus, l.words)
	}
	links, err := newLinks(corpus, reverse, options.Temporary)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(l.run(ctx, links, report), l.close()); err != nil {
		return nil, errors.Join(err, links.Close())
	}
	return links, nil
}

// A learner is the state of expectation maximisation.
type learner struct {
	corpus  *Corpus
	reverse bool
	options Options
	tension float64
	words   int64 // on the target side
	targets int   // size of the target vocabulary
	weights []int64

	parts *parts
	table *table // of the part whose turn it is

	// Of each source word, the first being no word: what was counted in the iteration before, and its digamma where there is a
	// prior; the count so far; and the number of target words in the table.
	divisors []float64
	totals   []uint64
	kinds    []uint32
}

func newLearner(corpus *Corpus, reverse bool, options Options) *learner {
	source, target := 0, 1
	words := corpus.TargetWords
	if reverse {
		source, target, words = 1, 0, corpus.SourceWords
	}
	sources := len(corpus.pairs[source]) + 1
	l := &learner{
		corpus: corpus, reverse: reverse, options: options, tension: options.Tension,
		words: words, targets: len(corpus.pairs[target]), weights: corpus.pairs[target],
		divisors: make([]float64, sources), totals: make([]uint64, sources), kinds: make([]uint32, sources),
	}
	l.parts = newParts(options.Temporary, options.Memory, sources)
	return l
}

// run iterates.
func (l *learner) run(ctx context.Context, links *Links, report func(Iteration)) error {
	for number := 1; number <= l.options.Iterations; number++ {
		found, err := l.iterate(ctx, number, number == l.options.Iterations, links)
		if err != nil {
			return err
		}
		if report != nil {
			report(found)
		}
	}
	return nil
}

// close deletes what was written, and gives the table back: it is most of the memory, and the next one would stand beside it
// until a collection.
func (l *learner) close() error {
	err := l.parts.close()
	l.parts, l.table = nil, nil
	runtime.GC()
	return err
}

// iterate goes over the corpus once for each part of the target words.
func (l *learner) iterate(ctx context.Context, number int, last bool, links *Links) (Iteration, error) {
	var sum sums
	pass := l.expect
	if last {
		pass = func(w *worker, b block) error { return l.align(w, b, links) }
	}
	if number == 1 {
		if err := l.firstPass(ctx, &sum); err != nil {
			return Iteration{}, err
		}
	} else {
		for k := range l.parts.list {
			if err := l.load(k); err != nil {
				return Iteration{}, err
			}
			l.estimate()
			if err := l.pass(ctx, l.parts.list[k], pass, &sum); err != nil {
				return Iteration{}, err
			}
			if err := l.unload(k, last); err != nil {
				return Iteration{}, err
			}
		}
	}
	words := float64(l.words)
	found := Iteration{number, float64(sum.entropy) / entropyUnit / words, float64(sum.null) / unit / words, l.tension, len(l.parts.list)}
	if last {
		return found, nil
	}
	l.maximise()
	if number > 1 && l.options.Learning != Fixed {
		l.tension = l.adjusted(float64(sum.distance) / unit / words)
	}
	return found, nil
}

// firstPass finds the pairs of words. All translations are equally probable in it. It divides the target words into parts
// such that the table takes the pairs of each.
func (l *learner) firstPass(ctx context.Context, sum *sums) error {
	for from := 0; from < l.targets; {
		to := l.parts.guess(l.weights, from)
		for {
			l.table = l.parts.newTable(l.weights[from:to])
			var found sums
			err := l.pass(ctx, part{from: int32(from), to: int32(to)}, l.begin, &found)
			if err == nil {
				sum.add(&found)
				break
			}
			if err != errFull {
				return err
			}
			to = halfway(l.weights, from, to)
		}
		l.parts.learn(l.table, l.weights[from:to])
		l.parts.list = append(l.parts.list, part{from: int32(from), to: int32(to)})
		l.countKinds()
		if err := l.unload(len(l.parts.list)-1, false); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// countKinds counts the translations of each source word.
func (l *learner) countKinds() {
	for i := range l.table.entries {
		if key := l.table.entries[i].key; key != 0 {
			l.kinds[sourceOf(key)+1]++
		}
	}
}

// load brings the pairs of a part into the table.
func (l *learner) load(k int) (err error) {
	if len(l.parts.list) > 1 {
		l.table, err = l.parts.read(k)
	}
	return err
}

// unload adds up the counts of a part, and makes room for the next one if there is one.
func (l *learner) unload(k int, last bool) error {
	if last {
		return nil
	}
	l.parallel(len(l.table.entries), func(from, to int) {
		for i := from; i < to; i++ {
			if e := &l.table.entries[i]; e.key != 0 {
				atomic.AddUint64(&l.totals[sourceOf(e.key)+1], e.count)
			}
		}
	})
	if len(l.parts.list) > 1 || int(l.parts.list[k].to) < l.targets {
		return l.parts.write(k, l.table)
	}
	return nil
}

// maximise turns what was counted into what probabilities are computed with.
func (l *learner) maximise() {
	alpha := l.options.Alpha
	for source := range l.totals {
		total := float64(l.totals[source])/unit + alpha*float64(l.kinds[source])
		if alpha > 0 && total > 0 {
			total = digamma(total)
		}
		l.divisors[source], l.totals[source] = total, 0
	}
}

// estimate computes the probabilities of the pairs in the table from their counts: for maximum likelihood their share of the
// source word's, for variational Bayes exp(digamma(count + alpha) - digamma(total)) (section 2.2 of the paper).
func (l *learner) estimate() {
	alpha := l.options.Alpha
	l.parallel(len(l.table.entries), func(from, to int) {
		for i := from; i < to; i++ {
			e := &l.table.entries[i]
			if e.key == 0 {
				continue
			}
			count, divisor := float64(e.count)/unit, l.divisors[sourceOf(e.key)+1]
			switch {
			case alpha > 0:
				e.probability = math.Exp(digamma(count+alpha) - divisor)
			case divisor > 0:
				e.probability = count / divisor
			default:
				e.probability = 0
			}
			e.count = 0
		}
	})
}

// adjusted moves the tension towards that for which the prior expects words as far from the diagonal as they were found.
func (l *learner) adjusted(found float64) float64 {
	var sizes []lengths
	for size := range l.corpus.lengths {
		sizes = append(sizes, size)
	}
	tension, expect := l.tension, expectedDistance
	if l.options.Learning == Customary {
		expect = customaryDistance
	}
	for range tensionSteps {
		var sum atomic.Int64 // in units
		l.parallel(len(sizes), func(from, to int) {
			var weights []float64
			for _, size := range sizes[from:to] {
				n, m := int(size.source), int(size.target)
				if l.reverse {
					n, m = m, n
				}
				weights = resized(weights, n)
				sum.Add(l.corpus.lengths[size] * int64(expect(weights, m, tension)*unit))
			}
		})
		tension += (float64(sum.Load())/unit/float64(l.words) - found) * tensionRate
		tension = min(max(tension, minTension), maxTension)
	}
	return tension
}

// parallel divides the numbers below n among the workers.
func (l *learner) parallel(n int, f func(from, to int)) {
	workers := l.options.workers()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() { f(w*n/workers, (w+1)*n/workers) })
	}
	all.Wait()
}
