package vocab

import (
	"math"
	"slices"
)

// unigram segments text by a unigram language model: of all ways to cut the text into pieces it finds the one whose
// scores (log-probabilities) have the highest sum, by a Viterbi search over the bytes of the text.
//
// Sums are kept in single precision, in the order of the text, as the original keeps them: which of two nearly equal
// ways wins may depend on it. Ties go to the piece found first, which is the one that begins further to the left.
type unigram struct {
	found    *trie
	unk      int32
	unkScore float32
	bonus    []float64 // score of the user-defined symbols, by id; nil if there are none
}

// unkPenalty is how much worse an unknown character is than the worst piece.
const unkPenalty = 10

// smallestScore is where the search for the highest score begins in the original, which so never finds one below 0.
const smallestScore = 0x1p-126

func newUnigram(found *trie, pieces []pieceProto, unk int32) *unigram {
	u := &unigram{found: found, unk: unk}
	lowest, highest := float32(math.MaxFloat32), float32(smallestScore)
	userDefined := false
	for i := range pieces {
		switch pieces[i].kind {
		case normalPiece:
			lowest = min(lowest, pieces[i].score)
			highest = max(highest, pieces[i].score)
		case userDefinedPiece:
			userDefined = true
		}
	}
	u.unkScore = lowest - unkPenalty
	if !userDefined {
		return u
	}
	u.bonus = make([]float64, len(pieces))
	for i := range pieces {
		// A user-defined symbol scores as much as if each of its bytes were the best piece, less a little.
		product := float32(len(pieces[i].text)) * highest
		u.bonus[i] = float64(product) - 0.1
	}
	return u
}

// A latticeNode is a place in the text, with the best way to get there.
type latticeNode struct {
	score float32 // of the best way
	start int32   // where its last piece begins, relative to the window; unreached if there is none yet
	id    int32   // of its last piece
}

const unreached = -1

// segment appends the best segmentation of s.text to s.segments.
//
// Whenever no piece found so far reaches beyond the current place, every way through the text passes there. What lies
// before is then decided, and the lattice begins anew: it is seldom longer than a word.
func (u *unigram) segment(s *scratch) {
	text := s.text
	s.lattice = append(s.lattice[:0], latticeNode{start: unreached})
	window, furthest := 0, 0
	for start := 0; start < len(text); {
		if start == furthest && start > window {
			s.decide(window, start)
			window = start
		}
		end := u.extend(s, window, start)
		furthest = max(furthest, end)
		start += min(characterLength(text[start]), len(text)-start)
	}
	if len(text) > window {
		s.decide(window, len(text))
	}
}

// extend tries all pieces that begin at start, and returns where the longest one ends.
func (u *unigram) extend(s *scratch, window, start int) int {
	text := s.text[start:]
	from := s.lattice[start-window].score
	single := min(characterLength(text[0]), len(text))
	known := false // is there a piece of this one character?
	furthest := 0
	n := uint32(0)
	for i, c := range text {
		if n = u.found.next(n, c); n == noNode {
			break
		}
		node := &u.found.nodes[n]
		if node.kind != normalPiece && node.kind != userDefinedPiece {
			continue
		}
		furthest = i + 1
		score := float64(node.score)
		if node.kind == userDefinedPiece {
			score = u.bonus[node.id]
		}
		s.reach(window, start, start+i+1, score+float64(from), node.id)
		known = known || i+1 == single
	}
	if !known {
		furthest = max(furthest, single)
		s.reach(window, start, start+single, float64(u.unkScore+from), u.unk)
	}
	return start + furthest
}

// reach records a way to end whose last piece begins at start, if it is the best so far.
func (s *scratch) reach(window, start, end int, score float64, id int32) {
	for len(s.lattice) <= end-window {
		s.lattice = append(s.lattice, latticeNode{start: unreached})
	}
	node := &s.lattice[end-window]
	if node.start == unreached || score > float64(node.score) {
		*node = latticeNode{score: float32(score), start: int32(start - window), id: id}
	}
}

// decide appends the best way from window to end to the segments. The lattice then begins at end.
func (s *scratch) decide(window, end int) {
	first := len(s.segments)
	for at := int32(end - window); at > 0; at = s.lattice[at].start {
		s.segments = append(s.segments, segment{end: window + int(at), id: s.lattice[at].id})
	}
	slices.Reverse(s.segments[first:])
	s.lattice[0] = latticeNode{score: s.lattice[end-window].score, start: unreached}
	s.lattice = s.lattice[:1]
}

// characterLength returns the length in bytes that a character has by its first byte.
func characterLength(first byte) int {
	switch {
	case first < 0xc0:
		return 1
	case first < 0xe0:
		return 2
	case first < 0xf0:
		return 3
	}
	return 4
}
