package vocab

import (
	"encoding/binary"
	"strings"
)

// A characterMap holds the normalisation rules a SentencePiece model carries: sequences of characters with their
// replacements. Its form is that of the file, 4 bytes with the size of a double-array trie, the trie, and the
// replacement strings, each ended by a zero byte. The trie is one of Darts-clone: units of 32 bits, little-endian, that
// hold
//
//	bit 8          a key ends here: the unit at the offset holds its value in bits 0–30, and has bit 31 set
//	bits 0–7, 31   label
//	bits 9, 10–31  offset: bits 10–31, eight places higher if bit 9 is set
//
// A unit's child for byte c is the unit at (own index XOR own offset XOR c), if that one's label is c.
type characterMap struct {
	units        []uint32
	replacements string
}

// maxRule limits both sides of a rule, in bytes, so that neither time nor memory grow without bound. The longest
// replacement among Unicode's compatibility decompositions has 33.
const maxRule = 1 << 10

// parseCharacterMap reads a character map that stands at offset in the file. It returns nil for an empty one.
func parseCharacterMap(blob string, offset int) (*characterMap, error) {
	if blob == "" {
		return nil, nil
	}
	if len(blob) < 4 {
		return nil, atByte(offset, "the normalisation rules are cut short")
	}
	size := binary.LittleEndian.Uint32([]byte(blob[:4]))
	blob = blob[4:]
	if uint64(size) >= uint64(len(blob)) || size == 0 || size%4 != 0 {
		return nil, atByte(offset, "the normalisation rules have %d bytes, their trie %d: it must be a multiple of 4 "+
			"and leave room for the replacements", len(blob), size)
	}
	m := &characterMap{units: make([]uint32, size/4), replacements: blob[size:]}
	for i := range m.units {
		at := blob[4*i : 4*i+4]
		m.units[i] = uint32(at[0]) | uint32(at[1])<<8 | uint32(at[2])<<16 | uint32(at[3])<<24
	}
	for start := 0; start < len(m.replacements); {
		length := len(zeroTerminated(m.replacements[start:]))
		if length > maxRule {
			return nil, atByte(offset+4+int(size)+start, "a normalisation rule has a replacement of %d bytes, more than %d",
				length, maxRule)
		}
		start += length + 1
	}
	return m, nil
}

// longest returns the replacement for the longest sequence of characters that text begins with, and the length of that
// sequence: 0 if no rule applies.
func (m *characterMap) longest(text string) (replacement string, length int) {
	value := uint32(0)
	at := childrenOf(0, m.units[0])
	for i := 0; i < min(len(text), maxRule); i++ {
		at ^= uint32(text[i])
		if at >= uint32(len(m.units)) {
			break
		}
		unit := m.units[at]
		if unit&(1<<31|0xff) != uint32(text[i]) {
			break
		}
		at = childrenOf(at, unit)
		if unit&(1<<8) != 0 && at < uint32(len(m.units)) {
			value, length = m.units[at]&^(1<<31), i+1
		}
	}
	if length == 0 || value >= uint32(len(m.replacements)) {
		return "", 0
	}
	return zeroTerminated(m.replacements[value:]), length
}

// childrenOf returns the index that, XORed with a byte, is that of a unit's child.
func childrenOf(index, unit uint32) uint32 {
	return index ^ unit>>10<<(unit&(1<<9)>>6)
}

func zeroTerminated(s string) string {
	if end := strings.IndexByte(s, 0); end >= 0 {
		return s[:end]
	}
	return s
}

// startsWith tells whether a rule consists of c, or begins with c and another ASCII character.
func (m *characterMap) startsWith(c byte) bool {
	if _, length := m.longest(string(rune(c))); length > 0 {
		return true
	}
	at := childrenOf(0, m.units[0]) ^ uint32(c)
	if at >= uint32(len(m.units)) || m.units[at]&(1<<31|0xff) != uint32(c) {
		return false
	}
	at = childrenOf(at, m.units[at])
	for second := range uint32(0x80) {
		child := at ^ second
		if child < uint32(len(m.units)) && m.units[child]&(1<<31|0xff) == second {
			return true
		}
	}
	return false
}
