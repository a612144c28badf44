package vocab

import "strings"

// bpe segments text by byte-pair encoding: starting from single characters, the adjacent pair that forms the piece of
// highest score is merged, the leftmost of equal ones first, until no pair forms a piece.
type bpe struct {
	model       *sentencePiece
	userDefined *trie // symbols that stay whole and never merge; nil if there are none
	byWord      bool  // no piece reaches over the start of a word, so that each word can be segmented by itself
	resegment   bool  // there are unused pieces, which are split again
}

func newBPE(s *sentencePiece, userDefined *trie) *bpe {
	b := &bpe{model: s, userDefined: userDefined, byWord: true}
	for id, piece := range s.pieces {
		if s.kinds[id] == unusedPiece {
			b.resegment = true
		}
		rest := strings.TrimLeft(piece, spaceSymbol)
		if strings.Contains(rest, spaceSymbol) {
			b.byWord = false
		}
	}
	// Which way an unused piece was merged last decides how all its occurrences are split, in the whole text.
	b.byWord = b.byWord && !b.resegment
	return b
}

// A symbol is a character of the text, or what several have been merged into.
type symbol struct {
	start, length int
	prev, next    int32  // neighbours; -1 at the ends
	node          uint32 // in the trie of pieces; noNode if no piece begins so
	frozen        bool   // a user-defined symbol
}

// A symbolPair is a pair of neighbours that forms a piece. It is out of date if one of them has changed since.
type symbolPair struct {
	score       float32
	left, right int32
	length      int
}

// before tells which of two pairs is merged first. No two pairs that are up to date have the same left symbol.
func (p symbolPair) before(q symbolPair) bool {
	return p.score > q.score || p.score == q.score && p.left < q.left
}

// segment appends the segmentation of s.text to s.segments.
func (b *bpe) segment(s *scratch) {
	if !b.byWord {
		b.segmentPart(s, 0, len(s.text))
		return
	}
	for start := 0; start < len(s.text); {
		end := wordEnd(s.text, start)
		b.segmentPart(s, start, end)
		start = end
	}
}

// wordEnd returns where the word that begins at start ends: before the next space symbol that follows another
// character.
func wordEnd(text []byte, start int) int {
	end := start
	for hasSpaceSymbol(text, end) {
		end += len(spaceSymbol)
	}
	for end < len(text) && !hasSpaceSymbol(text, end) {
		end++
	}
	return end
}

func hasSpaceSymbol(text []byte, at int) bool {
	return len(text)-at >= len(spaceSymbol) && text[at] == spaceSymbol[0] &&
		string(text[at:at+len(spaceSymbol)]) == spaceSymbol
}

// segmentPart segments the text from start to end.
func (b *bpe) segmentPart(s *scratch, start, end int) {
	if start == end {
		return
	}
	s.agenda = s.agenda[:0]
	b.cut(s, start, end)
	if b.resegment {
		s.splits = make(map[int32]int)
	}
	for i := 1; i < len(s.symbols); i++ {
		b.propose(s, int32(i-1), int32(i))
	}
	for len(s.agenda) > 0 {
		b.merge(s, s.popPair())
	}
	for i := int32(0); i >= 0; i = s.symbols[i].next {
		b.emit(s, s.symbols[i].start, s.symbols[i].start+s.symbols[i].length)
	}
}

// cut makes the symbols: user-defined ones, and single characters.
func (b *bpe) cut(s *scratch, start, end int) {
	found := b.model.found
	s.symbols = s.symbols[:0]
	for start < end {
		length, frozen := prefixLength(b.userDefined, s.text[start:end])
		i := int32(len(s.symbols))
		s.symbols = append(s.symbols, symbol{
			start: start, length: length, prev: i - 1, next: i + 1, frozen: frozen,
			node: found.walk(0, s.text[start:start+length]),
		})
		start += length
	}
	s.symbols[len(s.symbols)-1].next = -1
}

// prefixLength returns the length of the user-defined symbol that text begins with or, if there is none, of its first
// character.
func prefixLength(userDefined *trie, text []byte) (length int, symbol bool) {
	if userDefined != nil {
		if length := longestKey(userDefined, text); length > 0 {
			return length, true
		}
	}
	return min(characterLength(text[0]), len(text)), false
}

// propose puts a pair of neighbours on the agenda, if it forms a piece.
func (b *bpe) propose(s *scratch, left, right int32) {
	if left < 0 || right < 0 {
		return
	}
	l, r := &s.symbols[left], &s.symbols[right]
	if l.frozen || r.frozen || l.node == noNode {
		return
	}
	n := b.model.found.walk(l.node, s.text[r.start:r.start+r.length])
	if n == noNode {
		return
	}
	node := &b.model.found.nodes[n]
	if node.kind == 0 {
		return
	}
	s.pushPair(symbolPair{score: node.score, left: left, right: right, length: l.length + r.length})
	if node.kind == unusedPiece {
		s.splits[node.id] = l.length
	}
}

// merge makes one symbol of the pair, unless it is out of date, and looks at its new neighbours.
func (b *bpe) merge(s *scratch, p symbolPair) {
	left, right := &s.symbols[p.left], &s.symbols[p.right]
	if left.length == 0 || right.length == 0 || left.length+right.length != p.length {
		return
	}
	left.node = b.model.found.walk(left.node, s.text[right.start:right.start+right.length])
	left.length = p.length
	left.next = right.next
	right.length = 0
	if right.next >= 0 {
		s.symbols[right.next].prev = p.left
	}
	b.propose(s, left.prev, p.left)
	b.propose(s, p.left, left.next)
}

// emit appends the piece that reaches from start to end. An unused piece is emitted as the two it was merged from.
func (b *bpe) emit(s *scratch, start, end int) {
	id := b.model.idOf(s.text[start:end])
	if b.model.kinds[id] == unusedPiece {
		if left, ok := s.splits[id]; ok {
			b.emit(s, start, start+left)
			b.emit(s, start+left, end)
			return
		}
	}
	s.segments = append(s.segments, segment{end: end, id: id})
}

// pushPair and popPair keep the agenda as a binary heap whose first pair is the one to merge first.
func (s *scratch) pushPair(p symbolPair) {
	s.agenda = append(s.agenda, p)
	heap := s.agenda
	i := len(heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !p.before(heap[parent]) {
			break
		}
		heap[i] = heap[parent]
		i = parent
	}
	heap[i] = p
}

func (s *scratch) popPair() symbolPair {
	heap := s.agenda
	top, last := heap[0], heap[len(heap)-1]
	heap = heap[:len(heap)-1]
	s.agenda = heap
	if len(heap) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(heap) {
			break
		}
		if child+1 < len(heap) && heap[child+1].before(heap[child]) {
			child++
		}
		if !heap[child].before(last) {
			break
		}
		heap[i] = heap[child]
		i = child
	}
	heap[i] = last
	return top
}
