package pieces

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/translator/vocab"
)

// A divider cuts sentences into words, beyond whose ends no piece reaches, and knows which pieces may be.
type divider struct {
	normalizer *vocab.Normalizer
	spec       *vocab.TrainerSpec
	scripts    *scriptTable // nil if pieces may hold several scripts
	symbols    *strings.Replacer
	firstBytes [256]bool // of the symbols
}

func newDivider(spec *vocab.TrainerSpec, normalizer *vocab.Normalizer, special map[int]vocab.ModelPiece) *divider {
	d := &divider{normalizer: normalizer, spec: spec}
	if spec.SplitByScript {
		d.scripts = newScriptTable()
	}
	var symbols []string
	for _, piece := range special {
		symbols = append(symbols, piece.Text)
	}
	// The first one that fits is replaced, so that the longest have to come first.
	slices.SortFunc(symbols, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	var pairs []string
	for _, symbol := range symbols {
		pairs = append(pairs, symbol, boundary)
		d.firstBytes[symbol[0]] = true
	}
	d.symbols = strings.NewReplacer(pairs...)
	return d
}

// boundary stands for a symbol in normalised text: no piece may hold a part of one.
const (
	boundaryRune = '\t'
	boundary     = string(boundaryRune)
)

// normalized returns the sentence as pieces are found in it, with a boundary for each special symbol.
func (d *divider) normalized(scratch []byte, sentence string) (text string, _ []byte) {
	scratch = d.normalizer.Append(scratch[:0], sentence)
	text = string(scratch)
	for _, c := range scratch {
		if d.firstBytes[c] {
			return d.symbols.Replace(text), scratch
		}
	}
	return text, scratch
}

// words calls f with the words of a normalised sentence.
func (d *divider) words(text string, f func(word string)) {
	start := 0  // of the word
	spaces := 0 // where the spaces right before the character begin
	var before place
	for i, c := range text {
		if c == utf8.RuneError || c == boundaryRune || c == 0 {
			_, length := utf8.DecodeRuneInString(text[i:])
			if i > start {
				f(text[start:i])
			}
			start, spaces, before = i+length, i+length, place{}
			continue
		}
		here := d.next(before, c)
		if here.foreign && !d.spec.WhitespaceAsSuffix && spaces > start {
			f(text[start:spaces]) // they belong to what follows
			start = spaces
		}
		if (here.cut || here.foreign && d.spec.WhitespaceAsSuffix) && i > start {
			f(text[start:i])
			start = i
		}
		if !here.space {
			spaces = i + utf8.RuneLen(c)
		}
		before = here
	}
	if start < len(text) {
		f(text[start:])
	}
}

// A place is what counts of the text up to a character for the question whether a piece may reach beyond it.
type place struct {
	script       uint8
	space, digit bool // the character is one
	cut          bool // no piece reaches across the beginning of the character
	foreign      bool // no piece holds the character and what stands before, whose script is another
}

// next returns the place of the character c behind another.
func (d *divider) next(before place, c rune) place {
	s := d.spec
	here := place{space: c == spaceSymbol, digit: s.SplitDigits && isDigit(c)}
	switch {
	case s.SplitByWhitespace && s.WhitespaceAsSuffix:
		here.cut = before.space && !(here.space && s.WhitespaceOnlyPieces)
	case s.SplitByWhitespace:
		here.cut = here.space && !(before.space && s.WhitespaceOnlyPieces)
	}
	here.cut = here.cut || here.digit || before.digit
	if !s.SplitByNumber && isDigit(c) {
		return here // it goes with all scripts, and what stands before does not matter any more
	}
	if d.scripts != nil && !here.space {
		here.script = d.scripts.of(c)
	}
	if here.script == anyScript && !here.cut {
		here.script = before.script
	}
	here.foreign = before.script != anyScript && here.script != anyScript && here.script != before.script
	return here
}

// allows tells whether a part of a word may be a piece.
func (d *divider) allows(piece []rune) bool {
	n := len(piece)
	if n > d.spec.MaxPieceLength {
		return false
	}
	spaces := 0
	for _, c := range piece {
		if c == spaceSymbol {
			spaces++
		}
	}
	switch {
	case spaces == 0 || n == 1:
		return true
	case spaces == n:
		return d.spec.WhitespaceOnlyPieces
	case d.spec.SplitByWhitespace && d.spec.WhitespaceAsSuffix:
		return spaces == 1 && piece[n-1] == spaceSymbol
	case d.spec.SplitByWhitespace:
		return spaces == 1 && piece[0] == spaceSymbol
	case d.spec.WhitespaceAsSuffix:
		return piece[0] != spaceSymbol
	}
	return piece[n-1] != spaceSymbol
}
