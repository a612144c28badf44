package align

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// errFull says that the pairs of a part do not fit into the table.
var errFull = errors.New("the table is full")

// entropyUnit is in what bits are counted, so that an integer holds those of four thousand million words.
const entropyUnit = 1 << 24

// sums are what is added up over target words: integers, like the counts of pairs, since the order in which they are
// added depends on workers and parts.
type sums struct {
	entropy  int64 // bits, in entropyUnit
	null     int64 // words, in units
	distance int64 // in units
}

func (s *sums) add(other *sums) {
	s.entropy += other.entropy
	s.null += other.null
	s.distance += other.distance
}

func (s *sums) addBits(bits float64) { s.entropy += int64(math.Round(bits * entropyUnit)) }

// A worker has what it takes to go through a block.
type worker struct {
	reader  blockReader
	part    part
	weights []float64
	places  []int
	links   []byte
	sums    sums
}

// pass has the workers do something with every block, of which the target words of a part matter.
func (l *learner) pass(ctx context.Context, p part, do func(*worker, block) error, sum *sums) error {
	workers := make([]worker, l.options.workers())
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for k := range workers {
		w := &workers[k]
		w.part = p
		group.Go(func() error {
			for {
				k := int(next.Add(1)) - 1
				if k >= len(l.corpus.blocks) {
					return nil
				}
				if err := context.Cause(ctx); err != nil {
					return err
				}
				if err := do(w, l.corpus.blocks[k]); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for k := range workers {
		sum.add(&workers[k].sums)
	}
	return nil
}

// prior sets the weights to the probabilities that target position j of m, from 1, comes from nowhere and from each source
// position.
func (l *learner) prior(w *worker, sources, j, m int) {
	w.weights = resized(w.weights, sources+1)
	total := diagonal(w.weights[1:], j, m, l.tension)
	scale := (1 - l.options.Null) / total
	for i := range w.weights {
		w.weights[i] *= scale
	}
	w.weights[0] = l.options.Null
}

// begin inserts the pairs of a block and counts them as the prior has it.
func (l *learner) begin(w *worker, b block) error {
	full := false
	bits := math.Log2(float64(l.targets))
	err := w.reader.each(l.corpus, b, l.reverse, func(source, target []int32) {
		for j, word := range target {
			if full || !w.part.holds(word) {
				continue
			}
			l.prior(w, len(source), j+1, len(target))
			w.places = resized(w.places, len(source)+1)
			for i := range w.places {
				w.places[i] = l.table.insert(pairKey(sourceAt(source, i), word))
				if full = full || w.places[i] < 0; full {
					break
				}
			}
			if !full {
				l.count(w, 1, j+1, len(target))
				w.sums.addBits(bits)
			}
		}
	})
	if err == nil && full {
		err = errFull
	}
	return err
}

// sourceAt returns the source word at a position from 1; that at 0 is no word.
func sourceAt(source []int32, i int) int32 {
	if i == 0 {
		return -1
	}
	return source[i-1]
}

// weigh multiplies the prior with the probabilities of the translations. It returns their sum.
func (l *learner) weigh(w *worker, source, target []int32, j int) (total float64) {
	l.prior(w, len(source), j+1, len(target))
	w.places = resized(w.places, len(source)+1)
	for i := range w.places {
		at := l.table.find(pairKey(sourceAt(source, i), target[j]))
		w.places[i] = at
		w.weights[i] *= l.table.entries[at].probability
		total += w.weights[i]
	}
	return total
}

// count adds the posterior probabilities of where target position j of m comes from.
func (l *learner) count(w *worker, total float64, j, m int) {
	n := len(w.weights) - 1
	if l.options.Learning == Customary {
		j--
	}
	expected := 0.0
	for i, weight := range w.weights {
		share := weight / total
		l.table.add(w.places[i], share)
		if i > 0 {
			expected += share * distance(i, j, n, m)
		}
	}
	w.sums.null += int64(w.weights[0] / total * unit)
	w.sums.distance += int64(expected*unit + 0.5)
}

// expect counts how often each pair of a block is expected to be aligned.
func (l *learner) expect(w *worker, b block) error {
	return w.reader.each(l.corpus, b, l.reverse, func(source, target []int32) {
		for j, word := range target {
			if !w.part.holds(word) {
				continue
			}
			// Without a prior the probabilities of all pairs may have become 0.
			if total := l.weigh(w, source, target, j); total > 0 {
				l.count(w, total, j+1, len(target))
				w.sums.addBits(-math.Log2(total))
			}
		}
	})
}

// align links each target word of a block to the source word that it most probably comes from.
func (l *learner) align(w *worker, b block, links *Links) error {
	var err error
	if w.links, err = links.read(w.links, b); err != nil {
		return err
	}
	rest := w.links
	err = w.reader.each(l.corpus, b, l.reverse, func(source, target []int32) {
		for j, word := range target {
			if w.part.holds(word) {
				if total := l.weigh(w, source, target, j); total > 0 {
					w.sums.addBits(-math.Log2(total))
					w.sums.null += int64(w.weights[0] / total * unit)
				}
				binary.LittleEndian.PutUint16(rest[2*j:], uint16(largest(w.weights)))
			}
		}
		rest = rest[2*len(target):]
	})
	if err != nil {
		return err
	}
	return links.write(w.links, b)
}

// largest returns the place of the first of the largest weights.
func largest(weights []float64) int {
	best := 0
	for i, w := range weights {
		if w > weights[best] {
			best = i
		}
	}
	return best
}
