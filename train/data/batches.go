package data

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-mt/sluice/train/network"
)

// A Budget bounds a mini-batch. At least one of its limits must be set; a single pair is always allowed.
type Budget struct {
	Sentences int // 0 for any number
	Words     int // target pieces; 0 for any number

	// Cost, if not nil, gives what a pair of so many source and target pieces takes of Limit. Of several sources, the longest counts.
	Cost  func(source, target int) float64
	Limit float64
}

// Batching says how pairs become mini-batches.
type Batching struct {
	Budget  Budget
	Maxi    int // pairs that are sorted by length together, so that mini-batches hold similar ones
	Seed    uint64
	Ordered bool // keep the order of the corpus
}

// A Position is how far training has got. The zero Position is the beginning.
type Position struct {
	Epoch int `json:"epoch"` // from 0
	Batch int `json:"batch"` // next one of the epoch
}

// Batches gives the mini-batches of a corpus, epoch after epoch, without end.
type Batches struct {
	corpus   *Corpus
	batching Batching
	position Position
	reader   *epochReader
	maxi     int // how many maxi-batches of the epoch were read

	pairs []Pair // of the maxi-batch, by length; kept for their memory
	count int
	cuts  [][2]int // mini-batches that are left, the next one last
}

// Batches returns the mini-batches from a position on.
func (c *Corpus) Batches(b Batching, from Position) (*Batches, error) {
	all := &Batches{corpus: c, batching: b, position: Position{Epoch: from.Epoch}}
	for all.position.Batch < from.Batch {
		if err := all.fill(); err != nil {
			return nil, err
		}
		if all.position.Epoch != from.Epoch {
			return nil, fmt.Errorf("continuing at mini-batch %d of epoch %d: the corpus now has fewer; it is not the same", from.Batch, from.Epoch+1)
		}
		all.take()
	}
	return all, nil
}

// Position is where the next mini-batch comes from. At the end of an epoch it is behind its last one, until Peek or Next.
func (b *Batches) Position() Position { return b.position }

// Peek returns the position of the next mini-batch, in the next epoch at the end of one.
func (b *Batches) Peek() (Position, error) {
	err := b.fill()
	return b.position, err
}

// Next reads the next mini-batch into batch.
func (b *Batches) Next(batch *network.Batch) error {
	if err := b.fill(); err != nil {
		return err
	}
	cut := b.take()
	batch.Reset()
	for i := cut[0]; i < cut[1]; i++ {
		b.pairs[i].addTo(batch)
	}
	return nil
}

// take removes the next mini-batch of the maxi-batch.
func (b *Batches) take() [2]int {
	cut := b.cuts[len(b.cuts)-1]
	b.cuts = b.cuts[:len(b.cuts)-1]
	b.position.Batch++
	return cut
}

// fill makes sure that there is a mini-batch. Only that moves on to the next epoch.
func (b *Batches) fill() error {
	for len(b.cuts) == 0 {
		if b.reader == nil {
			b.reader, b.maxi = b.corpus.epoch(b.batching.Seed, b.position.Epoch, b.batching.Ordered), 0
		}
		if err := b.readMaxi(); err != nil {
			return err
		}
		if b.count == 0 {
			b.reader = nil
			b.position = Position{Epoch: b.position.Epoch + 1}
			continue
		}
		b.cut()
		b.maxi++
	}
	return nil
}

// readMaxi reads the next maxi-batch. It is empty at the end of an epoch.
func (b *Batches) readMaxi() error {
	b.count = 0
	for b.count < max(b.batching.Maxi, 1) {
		record, err := b.reader.next()
		if err != nil {
			return err
		}
		if record == nil {
			return nil
		}
		if b.count == len(b.pairs) {
			b.pairs = append(b.pairs, Pair{})
		}
		unpack(record, &b.pairs[b.count])
		if c := &b.corpus.config; c.Noise != nil {
			c.disturb(&b.pairs[b.count], b.reader.epoch)
		}
		b.count++
	}
	return nil
}

// cut divides the maxi-batch into mini-batches and shuffles them.
func (b *Batches) cut() {
	pairs := b.pairs[:b.count]
	slices.SortStableFunc(pairs, func(x, y Pair) int {
		return cmp.Or(cmp.Compare(len(x.Target), len(y.Target)), cmp.Compare(len(x.Source), len(y.Source)))
	})
	for first := 0; first < len(pairs); {
		end := first + b.batching.Budget.fit(pairs[first:])
		b.cuts = append(b.cuts, [2]int{first, end})
		first = end
	}
	if b.batching.Ordered {
		slices.Reverse(b.cuts)
		return
	}
	// Purposes with the top bit set are the shuffling of mini-batches, others that of the parts of the corpus.
	random := b.reader.random(1<<63 | uint64(b.maxi))
	random.Shuffle(len(b.cuts), func(i, j int) { b.cuts[i], b.cuts[j] = b.cuts[j], b.cuts[i] })
}

// fit returns how many of the pairs make a mini-batch.
func (budget *Budget) fit(pairs []Pair) int {
	words, cost := 0, 0.0
	for i := range pairs {
		words += len(pairs[i].Target)
		if budget.Cost != nil {
			cost += budget.Cost(pairs[i].longestSource(), len(pairs[i].Target))
		}
		full := budget.Sentences > 0 && i >= budget.Sentences || budget.Words > 0 && words > budget.Words ||
			budget.Cost != nil && cost > budget.Limit
		if full && i > 0 {
			return i
		}
	}
	return len(pairs)
}

// addTo appends the pair to a mini-batch.
func (p *Pair) addTo(batch *network.Batch) {
	sentence := int32(batch.Sentences())
	if len(p.Source) > 0 {
		batch.Source.Add(p.Source)
	}
	for i, tokens := range p.Further {
		if i == len(batch.Further) {
			batch.Further = append(batch.Further, network.Side{})
		}
		batch.Further[i].Add(tokens)
	}
	batch.Target.Add(p.Target)
	batch.Weights = append(batch.Weights, p.Weights...)
	for _, point := range p.Alignment {
		point.Sentence = sentence
		batch.Alignment = append(batch.Alignment, point)
	}
}
