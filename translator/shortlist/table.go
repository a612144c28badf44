package shortlist

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// A Table holds translation probabilities, as word alignment gives them: how probable each target piece is for a
// source piece that it is aligned with.
type Table struct {
	sources, targets int
	pairs            []pair // by source, then from the most probable target, then by target
}

// newTable sorts the pairs. They must be distinct.
func newTable(pairs []pair, sources, targets int) *Table {
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(b.probability, a.probability), cmp.Compare(a.target, b.target))
	})
	return &Table{sources: sources, targets: targets, pairs: pairs}
}

// Pairs returns the number of pairs of pieces.
func (t *Table) Pairs() int { return len(t.pairs) }

// Shortlist chooses from the table. shared says that both sides have one vocabulary.
func (t *Table) Shortlist(params Parameters, shared bool) (*Shortlist, error) {
	if err := params.Check(); err != nil {
		return nil, err
	}
	list := choose(slices.Clone(t.pairs), t.sources, t.targets, params)
	list.shared = shared
	return list, nil
}

// WriteText writes the text form, one "target source probability" a line, with the names of pieces. Pairs less
// probable than a millionth are left out, since six decimals would not tell them from impossible ones.
func (t *Table) WriteText(w io.Writer, source, target func(id int32) string) error {
	out := bufio.NewWriter(w)
	for _, p := range t.pairs {
		probability := strconv.FormatFloat(float64(p.probability), 'f', 6, 32)
		if probability == "0.000000" {
			continue
		}
		from, to := source(p.source), target(p.target)
		if !nameable(from) || !nameable(to) {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s %s %s\n", to, from, probability); err != nil {
			return err
		}
	}
	return out.Flush()
}

// nameable tells whether the text form can hold a piece: it must not be empty, contain white space, or be the name of
// no piece.
func nameable(piece string) bool {
	fields, n := split([]byte(piece))
	return n == 1 && len(fields[0]) == len(piece) && piece != null
}

// tally counts pairs and their sources. Pairs keep the order in which they were met first, so that sums, and with them
// the results, are the same every time.
type tally struct {
	index map[uint64]int32
	keys  []uint64
	count []float64
}

func newTally() *tally { return &tally{index: map[uint64]int32{}} }

func pairKey(source, target int32) uint64 { return uint64(uint32(source))<<32 | uint64(uint32(target)) }

func (t *tally) add(source, target int32, n float64) {
	key := pairKey(source, target)
	i, known := t.index[key]
	if !known {
		i = int32(len(t.keys))
		t.index[key] = i
		t.keys = append(t.keys, key)
		t.count = append(t.count, 0)
	}
	t.count[i] += n
}

// prune drops the less frequent half of the pairs, and whatever is as rare as the last of them.
func (t *tally) prune() {
	sorted := slices.Sorted(slices.Values(t.count))
	limit := sorted[len(sorted)/2]
	t.keep(func(i int) bool { return t.count[i] > limit })
}

// keep drops the pairs that are not wanted.
func (t *tally) keep(wanted func(i int) bool) {
	kept := 0
	clear(t.index)
	for i, key := range t.keys {
		if wanted(i) {
			t.keys[kept], t.count[kept] = key, t.count[i]
			t.index[key] = int32(kept)
			kept++
		}
	}
	t.keys, t.count = t.keys[:kept], t.count[:kept]
}

// totals sums the counts of each source piece.
func (t *tally) totals(sources int) []float64 {
	totals := make([]float64, sources)
	for i, key := range t.keys {
		totals[key>>32] += t.count[i]
	}
	return totals
}
