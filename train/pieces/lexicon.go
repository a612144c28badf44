package pieces

import (
	"slices"
	"sort"
)

// A piece is a sequence of symbols that may become one of the vocabulary.
type piece struct {
	text  []symbol
	score float64 // natural logarithm of its probability
}

// A lexicon has the pieces in ascending order of their symbols, all single symbols among them, and finds those that a word begins
// with.
type lexicon struct {
	pieces []piece
	nodes  []lexiconNode
	roots  []uint32 // by symbol
}

// A lexiconNode is a node of the trie. Nodes are in the order of their depth, so that the children of one are side by side,
// ascending, and end where those of the next one begin.
type lexiconNode struct {
	first uint32 // child
	label symbol
	piece int32 // index of the piece that ends here, -1 for none
}

// newLexicon takes over pieces, which must be distinct and not empty, with an alphabet of so many symbols.
func newLexicon(pieces []piece, symbols int) *lexicon {
	slices.SortFunc(pieces, func(a, b piece) int { return slices.Compare(a.text, b.text) })
	l := &lexicon{pieces: pieces, roots: make([]uint32, symbols+1)}
	type pending struct{ low, high, depth int32 }
	ranges := []pending{{0, int32(len(pieces)), 0}}
	l.nodes = append(l.nodes, lexiconNode{piece: -1})
	for n := 0; n < len(ranges); n++ {
		r := ranges[n]
		if int(r.low) < len(pieces) && len(pieces[r.low].text) == int(r.depth) {
			l.nodes[n].piece = r.low
			r.low++
		}
		l.nodes[n].first = uint32(len(l.nodes))
		for r.low < r.high {
			label, end := pieces[r.low].text[r.depth], r.low+1
			for end < r.high && pieces[end].text[r.depth] == label {
				end++
			}
			l.nodes = append(l.nodes, lexiconNode{label: label, piece: -1})
			ranges = append(ranges, pending{r.low, end, r.depth + 1})
			r.low = end
		}
	}
	l.nodes = append(l.nodes, lexiconNode{first: uint32(len(l.nodes)), piece: -1}) // where the last one's children end
	for child := l.nodes[0].first; child < l.nodes[1].first; child++ {
		l.roots[l.nodes[child].label] = child
	}
	return l
}

// next returns the child of a node by a symbol, 0 for none. Beginning with a word, use roots.
func (l *lexicon) next(node uint32, s symbol) uint32 {
	low, high := l.nodes[node].first, l.nodes[node+1].first
	const few = 8
	if high-low > few {
		low += uint32(sort.Search(int(high-low), func(i int) bool { return l.nodes[int(low)+i].label >= s }))
	}
	for ; low < high && l.nodes[low].label <= s; low++ {
		if l.nodes[low].label == s {
			return low
		}
	}
	return 0
}
