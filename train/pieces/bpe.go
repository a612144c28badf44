package pieces

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
)

// A merger joins neighbouring units of the words, which to begin with are single symbols.
type merger struct {
	words   *words
	divider *divider
	units   []unit
	byText  map[string]int32 // index of the unit with that text
	pairs   map[pairKey]*pair
	queue   pairQueue

	// unitAt has the unit that begins at a position of words.text, and startOf where the one begins that ends there.
	unitAt, startOf []int32
	countOf         []int64 // of the word that the position lies in
	runes           []rune
}

// A unit is a part of words that is treated as one.
type unit struct{ length int32 }

type pairKey struct{ left, right int32 }

// A pair is two units side by side that may become one.
type pair struct {
	key    pairKey
	text   []symbol
	count  int64   // in the text
	places []int32 // where it begins or began
}

// A queuedPair waits for its turn. Its count may be out of date, and then is too large.
type queuedPair struct {
	*pair
	count int64
}

// pairQueue is a heap: the most frequent first, of equals the shortest, of these the first in the order of symbols.
type pairQueue []queuedPair

func (q pairQueue) Len() int      { return len(q) }
func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q pairQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].count, q[i].count), cmp.Compare(len(q[i].text), len(q[j].text)),
		slices.Compare(q[i].text, q[j].text), cmp.Compare(q[i].key.left, q[j].key.left)) < 0
}
func (q *pairQueue) Push(x any) { *q = append(*q, x.(queuedPair)) }
func (q *pairQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// learnBPE learns the pieces of a BPE model. Scores are the negative order of merges, which is what encoding goes by; the
// characters follow.
func (t *trainer) learnBPE(ctx context.Context) ([]scored, error) {
	m := newMerger(t.words, t.divider)
	var found []scored
	for len(found) < t.room()-len(t.words.alphabet) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		best := m.next()
		if best == nil {
			break
		}
		count := best.count
		if !m.merge(best) {
			continue
		}
		text := string(t.words.runes(nil, best.text))
		found = append(found, scored{text, -float64(len(found))})
		if len(found)%1000 == 0 {
			t.logger.Info("merged", "pieces", len(found), "piece", text, "count", count)
		}
	}
	counts := t.words.symbolCounts()
	order := make([]symbol, len(counts))
	for i := range order {
		order[i] = symbol(i + 1)
	}
	slices.SortStableFunc(order, func(a, b symbol) int { return cmp.Compare(counts[b-1], counts[a-1]) })
	for _, s := range order {
		found = append(found, scored{string(t.words.alphabet[s-1]), -float64(len(found))})
	}
	return found, nil
}

func newMerger(w *words, d *divider) *merger {
	m := &merger{
		words: w, divider: d, byText: map[string]int32{}, pairs: map[pairKey]*pair{}, units: make([]unit, len(w.alphabet)+1),
		unitAt: slices.Clone(w.text), startOf: make([]int32, len(w.text)), countOf: make([]int64, len(w.text)),
	}
	for i := range m.units {
		m.units[i].length = 1
	}
	for at := range m.startOf {
		m.startOf[at] = int32(at)
	}
	for i := range w.len() {
		for at := w.starts[i]; at < w.starts[i+1]; at++ {
			m.countOf[at] = w.counts[i]
		}
		for at := w.starts[i]; at+2 < w.starts[i+1]; at++ {
			m.add(at)
		}
	}
	m.queue = make(pairQueue, 0, len(m.pairs))
	for _, p := range m.pairs {
		if p != nil {
			m.queue = append(m.queue, queuedPair{p, p.count})
		}
	}
	heap.Init(&m.queue)
	return m
}

// add counts the pair of units of which the left one begins at a position, and returns it if it may become a piece.
func (m *merger) add(at int32) *pair {
	left := m.unitAt[at]
	middle := at + m.units[left].length
	right := m.unitAt[middle]
	key := pairKey{left, right}
	p, known := m.pairs[key]
	if !known {
		text := m.words.text[at : middle+m.units[right].length]
		m.runes = m.words.runes(m.runes[:0], text)
		if m.divider.allows(m.runes) {
			p = &pair{key: key, text: text}
		}
		m.pairs[key] = p
	}
	if p != nil {
		p.count += m.countOf[at]
		p.places = append(p.places, at)
	}
	return p
}

// remove takes the pair at a position out of the count.
func (m *merger) remove(at int32) {
	left := m.unitAt[at]
	if p := m.pairs[pairKey{left, m.unitAt[at+m.units[left].length]}]; p != nil {
		p.count -= m.countOf[at]
	}
}

// next returns the pair to be merged, nil if there is none.
func (m *merger) next() *pair {
	for len(m.queue) > 0 {
		top := &m.queue[0]
		switch {
		case top.pair.count <= 0:
			heap.Pop(&m.queue)
		case top.count > top.pair.count:
			top.count = top.pair.count
			heap.Fix(&m.queue, 0)
		default:
			return heap.Pop(&m.queue).(queuedPair).pair
		}
	}
	return nil
}

// merge makes one unit of the pair wherever it stands, and tells whether that is a new piece: another pair may have had
// the same text.
func (m *merger) merge(p *pair) bool {
	name := string(p.text)
	id, known := m.byText[name]
	if !known {
		id = int32(len(m.units))
		m.byText[name] = id
		m.units = append(m.units, unit{int32(len(p.text))})
	}
	delete(m.pairs, p.key)
	changed := map[*pair]bool{}
	for _, at := range p.places {
		if m.unitAt[at] == p.key.left && m.unitAt[at+m.units[p.key.left].length] == p.key.right {
			m.mergeAt(at, p, id, changed)
		}
	}
	p.places, p.count = nil, 0 // should it wait in the queue a second time
	for q := range changed {
		if q.count > 0 {
			heap.Push(&m.queue, queuedPair{q, q.count})
		}
	}
	return !known
}

// mergeAt merges the pair at one place, and records the pairs that are new there.
func (m *merger) mergeAt(at int32, p *pair, id int32, changed map[*pair]bool) {
	middle := at + m.units[p.key.left].length
	end := middle + m.units[p.key.right].length
	before := int32(-1)
	if at > 0 && m.words.text[at-1] != endOfWord {
		before = m.startOf[at-1]
		m.remove(before)
	}
	if m.words.text[end] != endOfWord {
		m.remove(middle)
	}
	m.unitAt[middle] = mergedAway
	m.unitAt[at], m.startOf[end-1] = id, at
	if before >= 0 {
		if q := m.add(before); q != nil {
			changed[q] = true
		}
	}
	if m.words.text[end] != endOfWord {
		if q := m.add(at); q != nil {
			changed[q] = true
		}
	}
}

// mergedAway stands where no unit begins any more.
const mergedAway = math.MinInt32
