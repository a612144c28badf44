package pieces

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/translator/vocab"
)

// someSpec draws the options that say which pieces may be.
func someSpec(t *rapid.T) *vocab.TrainerSpec {
	spec := Defaults().Spec
	spec.SplitByScript = rapid.Bool().Draw(t, "scripts")
	spec.SplitByNumber = rapid.Bool().Draw(t, "number")
	spec.SplitByWhitespace = rapid.Bool().Draw(t, "whitespace")
	spec.SplitDigits = rapid.Bool().Draw(t, "digits")
	spec.WhitespaceAsSuffix = rapid.Bool().Draw(t, "suffix")
	spec.WhitespaceOnlyPieces = rapid.Bool().Draw(t, "only")
	return &spec
}

// mayBePiece is the original's rule for a piece, told the other way round.
func mayBePiece(s *vocab.TrainerSpec, piece []rune) bool {
	n := len(piece)
	if n > s.MaxPieceLength {
		return false
	}
	onlySpaces := strings.Trim(string(piece), spaceSymbolText) == ""
	var script string
	for i, r := range piece {
		if r == spaceSymbol {
			first, last := i == 0, i == n-1
			ok := s.WhitespaceOnlyPieces && onlySpaces ||
				!s.WhitespaceAsSuffix && (first || !s.SplitByWhitespace && !last) ||
				s.WhitespaceAsSuffix && (last || !s.SplitByWhitespace && !first)
			if !ok {
				return false
			}
			continue
		}
		if s.SplitDigits && unicode.IsDigit(r) && n > 1 {
			return false
		}
		if unicode.IsDigit(r) && !s.SplitByNumber {
			script = ""
			continue
		}
		own := scriptOf(r)
		if s.SplitByScript && script != "" && own != script {
			return false
		}
		script = own
	}
	return true
}

func scriptOf(r rune) string {
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			if name == "Hiragana" || name == "Katakana" || r == '\u30fc' {
				return "Han"
			}
			return name
		}
	}
	return "Common"
}

var variedText = rapid.StringOfN(rapid.RuneFrom([]rune("aä12\u2581\u2581.,Жж中かカー\U0001f600")), 0, 12, -1)

// TestNoPieceReachesBeyondAWord: whatever may be a piece lies within a word, words are cut nowhere else, and together they are the
// text.
func TestNoPieceReachesBeyondAWord(t *testing.T) {
	scripts := newScriptTable()
	rapid.Check(t, func(t *rapid.T) {
		spec := someSpec(t)
		text := variedText.Draw(t, "text")
		d := &divider{spec: spec}
		if spec.SplitByScript {
			d.scripts = scripts
		}
		var words []string
		d.words(text, func(word string) { words = append(words, word) })
		if strings.Join(words, "") != text {
			t.Fatalf("the words %q are not the text %q", words, text)
		}
		cuts := map[int]bool{}
		at := 0
		for _, word := range words {
			if word == "" {
				t.Fatal("an empty word")
			}
			cuts[at] = true
			at += len([]rune(word))
		}
		runes := []rune(text)
		reached := map[int]bool{}
		for start := range runes {
			for end := start + 1; end <= len(runes); end++ {
				piece := runes[start:end]
				within := true
				for cut := start + 1; cut < end; cut++ {
					within = within && !cuts[cut]
				}
				may := mayBePiece(spec, piece)
				if may && !within {
					t.Fatalf("%q may be a piece, but the words are %q (%+v)", string(piece), words, *spec)
				}
				if within && may != d.allows(piece) {
					t.Fatalf("%q as a piece within a word: %v, but allows tells %v (%+v)", string(piece), may, !may, *spec)
				}
				for cut := start + 1; may && cut < end; cut++ {
					reached[cut] = true
				}
			}
		}
	})
}

// TestMarksBelongToLetters: a mark takes the script of the letter it is written over.
func TestMarksBelongToLetters(t *testing.T) {
	options := Defaults()
	d := newDivider(&options.Spec, nil, nil)
	var words []string
	d.words("q\u0303\u2581\u0303q,\u0303q\tx\x00y", func(word string) { words = append(words, word) })
	if got, want := strings.Join(words, "|"), "q\u0303|\u2581\u0303q|,\u0303|q|x|y"; got != want {
		t.Errorf("words %q, want %q", got, want)
	}
}

// TestSymbolsAreNoWords: what the text holds of special symbols belongs to no piece.
func TestSymbolsAreNoWords(t *testing.T) {
	options := Defaults()
	options.Spec.UserDefinedSymbols = []string{"<b>", "<br>", "ab"}
	special, err := specialPieces(&options.Spec)
	if err != nil {
		t.Fatal(err)
	}
	model := vocab.Model{Trainer: options.Spec, Normalizer: options.Normalizer}
	normalizer, err := model.NewNormalizer()
	if err != nil {
		t.Fatal(err)
	}
	d := newDivider(&options.Spec, normalizer, special)
	text, _ := d.normalized(nil, "x <br>y</s> cabd <0x0A>z")
	var words []string
	d.words(text, func(word string) { words = append(words, word) })
	if got, want := strings.Join(words, "|"), "\u2581x|\u2581|y|\u2581c|d|\u2581|z"; got != want {
		t.Errorf("words %q, want %q", got, want)
	}
}

// TestScripts compares with Unicode's tables: two characters are of one script in the table if they are there.
func TestScripts(t *testing.T) {
	table := newScriptTable()
	names := map[uint8]string{}
	for name, ranges := range unicode.Scripts {
		for c := rune(0); c <= unicode.MaxRune; c += 7 {
			if !unicode.Is(ranges, c) {
				continue
			}
			want := name
			if name == "Hiragana" || name == "Katakana" {
				want = "Han"
			}
			script := table.of(c)
			if names[script] == "" {
				names[script] = want
			}
			if names[script] != want {
				t.Fatalf("%U is %s, but has the number of %s", c, want, names[script])
			}
		}
	}
	if names[anyScript] != "Inherited" || names[commonScript] != "Common" || table.of(0x10ffff) != commonScript {
		t.Errorf("%d is %s, %d %s, what is not assigned %d", anyScript, names[anyScript], commonScript, names[commonScript], table.of(0x10ffff))
	}
}
