package vocab

import (
	"strings"
	"unicode/utf8"
)

// Clean makes text safe for one line of output, or one field of a tab-separated row. Each line break and control
// character becomes a space: U+0000–U+001F (tab, line feed and carriage return among them), U+007F–U+009F, and the
// line and paragraph separators U+2028 and U+2029. Bytes that are not valid UTF-8 become U+FFFD, a run of them one.
// Text that holds none of these is returned as it is.
func Clean(text string) string {
	if !breaksLines(text) && utf8.ValidString(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if breaksLine(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

func breaksLine(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029
}

// cleanFrom makes what follows start in text safe as Clean does.
func cleanFrom(text []byte, start int) []byte {
	if part := text[start:]; breaksLines(part) || !utf8.Valid(part) {
		return append(text[:start], Clean(string(part))...)
	}
	return text
}

// breaksLines says whether a character of text is one that breaksLine is true for, and may say so for bytes that are not UTF-8.
func breaksLines[T string | []byte](text T) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c < 0x20, c == 0x7f:
			return true
		case c == 0xc2 && i+1 < len(text) && text[i+1] < 0xa0:
			return true
		case c == 0xe2 && i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xa8:
			return true
		}
	}
	return false
}
