package vocab

// segmentWords cuts the text before each space symbol: the segmentation of word models.
func (s *sentencePiece) segmentWords(sc *scratch) {
	for start := 0; start < len(sc.text); {
		end := start + 1
		for end < len(sc.text) && !hasSpaceSymbol(sc.text, end) {
			end++
		}
		sc.segments = append(sc.segments, segment{end: end, id: s.idOf(sc.text[start:end])})
		start = end
	}
}

// segmentCharacters cuts the text into user-defined symbols and single characters: the segmentation of character
// models.
func (s *sentencePiece) segmentCharacters(sc *scratch, userDefined *trie) {
	for start := 0; start < len(sc.text); {
		length, _ := prefixLength(userDefined, sc.text[start:])
		end := start + length
		sc.segments = append(sc.segments, segment{end: end, id: s.idOf(sc.text[start:end])})
		start = end
	}
}

// idOf returns the id of a piece of text. Text that is spelled like a control symbol is unknown: nothing a user writes
// becomes one.
func (s *sentencePiece) idOf(text []byte) int32 {
	if id, ok := s.reserved[string(text)]; ok {
		if s.kinds[id] == controlPiece {
			return s.unk
		}
		return id
	}
	node := &s.found.nodes[s.found.walk(0, text)]
	if node.kind == 0 {
		return s.unk
	}
	return node.id
}
