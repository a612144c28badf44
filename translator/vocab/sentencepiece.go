package vocab

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// sentencePiece is a SentencePiece model.
type sentencePiece struct {
	pieces      []string
	kinds       []pieceKind
	found       *trie // the pieces that text can hold: normal, user-defined and unused ones
	reserved    map[string]int32
	byteIDs     *[256]int32 // nil without byte fallback
	eos, unk    int32
	unkSurface  string
	fingerprint string

	normalizer   *normalizer
	denormalizer *normalizer // nil if there is none

	segment func(s *scratch) // cuts s.text into s.segments
	pool    sync.Pool        // of *scratch
}

// A scratch is the memory of one call.
type scratch struct {
	text     []byte // normalised
	segments []segment
	lattice  []latticeNode
	run      []byte // of byte pieces
	symbols  []symbol
	agenda   []symbolPair
	splits   map[int32]int // length of the left part of a merged, unused piece
}

// A segment is a piece of normalised text: it reaches from the end of the segment before to end.
type segment struct {
	end int
	id  int32
}

// parseSentencePiece reads the content of a SentencePiece model file.
func parseSentencePiece(data []byte, fingerprint string) (*sentencePiece, error) {
	proto, err := parseModelProto(string(data))
	if err != nil {
		return nil, err
	}
	s := &sentencePiece{fingerprint: fingerprint, unkSurface: proto.trainer.unkSurface, eos: -1, unk: -1}
	s.pool.New = func() any { return new(scratch) }
	if err := s.addPieces(proto); err != nil {
		return nil, err
	}
	userDefined, err := s.userDefined()
	if err != nil {
		return nil, err
	}
	suffix := proto.trainer.whitespaceAsSuffix
	if s.normalizer, err = newNormalizer(&proto.normalizer, suffix, userDefined); err != nil {
		return nil, err
	}
	if proto.denormalizer.characterMap != "" {
		if s.denormalizer, err = newNormalizer(&proto.denormalizer, false, nil); err != nil {
			return nil, err
		}
	}
	switch proto.trainer.model {
	case unigramModel:
		s.segment = newUnigram(s.found, proto.pieces, s.unk).segment
	case bpeModel:
		s.segment = newBPE(s, userDefined).segment
	case wordModel:
		s.segment = s.segmentWords
	case charModel:
		s.segment = func(sc *scratch) { s.segmentCharacters(sc, userDefined) }
	}
	return s, nil
}

// addPieces checks the pieces and fills the tables that find them.
func (s *sentencePiece) addPieces(proto *modelProto) error {
	n := len(proto.pieces)
	if n == 0 {
		return fmt.Errorf("there are no pieces in this SentencePiece model")
	}
	s.pieces = make([]string, n)
	s.kinds = make([]pieceKind, n)
	s.reserved = make(map[string]int32)
	found := make([]int32, 0, n)
	for i := range proto.pieces {
		p := &proto.pieces[i]
		if err := checkPiece(p); err != nil {
			return atByte(p.offset, "piece %d: %w", i, err)
		}
		s.pieces[i], s.kinds[i] = p.text, p.kind
		if !p.kind.reserved() {
			found = append(found, int32(i))
			continue
		}
		if err := s.addReserved(int32(i), proto.trainer.byteFallback); err != nil {
			return atByte(p.offset, "piece %d: %w", i, err)
		}
	}
	if err := s.checkReserved(proto); err != nil {
		return err
	}
	trie, err := newTrie(proto.pieces, found)
	if duplicate, ok := err.(duplicateKey); ok {
		p := &proto.pieces[duplicate.id]
		return atByte(p.offset, "piece %d: %q is already defined", duplicate.id, p.text)
	}
	s.found = trie
	s.hideFound()
	return nil
}

// MaxPiece limits the length of a piece in bytes. Each character of a text may cost the time to compare it with the
// longest piece.
const MaxPiece = 1 << 12

func checkPiece(p *pieceProto) error {
	switch {
	case p.text == "":
		return fmt.Errorf("it is empty")
	case len(p.text) > MaxPiece:
		return fmt.Errorf("it has %d bytes, more than %d", len(p.text), MaxPiece)
	case strings.IndexByte(p.text, 0) >= 0:
		return fmt.Errorf("%q holds a zero byte", p.text)
	case math.IsNaN(float64(p.score)):
		return fmt.Errorf("the score of %q is not a number", p.text)
	}
	return nil
}

// addReserved enters a piece that stands for something else than its own text.
func (s *sentencePiece) addReserved(id int32, byteFallback bool) error {
	piece := s.pieces[id]
	if _, ok := s.reserved[piece]; ok {
		return fmt.Errorf("%q is already defined", piece)
	}
	s.reserved[piece] = id
	switch s.kinds[id] {
	case unknownPiece:
		if s.unk >= 0 {
			return fmt.Errorf("%q is a second unknown piece beside %q", piece, s.pieces[s.unk])
		}
		s.unk = id
	case bytePiece:
		if !byteFallback {
			return fmt.Errorf("%q is a byte piece, but the model does not fall back on bytes", piece)
		}
		if _, ok := byteOf(piece); !ok {
			return fmt.Errorf("%q is not a byte: it should read <0x00> to <0xFF>", piece)
		}
	}
	return nil
}

