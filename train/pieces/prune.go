package pieces

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// A loss is how much the likelihood of the text shrinks with a piece.
type loss struct {
	piece int32
	value float64
}

// prune returns the keep pieces that the text needs most. The loss of a piece is computed as if, without it, the best other
// division of it stood wherever it stands in the best division of the text. Single symbols stay.
func (e *estimator) prune(ctx context.Context, l *lexicon, keep int) ([]piece, error) {
	counts, err := e.bestCounts(ctx, l)
	if err != nil {
		return nil, err
	}
	instead, err := e.alternatives(ctx, l)
	if err != nil {
		return nil, err
	}
	total := 0.0
	for _, n := range counts {
		total += float64(n)
	}
	var kept []piece
	var losses []loss
	for i := range l.pieces {
		switch {
		case len(l.pieces[i].text) == 1:
			kept = append(kept, l.pieces[i])
		case counts[i] > 0 && instead[i] != nil:
			losses = append(losses, loss{int32(i), lossOf(float64(counts[i]), total, instead[i], counts)})
		}
	}
	slices.SortFunc(losses, func(a, b loss) int { return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.piece, b.piece)) })
	for _, loss := range losses[:min(len(losses), max(0, keep-len(kept)))] {
		kept = append(kept, l.pieces[loss.piece])
	}
	return kept, nil
}

// lossOf returns the loss of a piece that occurs count times among total, when others take its place.
func lossOf(count, total float64, instead []int32, counts []int64) float64 {
	with := math.Log(count) - math.Log(total)
	without := 0.0
	logTotal := math.Log(total + count*float64(len(instead)-1))
	for _, other := range instead {
		without += math.Log(float64(counts[other])+count) - logTotal
	}
	return count * (with - without)
}

// bestCounts returns how often each piece stands in the best divisions of all words.
func (e *estimator) bestCounts(ctx context.Context, l *lexicon) ([]int64, error) {
	sums := make([][]int64, e.workers)
	lattices := make([]lattice, e.workers)
	for i := range sums {
		sums[i] = make([]int64, len(l.pieces))
	}
	err := e.eachWord(ctx, func(worker, i int) {
		t := &lattices[worker]
		t.divide(l, e.words.word(i), -1)
		t.bestPieces(func(piece int32) { sums[worker][piece] += e.words.counts[i] })
	})
	for _, of := range sums[1:] {
		for i, n := range of {
			sums[0][i] += n
		}
	}
	return sums[0], err
}

// alternatives returns for each piece the pieces of its best division into others, and nil for a piece that is itself worse than
// that: no best division holds it.
func (e *estimator) alternatives(ctx context.Context, l *lexicon) ([][]int32, error) {
	instead := make([][]int32, len(l.pieces))
	lattices := make([]lattice, e.workers)
	err := eachIndex(ctx, len(l.pieces), e.block, e.workers, func(worker, i int) {
		p, t := &l.pieces[i], &lattices[worker]
		if len(p.text) > 1 && t.divide(l, p.text, int32(i)) <= p.score {
			t.bestPieces(func(other int32) { instead[i] = append(instead[i], other) })
		}
	})
	return instead, err
}
