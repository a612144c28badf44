package shortlist

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrCorpus is wrapped by errors about sentences that no table can be made from.
var ErrCorpus = errors.New("unusable corpus")

// A Corpus gives pairs of sentences in pieces, the same ones in the same order each time it is called. It stops at the
// first error of yield and returns it.
type Corpus func(yield func(source, target []int32) error) error

// BuildOptions say how word alignment is learnt.
type BuildOptions struct {
	Sources, Targets int // sizes of the vocabularies
	// Iterations of expectation maximisation; each reads the corpus once.
	Iterations int
	// Diagonal is how strongly words are expected at the same relative position: lambda of Dyer et al. 2013. 0 is not
	// at all, which makes it IBM model 1.
	Diagonal float64
	// Null is the share of target pieces that no source piece accounts for.
	Null float64
	// Least is the smallest probability worth keeping after an iteration.
	Least float64
	// MaxPairs bounds the pairs that are kept, and with them memory: about 100 bytes each. When there are more, the
	// rarer half is dropped.
	MaxPairs int
	// MaxLength leaves out pairs with a sentence of more pieces: they are slow and say little.
	MaxLength int
}

// DefaultBuildOptions are what fast_align starts from, with bounds that suit a computer with a gigabyte to spare.
func DefaultBuildOptions(sources, targets int) BuildOptions {
	return BuildOptions{
		Sources: sources, Targets: targets,
		Iterations: 5, Diagonal: 4, Null: 0.08, Least: 1e-6, MaxPairs: 1 << 23, MaxLength: 200,
	}
}

func (o BuildOptions) check() error {
	switch {
	case o.Sources < 1 || o.Targets < 1 || o.Sources >= math.MaxInt32 || o.Targets >= math.MaxInt32:
		return fmt.Errorf("shortlist: vocabularies of %d and %d pieces cannot be used", o.Sources, o.Targets)
	case o.Iterations < 1:
		return fmt.Errorf("shortlist: %d iterations: at least one is needed", o.Iterations)
	case !(o.Diagonal >= 0) || math.IsInf(o.Diagonal, 0):
		return fmt.Errorf("shortlist: diagonal is %v, but must not be negative", o.Diagonal)
	case !(o.Null > 0 && o.Null < 1):
		return fmt.Errorf("shortlist: null is %v, but must be between 0 and 1", o.Null)
	case !(o.Least >= 0 && o.Least < 1):
		return fmt.Errorf("shortlist: least probability is %v, but must be between 0 and 1", o.Least)
	case o.MaxPairs < 2 || o.MaxPairs > math.MaxInt32/2:
		return fmt.Errorf("shortlist: %d pairs cannot be kept", o.MaxPairs)
	case o.MaxLength < 1:
		return fmt.Errorf("shortlist: maximal length is %d, but must be at least 1", o.MaxLength)
	}
	return nil
}

// Build learns translation probabilities from a parallel corpus, by the reparametrised IBM model 2 of Dyer, Chahuneau
// and Smith 2013 with a fixed tension: each target piece comes from one source piece, or from none, and the closer the
// relative positions, the more probably so. Results depend on nothing but the corpus and the options.
func Build(corpus Corpus, options BuildOptions) (*Table, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	l := learner{options: options}
	for range options.Iterations {
		l.counts = newTally()
		seen := 0
		err := corpus(func(source, target []int32) error {
			seen++
			return l.sentence(source, target, seen)
		})
		if err != nil {
			return nil, err
		}
		if len(l.counts.keys) == 0 {
			return nil, fmt.Errorf("shortlist: no pair of sentences with 1 to %d pieces on each side: %w", options.MaxLength, ErrCorpus)
		}
		l.maximise()
	}
	return l.table(), nil
}

// learner is the state of expectation maximisation. The source id Sources stands for no piece.
type learner struct {
	options     BuildOptions
	probability *tally // of the iteration before; nil in the first one, where all are equal
	counts      *tally
	weights     []float64
}

// sentence adds the expected number of alignments of each pair of pieces.
func (l *learner) sentence(source, target []int32, number int) error {
	if err := checkPieces(source, l.options.Sources, "source", number); err != nil {
		return err
	}
	if err := checkPieces(target, l.options.Targets, "target", number); err != nil {
		return err
	}
	if len(source) == 0 || len(target) == 0 || max(len(source), len(target)) > l.options.MaxLength {
		return nil
	}
	null := int32(l.options.Sources)
	for j, piece := range target {
		l.prior(j, len(source), len(target))
		last := len(source)
		total := 0.0
		for i := range l.weights {
			from := null
			if i < last {
				from = source[i]
			}
			l.weights[i] *= l.given(from, piece)
			total += l.weights[i]
		}
		if total == 0 {
			continue // all of its pairs were dropped
		}
		for i, w := range l.weights[:last] {
			if w > 0 {
				l.counts.add(source[i], piece, w/total)
			}
		}
		if l.weights[last] > 0 {
			l.counts.add(null, piece, l.weights[last]/total)
		}
	}
	if len(l.counts.keys) > l.options.MaxPairs {
		l.counts.prune()
	}
	return nil
}