// checkReserved finds the end of sentence and the byte pieces.
func (s *sentencePiece) checkReserved(proto *modelProto) error {
	if s.unk < 0 {
		return fmt.Errorf("this SentencePiece model has no piece for the unknown")
	}
	eos, ok := s.reserved[proto.trainer.eosPiece]
	if !ok || s.kinds[eos] != controlPiece {
		return fmt.Errorf("this SentencePiece model has no end of sentence (a control symbol %q), which translation "+
			"needs: train it with --eos_id=0", proto.trainer.eosPiece)
	}
	s.eos = eos
	if !proto.trainer.byteFallback {
		return nil
	}
	s.byteIDs = new([256]int32)
	for c := range s.byteIDs {
		id, ok := s.reserved[pieceOfByte(byte(c))]
		if !ok || s.kinds[id] != bytePiece {
			return fmt.Errorf("this SentencePiece model falls back on bytes, but has no piece %s", pieceOfByte(byte(c)))
		}
		s.byteIDs[c] = id
	}
	return nil
}

// hideFound treats a piece that is spelled like a reserved one as that one when decoding, as the original does: it
// decodes the spelling, not the id.
func (s *sentencePiece) hideFound() {
	for piece, reserved := range s.reserved {
		if n := s.found.walk(0, []byte(piece)); n != noNode && s.found.nodes[n].kind != 0 {
			s.kinds[s.found.nodes[n].id] = s.kinds[reserved]
		}
	}
}

// userDefined returns the trie of user-defined symbols, nil if there are none.
func (s *sentencePiece) userDefined() (*trie, error) {
	var symbols []string
	for id, kind := range s.kinds {
		if kind == userDefinedPiece {
			symbols = append(symbols, s.pieces[id])
		}
	}
	if symbols == nil {
		return nil, nil
	}
	return prefixTrie(symbols)
}

func (s *sentencePiece) borrow(text string) *scratch {
	sc := s.pool.Get().(*scratch)
	sc.text = s.normalizer.append(sc.text[:0], text)
	sc.segments = sc.segments[:0]
	s.segment(sc)
	return sc
}

// maxPooled limits, in bytes, the text whose scratch memory is kept for other calls.
const maxPooled = 1 << 18

func (s *sentencePiece) giveBack(sc *scratch) {
	if cap(sc.text) <= maxPooled {
		s.pool.Put(sc)
	}
}

// Encode implements Vocabulary.
func (s *sentencePiece) Encode(text string, dst []int32) []int32 {
	sc := s.borrow(text)
	defer s.giveBack(sc)
	dst = slices.Grow(dst, len(sc.segments)+1) // the end of sentence comes behind them, mostly
	start, afterUnknown := 0, false
	for _, seg := range sc.segments {
		unknown := seg.id == s.unk
		switch {
		case !unknown:
			dst = append(dst, seg.id)
		case s.byteIDs != nil:
			for _, c := range sc.text[start:seg.end] {
				dst = append(dst, s.byteIDs[c])
			}
		case !afterUnknown:
			dst = append(dst, s.unk)
		}
		start, afterUnknown = seg.end, unknown
	}
	return dst
}

// EncodePieces implements Vocabulary.
func (s *sentencePiece) EncodePieces(text string) []string {
	sc := s.borrow(text)
	defer s.giveBack(sc)
	pieces := make([]string, 0, len(sc.segments))
	start := 0
	for i := 0; i < len(sc.segments); i++ {
		seg := sc.segments[i]
		switch {
		case seg.id != s.unk:
			pieces = append(pieces, s.pieces[seg.id])
		case s.byteIDs != nil:
			for _, c := range sc.text[start:seg.end] {
				pieces = append(pieces, s.pieces[s.byteIDs[c]])
			}
		default:
			for i+1 < len(sc.segments) && sc.segments[i+1].id == s.unk {
				i++
			}
			seg = sc.segments[i]
			pieces = append(pieces, string(sc.text[start:seg.end]))
		}
		start = seg.end
	}
	return pieces
}

// Piece implements Vocabulary.
func (s *sentencePiece) Piece(id int32) string {
	if id < 0 || int(id) >= len(s.pieces) {
		return ""
	}
	return s.pieces[id]
}

// ID implements Vocabulary.
func (s *sentencePiece) ID(piece string) (int32, bool) {
	if id, ok := s.reserved[piece]; ok {
		return id, true
	}
	if n := s.found.walk(0, []byte(piece)); s.found.nodes[n].kind != 0 {
		return s.found.nodes[n].id, true
	}
	return s.unk, false
}

// Size implements Vocabulary.
func (s *sentencePiece) Size() int { return len(s.pieces) }

// EOS implements Vocabulary.
func (s *sentencePiece) EOS() int32 { return s.eos }

// Unk implements Vocabulary.
func (s *sentencePiece) Unk() int32 { return s.unk }

// IsControl implements Vocabulary.
func (s *sentencePiece) IsControl(id int32) bool {
	return id >= 0 && int(id) < len(s.kinds) && s.kinds[id] == controlPiece
}

// Fingerprint implements Vocabulary.
func (s *sentencePiece) Fingerprint() string { return s.fingerprint }

// Suppressed implements Vocabulary.
func (s *sentencePiece) Suppressed() []int32 {
	suppressed := []int32{s.unk}
	for id, kind := range s.kinds {
		if kind == controlPiece && int32(id) != s.eos {
			suppressed = append(suppressed, int32(id))
		}
	}
	if s.byteIDs != nil {
		suppressed = append(suppressed, s.byteIDs[:0x20]...)
		suppressed = append(suppressed, s.byteIDs[0x7f])
	}
	slices.Sort(suppressed)
	return slices.Compact(suppressed)
}

func pieceOfByte(c byte) string { return fmt.Sprintf("<0x%02X>", c) }

// byteOf returns the byte that a piece such as <0x0A> stands for.
func byteOf(piece string) (byte, bool) {
	if len(piece) != len("<0x00>") || piece[:3] != "<0x" || piece[5] != '>' {
		return 0, false
	}
	high, low := hexDigit(piece[3]), hexDigit(piece[4])
	return high<<4 | low, high < 16 && low < 16
}

// hexDigit returns the value of an upper-case hexadecimal digit, 255 for any other character.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
