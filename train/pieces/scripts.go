package pieces

import (
	"maps"
	"slices"
	"unicode"
)

// A scriptTable has for each character the number of the script it is written in. Which numbers these are means nothing.
type scriptTable []uint8

// anyScript is the number of marks that take the script of what they are written over.
const anyScript = 0

const commonScript = 1 // digits, punctuation and what is not assigned

// newScriptTable returns the table. Chinese characters and both kinds of kana are one script, as Japanese mixes them.
func newScriptTable() scriptTable {
	table := make(scriptTable, unicode.MaxRune+1)
	for i := range table {
		table[i] = commonScript
	}
	number, han := uint8(commonScript), uint8(0)
	for _, name := range slices.Sorted(maps.Keys(unicode.Scripts)) {
		switch name {
		case "Common":
		case "Inherited":
			table.set(unicode.Scripts[name], anyScript)
		case "Hiragana", "Katakana": // both come after Han
			table.set(unicode.Scripts[name], han)
		case "Han":
			number++
			han = number
			table.set(unicode.Scripts[name], han)
		default:
			number++
			table.set(unicode.Scripts[name], number)
		}
	}
	table['\u30fc'] = han // the long vowel sign
	return table
}

func (t scriptTable) set(ranges *unicode.RangeTable, script uint8) {
	for _, r := range ranges.R16 {
		for c := uint32(r.Lo); c <= uint32(r.Hi); c += uint32(r.Stride) {
			t[c] = script
		}
	}
	for _, r := range ranges.R32 {
		for c := uint64(r.Lo); c <= uint64(r.Hi); c += uint64(r.Stride) {
			t[c] = script
		}
	}
}

// isDigit tells whether c is one of the digits that options speak of: ASCII and full width.
func isDigit(c rune) bool { return c >= '0' && c <= '9' || c >= '\uff10' && c <= '\uff19' }
