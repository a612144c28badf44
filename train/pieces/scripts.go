package pieces

import (
	"cmp"
	"maps"
	"slices"
	"unicode"
)

// A scriptTable tells in which script a character is written, as a number. Which numbers these are means nothing.
type scriptTable struct {
	basic  [1 << 16]uint8 // by character
	beyond []scriptRange  // ascending
}

type scriptRange struct {
	low, high rune
	script    uint8
}

const (
	// anyScript is the number of marks that take the script of what they are written over.
	anyScript = 0
	// commonScript is that of digits, punctuation and what is not assigned.
	commonScript = 1
)

// newScriptTable returns the table. Chinese characters and both kinds of kana are one script, as Japanese mixes them.
func newScriptTable() *scriptTable {
	table := new(scriptTable)
	for i := range table.basic {
		table.basic[i] = commonScript
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
	table.basic['\u30fc'] = han // the long vowel sign
	slices.SortFunc(table.beyond, func(a, b scriptRange) int { return cmp.Compare(a.low, b.low) })
	return table
}

func (t *scriptTable) set(ranges *unicode.RangeTable, script uint8) {
	for _, r := range ranges.R16 {
		for c := uint32(r.Lo); c <= uint32(r.Hi); c += uint32(r.Stride) {
			t.basic[c] = script
		}
	}
	for _, r := range ranges.R32 {
		if r.Stride == 1 {
			t.beyond = append(t.beyond, scriptRange{rune(r.Lo), rune(r.Hi), script})
			continue
		}
		for c := r.Lo; c <= r.Hi; c += r.Stride {
			t.beyond = append(t.beyond, scriptRange{rune(c), rune(c), script})
		}
	}
}

// of returns the script of a character.
func (t *scriptTable) of(c rune) uint8 {
	if c < rune(len(t.basic)) {
		return t.basic[c]
	}
	i, found := slices.BinarySearchFunc(t.beyond, c, func(r scriptRange, c rune) int {
		switch {
		case c < r.low:
			return 1
		case c > r.high:
			return -1
		}
		return 0
	})
	if !found {
		return commonScript
	}
	return t.beyond[i].script
}

// isDigit tells whether c is one of the digits that options speak of: ASCII and full width.
func isDigit(c rune) bool { return c >= '0' && c <= '9' || c >= '\uff10' && c <= '\uff19' }
