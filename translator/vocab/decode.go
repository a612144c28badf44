package vocab

import (
	"unicode/utf8"
)

// Decode implements Vocabulary.
func (s *sentencePiece) Decode(ids []int32) string {
	text := s.appendText(nil, ids)
	if s.denormalizer != nil {
		text = s.denormalizer.append(nil, string(text))
	}
	return Clean(string(text))
}

// appendText joins the pieces: it appends to dst what the original's decoder gives before denormalisation.
func (s *sentencePiece) appendText(dst []byte, ids []int32) []byte {
	var run []byte
	atStart := true // no space has been dropped and no text given yet
	droppedSpace := false
	for _, id := range ids {
		if id < 0 || int(id) >= len(s.pieces) {
			continue
		}
		piece := s.pieces[id]
		if s.kinds[id] == bytePiece {
			c, _ := byteOf(piece)
			run = append(run, c)
			continue
		}
		dst = appendBytes(dst, run)
		run = run[:0]
		if droppedSpace || len(dst) > 0 {
			atStart = false
		}
		dst, droppedSpace = s.appendPiece(dst, id, atStart)
	}
	return appendBytes(dst, run)
}

// appendPiece appends the text of one piece that is not a byte. At the start of the text a piece loses the space it
// begins with. droppedSpace tells that this was the one space the encoder adds: with spaces squeezed it is always
// false, because then no space may stand at the start at all.
func (s *sentencePiece) appendPiece(dst []byte, id int32, atStart bool) (_ []byte, droppedSpace bool) {
	piece := s.pieces[id]
	switch s.kinds[id] {
	case controlPiece:
		return dst, false
	case unknownPiece:
		return append(dst, s.unkSurface...), false
	}
	n := s.normalizer
	if atStart && (n.prefixSpace || n.suffixSpace || n.squeeze) && len(piece) >= len(spaceSymbol) &&
		piece[:len(spaceSymbol)] == spaceSymbol {
		piece = piece[len(spaceSymbol):]
		droppedSpace = !n.squeeze
	}
	for i := 0; i < len(piece); {
		if piece[i] == spaceSymbol[0] && len(piece)-i >= len(spaceSymbol) && piece[i:i+len(spaceSymbol)] == spaceSymbol {
			dst = append(dst, ' ')
			i += len(spaceSymbol)
			continue
		}
		dst = append(dst, piece[i])
		i++
	}
	return dst, droppedSpace
}

// appendBytes appends a run of byte pieces: characters where the bytes form one, U+FFFD for each byte that is part of
// none.
func appendBytes(dst, run []byte) []byte {
	for len(run) > 0 {
		r, length := utf8.DecodeRune(run)
		dst = utf8.AppendRune(dst, r)
		run = run[length:]
	}
	return dst
}
