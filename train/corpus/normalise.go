package corpus

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Form is one of Unicode's ways to write characters that have several (Unicode Standard Annex 15).
type Form int

// The forms.
const (
	// Unchanged leaves characters as they are.
	Unchanged Form = iota
	// NFC writes a letter and its accents as one character where there is one. Nothing that can be seen changes.
	NFC
	// NFKC also replaces ligatures, full-width letters, superscripts and the like by their usual characters.
	NFKC
)

// A Normaliser changes characters, not words.
type Normaliser struct {
	Form Form
	// Controls removes control characters, byte order marks, soft hyphens, zero-width spaces and marks of direction. The
	// zero-width joiner and non-joiner stay: some scripts need them.
	Controls bool
	// Spaces makes every stretch of white space one plain space, and none at the ends.
	Spaces bool
	// Punctuation replaces typographic quotation marks, apostrophes, dashes and ellipses by those of ASCII.
	Punctuation bool
}

// Text returns the normalised text. Normalising again changes nothing.
func (n Normaliser) Text(text string) string {
	if n.Controls && strings.ContainsFunc(text, isInvisible) {
		text = strings.Map(visible, text)
	}
	// Before, since NFKC takes an acute accent for a space with a mark; after, since it makes dashes of other characters.
	text = n.punctuation(text)
	switch n.Form {
	case NFC:
		text = norm.NFC.String(text)
	case NFKC:
		text = n.punctuation(norm.NFKC.String(text))
	}
	if n.Spaces {
		text = collapsed(text)
	}
	return text
}

func (n Normaliser) punctuation(text string) string {
	if !n.Punctuation || isASCII(text) {
		return text
	}
	return plainPunctuation.Replace(text)
}

// visible is for strings.Map: it drops invisible characters.
func visible(r rune) rune {
	if isInvisible(r) {
		return -1
	}
	return r
}

// isInvisible tells whether a character cannot be seen and is no space.
func isInvisible(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == '\v', r == '\f', r == 0x85:
		return false
	case unicode.Is(unicode.Cc, r):
		return true
	}
	switch r {
	case 0x00ad, // soft hyphen
		0x200b,         // zero-width space
		0x200e, 0x200f, // marks of direction
		0x202a, 0x202b, 0x202c, 0x202d, 0x202e, // embeddings and overrides of direction
		0x2060,                         // word joiner
		0x2066, 0x2067, 0x2068, 0x2069, // isolates of direction
		0xfeff: // byte order mark
		return true
	}
	return false
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

var plainPunctuation = strings.NewReplacer(
	"“", `"`, "”", `"`, "„", `"`, "‟", `"`, "«", `"`, "»", `"`, "‹", "'", "›", "'",
	"‘", "'", "’", "'", "‚", "'", "‛", "'", "´", "'", "`", "'",
	"‐", "-", "‑", "-", "‒", "-", "–", "-", "—", "-", "―", "-", "−", "-", "…", "...",
)

// collapsed makes white space single spaces.
func collapsed(text string) string {
	if isCollapsed(text) {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

func isCollapsed(text string) bool {
	before := ' '
	for _, r := range text {
		if r == ' ' && before == ' ' || r != ' ' && unicode.IsSpace(r) {
			return false
		}
		before = r
	}
	return before != ' ' || text == ""
}

// isDamaged tells whether a text holds what no text should: bytes that are not UTF-8, the character that stands in their place,
// or characters without a meaning.
func isDamaged(text string) bool {
	for _, r := range text {
		if r >= utf8.RuneSelf && (r == utf8.RuneError || unicode.Is(unicode.Co, r) || unicode.Is(unicode.Noncharacter_Code_Point, r)) {
			return true
		}
	}
	return false
}
