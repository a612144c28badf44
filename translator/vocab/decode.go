package vocab

import (
	"strings"
	"unicode/utf8"
)

// Decode implements Vocabulary.
func (s *sentencePiece) Decode(ids []int32, dst []byte) []byte {
	sc := s.pool.Get().(*scratch)
	defer s.giveBack(sc)
	s.join(sc, ids)
	start := len(dst)
	if s.denormalizer != nil {
		dst = s.denormalizer.append(dst, string(sc.text))
	} else {
		dst = append(dst, sc.text...)
	}
	return cleanFrom(dst, start)
}

// join puts the text of the pieces into sc.text, as the original's decoder gives it before denormalisation.
func (s *sentencePiece) join(sc *scratch, ids []int32) {
	text, run := sc.text[:0], sc.run[:0]
	atStart := true // no space has been dropped and no text given yet
	droppedSpace := false
	for _, id := range ids {
		if id < 0 || int(id) >= len(s.pieces) {
			continue
		}
		if s.kinds[id] == bytePiece {
			c, _ := byteOf(s.pieces[id])
			run = append(run, c)
			continue
		}
		text = appendBytes(text, run)
		run = run[:0]
		if droppedSpace || len(text) > 0 {
			atStart = false
		}
		text, droppedSpace = s.appendPiece(text, id, atStart)
	}
	sc.text, sc.run = appendBytes(text, run), run
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
	if atStart && (n.prefixSpace || n.suffixSpace || n.squeeze) && strings.HasPrefix(piece, spaceSymbol) {
		piece = piece[len(spaceSymbol):]
		droppedSpace = !n.squeeze
	}
	for {
		before, after, found := strings.Cut(piece, spaceSymbol)
		dst = append(dst, before...)
		if !found {
			return dst, droppedSpace
		}
		dst = append(dst, ' ')
		piece = after
	}
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
