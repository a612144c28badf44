package split

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestUnit is the number of bytes after which a unit without a place to break ends with the next character.
const longestUnit = 64

const (
	// sentenceMarks end a sentence when white space follows.
	sentenceMarks = ".!?…؟۔।॥።՜՞"
	// clauseMarks end a clause when white space follows.
	clauseMarks = ",;:–—،؛՝፣፤"
	// wideSentenceMarks and wideClauseMarks do so without white space.
	wideSentenceMarks = "。！？｡︒︕︖"
	wideClauseMarks   = "、，；：､"
	// closers may stand between a mark and the place to break.
	closers = "\"'”’»›)]}」』）】》〉｣"
)

// nextUnit reads the unit that starts at start, which is not the end of the text. Some white space at its start, which only the
// first unit of a text can have, belongs to it.
func nextUnit(text string, start int) unit {
	end, kind, leading := start, Anywhere, true
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		space := unicode.IsSpace(r)
		if leading = leading && space; space && !leading {
			kind = Space
			break
		}
		end += size
		if strings.ContainsRune(wideSentenceMarks, r) || strings.ContainsRune(wideClauseMarks, r) {
			end, kind = wideMarks(text, end, r, start+longestUnit+longestCharacter)
			break
		}
		if length := end - start; length >= longestUnit && !joined(text, end) || length >= longestUnit+longestCharacter {
			break
		}
	}
	next := skipSpace(text, end)
	if kind == Space {
		kind = spacedBreak(text[start:end], text[next:])
	}
	return unit{start: start, end: end, next: next, after: kind}
}

// wideMarks goes on from a mark that needs no white space to the end of all marks and closers, but hardly further than limit,
// and says what they end.
func wideMarks(text string, end int, r rune, limit int) (int, Break) {
	kind := Clause
	for {
		if strings.ContainsRune(wideSentenceMarks, r) {
			kind = Sentence
		} else if !strings.ContainsRune(wideClauseMarks, r) && !strings.ContainsRune(closers, r) {
			return end, kind
		}
		next, size := utf8.DecodeRuneInString(text[end:])
		if !strings.ContainsRune(wideSentenceMarks+wideClauseMarks+closers, next) || size == 0 || end >= limit {
			return end, kind
		}
		end += size
		r = next
	}
}

// spacedBreak says what ends at the white space between word and rest.
func spacedBreak(word, rest string) Break {
	bare := strings.TrimRight(word, closers)
	mark, size := utf8.DecodeLastRuneInString(bare)
	switch {
	case size == 0:
		return Space
	case strings.ContainsRune(clauseMarks, mark):
		return Clause
	case !strings.ContainsRune(sentenceMarks, mark):
		return Space
	case mark == '.' && abbreviation(bare[:len(bare)-size]):
		return Space
	}
	if next, _ := utf8.DecodeRuneInString(rest); unicode.IsLower(next) {
		return Space // an abbreviation, or a quotation within a sentence
	}
	return Sentence
}

// abbreviation says whether a full stop after this is one of an abbreviation: after a single letter, as in "J. S. Bach", or
// after more stops, as in "z.B.".
func abbreviation(word string) bool {
	word = strings.TrimLeft(word, "\"'“‘„‚«‹([{")
	return utf8.RuneCountInString(word) == 1 && unicode.IsLetter([]rune(word)[0]) || strings.Contains(strings.TrimRight(word, "."), ".")
}

func skipSpace(text string, start int) int {
	for start < len(text) {
		r, size := utf8.DecodeRuneInString(text[start:])
		if !unicode.IsSpace(r) {
			break
		}
		start += size
	}
	return start
}

// longestCharacter bounds how many marks are taken to belong to one character.
const longestCharacter = 128

// nextCharacter is the end of the character that starts at start, with the marks that belong to it.
func nextCharacter(text string, start int) int {
	end := start
	for end < len(text) {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
		if !joined(text, end) || end-start >= longestCharacter {
			break
		}
	}
	return end
}

// joined says whether the runes before and after a place belong to one character: a letter and its accents, an emoji and
// what changes it, the two halves of a flag.
func joined(text string, place int) bool {
	if place == 0 || place >= len(text) {
		return false
	}
	after, _ := utf8.DecodeRuneInString(text[place:])
	if unicode.Is(unicode.M, after) || after == zeroWidthJoiner || unicode.Is(unicode.Sk, after) && after >= 0x1f3fb && after <= 0x1f3ff {
		return true
	}
	before, _ := utf8.DecodeLastRuneInString(text[:place])
	return before == zeroWidthJoiner || regional(after) && oddRegionals(text[:place])
}

// oddRegionals says whether text ends in an odd number of halves of flags. It looks back no further than a character may be
// long.
func oddRegionals(text string) bool {
	text = text[max(0, len(text)-longestCharacter):]
	odd := false
	for {
		r, size := utf8.DecodeLastRuneInString(text)
		if !regional(r) {
			return odd
		}
		odd = !odd
		text = text[:len(text)-size]
	}
}

const zeroWidthJoiner = '\u200d'

// regional says whether a rune is half of a flag.
func regional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// unspaced says whether a rune is of a script written without spaces, or its punctuation.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
		r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef
}
