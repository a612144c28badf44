package score

import (
	"fmt"
	"strings"
	"unicode"
)

// A Tokenizer splits text into the tokens that BLEU counts.
type Tokenizer string

// The tokenisers, by the names that sacreBLEU gives them.
const (
	Tokenize13a  Tokenizer = "13a"  // as mteval-v13a, for European languages
	TokenizeIntl Tokenizer = "intl" // as mteval-v14: at Unicode punctuation and symbols
	TokenizeZh   Tokenizer = "zh"   // Chinese characters one by one, the rest as 13a
	TokenizeChar Tokenizer = "char" // every character
	TokenizeNone Tokenizer = "none" // at white space only
)

func (t Tokenizer) check() error {
	switch t {
	case Tokenize13a, TokenizeIntl, TokenizeZh, TokenizeChar, TokenizeNone:
		return nil
	}
	return fmt.Errorf("score: unknown tokeniser %q: use 13a, intl, zh, char or none", t)
}

// Tokenize returns the text with white space between tokens.
func (t Tokenizer) Tokenize(text string) string {
	switch t {
	case TokenizeIntl:
		return international(text)
	case TokenizeZh:
		return western(spaceAround([]rune(strings.TrimFunc(text, isSpace)), isChinese))
	case TokenizeChar:
		return string(spaceAround([]rune(text), func(rune) bool { return true }))
	case TokenizeNone:
		return text
	}
	text = entities.Replace(unskip.Replace(text))
	return western([]rune(" " + unescape(text) + " "))
}

var (
	unskip   = strings.NewReplacer("<skipped>", "")
	entities = strings.NewReplacer("-\n", "", "\n", " ")
)

// unescape resolves entities one after the other, so that &amp;lt; becomes <.
func unescape(text string) string {
	if !strings.Contains(text, "&") {
		return text
	}
	for _, e := range [...][2]string{{"&quot;", `"`}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}} {
		text = strings.ReplaceAll(text, e[0], e[1])
	}
	return text
}

// western separates ASCII punctuation: always, but for period and comma between digits, apostrophes, and dashes that do
// not follow a digit.
func western(text []rune) string {
	text = spaceAround(text, func(r rune) bool {
		return ' ' <= r && r <= '&' || '(' <= r && r <= '+' || r == '/' || ':' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
	})
	text = splitPairs(text, not(isDigit), isPoint, afterFirst)
	text = splitPairs(text, isPoint, not(isDigit), beforeFirst)
	text = splitPairs(text, isDigit, func(r rune) bool { return r == '-' }, afterFirst)
	return string(text)
}

// international separates punctuation, unless it stands between digits, and symbols. Digits are all of category N.
func international(s string) string {
	text := splitPairs([]rune(s), not(unicode.IsNumber), unicode.IsPunct, afterFirst)
	text = splitPairs(text, unicode.IsPunct, not(unicode.IsNumber), beforeFirst)
	return string(spaceAround(text, unicode.IsSymbol))
}

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isPoint(r rune) bool { return r == '.' || r == ',' }

func not(is func(rune) bool) func(rune) bool { return func(r rune) bool { return !is(r) } }

// spaceAround puts a space before and after the characters that are chosen.
func spaceAround(text []rune, chosen func(rune) bool) []rune {
	out := make([]rune, 0, len(text)+len(text)/4)
	for _, r := range text {
		if chosen(r) {
			out = append(out, ' ', r, ' ')
		} else {
			out = append(out, r)
		}
	}
	return out
}

type place int

const (
	beforeFirst place = iota // a space before the first character and one between
	afterFirst               // a space between and one after the second character
)

// splitPairs finds, from left to right and without overlaps, a character that first accepts followed by one that second
// accepts, and puts a space between them and another one where it is said.
func splitPairs(text []rune, first, second func(rune) bool, outer place) []rune {
	out := make([]rune, 0, len(text)+len(text)/4)
	for i := 0; i < len(text); i++ {
		if i+1 == len(text) || !first(text[i]) || !second(text[i+1]) {
			out = append(out, text[i])
			continue
		}
		if outer == beforeFirst {
			out = append(out, ' ', text[i], ' ', text[i+1])
		} else {
			out = append(out, text[i], ' ', text[i+1], ' ')
		}
		i++
	}
	return out
}

// isChinese follows sacreBLEU, which means to include two blocks beyond U+FFFF, but spells them in a way that Python
// reads as U+2001..U+2A6D and U+2F81..U+2FA1. Equal scores are worth more than a better choice of characters.
func isChinese(r rune) bool { return unicode.Is(chinese, r) }

var chinese = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x2001, Hi: 0x2a6d, Stride: 1}, // as explained above
	{Lo: 0x2e80, Hi: 0x2eff, Stride: 1}, // radicals
	{Lo: 0x2f00, Hi: 0x2fdf, Stride: 1}, // Kangxi radicals
	{Lo: 0x2ff0, Hi: 0x303f, Stride: 1}, // description characters, punctuation
	{Lo: 0x3100, Hi: 0x312f, Stride: 1}, // Bopomofo
	{Lo: 0x31a0, Hi: 0x31bf, Stride: 1},
	{Lo: 0x31c0, Hi: 0x31ef, Stride: 1}, // strokes
	{Lo: 0x3200, Hi: 0x33ff, Stride: 1}, // enclosed and squared characters
	{Lo: 0x3400, Hi: 0x4db5, Stride: 1}, // extension A
	{Lo: 0x4e00, Hi: 0x9fbb, Stride: 1}, // unified ideographs
	{Lo: 0xf900, Hi: 0xfa2d, Stride: 1}, // compatibility ideographs
	{Lo: 0xfa30, Hi: 0xfa6a, Stride: 1},
	{Lo: 0xfa70, Hi: 0xfad9, Stride: 1},
	{Lo: 0xfe10, Hi: 0xfe1f, Stride: 1}, // vertical forms
	{Lo: 0xfe30, Hi: 0xfe4f, Stride: 1}, // compatibility forms
	{Lo: 0xff00, Hi: 0xffef, Stride: 1}, // full and half width
}}

// isSpace is white space as Python's str.split sees it: Unicode's, and the four ASCII separators.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// lower is Python's str.lower: as unicode.ToLower, but for two letters of Unicode's SpecialCasing. A capital sigma at
// the end of a word becomes a final one; I with a dot keeps its dot.
func lower(text string) string {
	if !strings.ContainsAny(text, "Σİ") {
		return strings.ToLower(text)
	}
	runes := []rune(text)
	out := make([]rune, 0, len(runes)+2)
	for i, r := range runes {
		switch {
		case r == 'İ':
			out = append(out, 'i', '\u0307')
		case r == 'Σ' && besideCased(runes[:i], true) && !besideCased(runes[i+1:], false):
			out = append(out, 'ς')
		default:
			out = append(out, unicode.ToLower(r))
		}
	}
	return string(out)
}

// besideCased tells whether a cased letter comes first, from the end if backwards, after characters that do not matter.
func besideCased(text []rune, backwards bool) bool {
	for i := range text {
		r := text[i]
		if backwards {
			r = text[len(text)-1-i]
		}
		if !ignorable(r) {
			return unicode.In(r, unicode.Lower, unicode.Upper, unicode.Title, unicode.Other_Lowercase, unicode.Other_Uppercase)
		}
	}
	return false
}

// ignorable is Unicode's Case_Ignorable.
func ignorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r)
}