// prior sets the weights to the probabilities of aligning target position j with each source position, and with none.
func (l *learner) prior(j, sources, targets int) {
	l.weights = append(l.weights[:0], make([]float64, sources+1)...)
	total := 0.0
	at := (float64(j) + 0.5) / float64(targets)
	for i := range sources {
		w := math.Exp(-l.options.Diagonal * math.Abs((float64(i)+0.5)/float64(sources)-at))
		l.weights[i] = w
		total += w
	}
	for i := range sources {
		l.weights[i] *= (1 - l.options.Null) / total
	}
	l.weights[sources] = l.options.Null
}

func (l *learner) given(source, target int32) float64 {
	if l.probability == nil {
		return 1
	}
	i, known := l.probability.index[pairKey(source, target)]
	if !known {
		return 0
	}
	return l.probability.count[i]
}

// maximise turns counts into probabilities and drops those too small to matter.
func (l *learner) maximise() {
	totals := l.counts.totals(l.options.Sources + 1)
	for i, key := range l.counts.keys {
		l.counts.count[i] /= totals[key>>32]
	}
	l.counts.keep(func(i int) bool { return l.counts.count[i] >= l.options.Least })
	l.probability, l.counts = l.counts, nil
}

func (l *learner) table() *Table {
	var pairs []pair
	for i, key := range l.probability.keys {
		if source := int32(key >> 32); int(source) < l.options.Sources {
			pairs = append(pairs, pair{source, int32(uint32(key)), float32(l.probability.count[i])})
		}
	}
	return newTable(pairs, l.options.Sources, l.options.Targets)
}

func checkPieces(pieces []int32, size int, side string, number int) error {
	for _, id := range pieces {
		if id < 0 || int(id) >= size {
			return fmt.Errorf("shortlist: %s sentence %d has piece %d of a vocabulary of %d: %w", side, number, id, size, ErrCorpus)
		}
	}
	return nil
}

// A LinkCounter makes a table from alignments that another program found, as extract_lex does: the probability of a
// target piece is the share of the source piece's links that lead to it, where a source piece without any link counts
// as one that leads nowhere.
type LinkCounter struct {
	sources, targets int
	sentences        int
	links            *tally
	totals           []float64
	linked           []bool
}

// NewLinkCounter returns a counter for vocabularies of the given sizes.
func NewLinkCounter(sources, targets int) *LinkCounter {
	return &LinkCounter{sources: sources, targets: targets, links: newTally(), totals: make([]float64, sources)}
}

// Add counts the links of one pair of sentences in Pharaoh's form, such as "0-0 1-2": positions in source and target,
// from 0.
func (c *LinkCounter) Add(source, target []int32, links string) error {
	c.sentences++
	if err := checkPieces(source, c.sources, "source", c.sentences); err != nil {
		return err
	}
	if err := checkPieces(target, c.targets, "target", c.sentences); err != nil {
		return err
	}
	c.linked = append(c.linked[:0], make([]bool, len(source))...)
	for _, link := range strings.Fields(links) {
		i, j, err := parseLink(link, len(source), len(target))
		if err != nil {
			return fmt.Errorf("shortlist: alignment %d: %w", c.sentences, err)
		}
		c.links.add(source[i], target[j], 1)
		c.totals[source[i]]++
		c.linked[i] = true
	}
	for i, linked := range c.linked {
		if !linked {
			c.totals[source[i]]++
		}
	}
	return nil
}

func parseLink(link string, sources, targets int) (i, j int, err error) {
	from, to, found := strings.Cut(link, "-")
	if found {
		i, err = strconv.Atoi(from)
		if err == nil {
			j, err = strconv.Atoi(to)
		}
	}
	if !found || err != nil || i < 0 || j < 0 {
		return 0, 0, fmt.Errorf("%q is not a link like 0-0: %w", link, ErrCorpus)
	}
	if i >= sources || j >= targets {
		return 0, 0, fmt.Errorf("link %s leaves sentences of %d and %d pieces (was the corpus split into the same pieces?): %w", link, sources, targets, ErrCorpus)
	}
	return i, j, nil
}

// Table returns the probabilities of what was counted so far.
func (c *LinkCounter) Table() *Table {
	pairs := make([]pair, len(c.links.keys))
	for i, key := range c.links.keys {
		source := int32(key >> 32)
		pairs[i] = pair{source, int32(uint32(key)), float32(c.links.count[i] / c.totals[source])}
	}
	return newTable(pairs, c.sources, c.targets)
}
