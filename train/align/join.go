package align

import (
	"fmt"
	"strings"
)

// A Method joins the alignments of both directions.
type Method int

// The methods, as Koehn, Och and Marcu 2003 and fast_align's atools name them.
const (
	// Intersection keeps the links of both directions.
	Intersection Method = iota
	// Union keeps the links of either direction.
	Union
	// GrowDiag begins with the intersection and adds links of the union that touch one, also at a corner, and one of whose
	// words has none yet, until there are no more of them.
	GrowDiag
	// GrowDiagFinal then adds links of the forward and after it of the reverse direction one of whose words has none yet.
	GrowDiagFinal
	// GrowDiagFinalAnd does that only if both of its words have none yet.
	GrowDiagFinalAnd
)

var methodNames = [...]string{"intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"}

// String returns the name of the method, such as "grow-diag".
func (m Method) String() string { return methodNames[m] }

// ParseMethod returns the method of that name.
func ParseMethod(name string) (Method, error) {
	for m, known := range methodNames {
		if name == known {
			return Method(m), nil
		}
	}
	return 0, fmt.Errorf("%w: unknown method %q: it is one of %s", ErrOptions, name, strings.Join(methodNames[:], ", "))
}

// A Joiner joins alignments. The zero Joiner is ready; it keeps its memory from one sentence to the next.
type Joiner struct {
	n, m             int
	kept             []bool // by source and then by target position
	union            []bool
	sources, targets []bool // words that have a link
	links            []Link
	empty            []int
}

// Join joins the alignments of a sentence pair. sources are the source positions of the target words, targets the target
// positions of the source words, -1 being none. The result, by source and then by target position, is valid until the next
// call. It panics if a position is not in the sentence.
func (w *Joiner) Join(method Method, sources, targets []int) []Link {
	w.begin(sources, targets)
	switch method {
	case Union:
		copy(w.kept, w.union)
	case GrowDiag, GrowDiagFinal, GrowDiagFinalAnd:
		w.grow()
	}
	switch method {
	case GrowDiagFinal:
		w.final(sources, targets, func(i, j int) bool { return !w.sources[i] || !w.targets[j] })
	case GrowDiagFinalAnd:
		w.final(sources, targets, func(i, j int) bool { return !w.sources[i] && !w.targets[j] })
	}
	w.links = w.links[:0]
	for at, kept := range w.kept {
		if kept {
			w.links = append(w.links, Link{at / w.m, at % w.m})
		}
	}
	return w.links
}

// none returns the positions of so many words without links.
func (w *Joiner) none(words int) []int {
	w.empty = resized(w.empty, words)
	for k := range w.empty {
		w.empty[k] = -1
	}
	return w.empty
}

// begin sets kept to the intersection and union to the union.
func (w *Joiner) begin(sources, targets []int) {
	w.n, w.m = len(targets), len(sources)
	w.kept, w.union = resized(w.kept, w.n*w.m), resized(w.union, w.n*w.m)
	w.sources, w.targets = resized(w.sources, w.n), resized(w.targets, w.m)
	for _, flags := range [][]bool{w.kept, w.union, w.sources, w.targets} {
		clear(flags)
	}
	for j, i := range sources {
		if i >= 0 {
			w.union[i*w.m+j] = true
		}
	}
	for i, j := range targets {
		if j < 0 {
			continue
		}
		if w.union[i*w.m+j] {
			w.keep(i, j)
		}
		w.union[i*w.m+j] = true
	}
}

func (w *Joiner) keep(i, j int) { w.kept[i*w.m+j], w.sources[i], w.targets[j] = true, true, true }

// grow adds links beside those that are kept, row by row, until nothing changes.
func (w *Joiner) grow() {
	for grown := true; grown; {
		grown = false
		for at, candidate := range w.union {
			i, j := at/w.m, at%w.m
			if candidate && !w.kept[at] && (!w.sources[i] || !w.targets[j]) && w.touches(i, j) {
				w.keep(i, j)
				grown = true
			}
		}
	}
}

// touches tells whether one of the eight neighbours of a place is kept.
func (w *Joiner) touches(i, j int) bool {
	for x := max(i-1, 0); x <= min(i+1, w.n-1); x++ {
		for y := max(j-1, 0); y <= min(j+1, w.m-1); y++ {
			if w.kept[x*w.m+y] {
				return true // not the place itself, which is not kept
			}
		}
	}
	return false
}

// final adds links that are wanted, first those of the forward direction by source position, then those of the reverse.
func (w *Joiner) final(sources, targets []int, wanted func(i, j int) bool) {
	for i := range w.n {
		for j, source := range sources {
			if source == i && wanted(i, j) {
				w.keep(i, j)
			}
		}
	}
	for i, j := range targets {
		if j >= 0 && wanted(i, j) {
			w.keep(i, j)
		}
	}
}
