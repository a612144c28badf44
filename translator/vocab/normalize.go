package vocab

import (
	"strings"
	"unicode/utf8"
)

// spaceSymbol, U+2581, stands for a space within pieces.
const spaceSymbol = "\u2581"

// A normalizer rewrites text by a model's rules before it is segmented, or after it is put together again.
type normalizer struct {
	rules       *characterMap // nil if there are none
	userDefined *trie         // symbols that no rule touches; nil if there are none

	prefixSpace bool // a space is added in front
	suffixSpace bool // a space is added at the end
	squeeze     bool // spaces are removed at both ends, and runs of them become one
	space       string

	// plain[c] tells of an ASCII character that it stays as it is, if the next one is ASCII too (or none follows).
	// A rule may still begin with it, as "A" with the rule for "A" and a combining ring.
	plain [utf8.RuneSelf]bool
}

func newNormalizer(p *normalizerProto, whitespaceAsSuffix bool, userDefined *trie) (*normalizer, error) {
	rules, err := parseCharacterMap(p.characterMap, p.offset)
	if err != nil {
		return nil, err
	}
	n := &normalizer{
		rules:       rules,
		userDefined: userDefined,
		prefixSpace: p.dummyPrefix && !whitespaceAsSuffix,
		suffixSpace: p.dummyPrefix && whitespaceAsSuffix,
		squeeze:     p.removeExtraWhitespaces,
		space:       " ",
	}
	if p.escapeWhitespaces {
		n.space = spaceSymbol
	}
	for c := range n.plain {
		n.plain[c] = n.isPlain(byte(c))
	}
	return n, nil
}

// isPlain tells whether no rule or user-defined symbol begins with c, or with c and another ASCII character.
func (n *normalizer) isPlain(c byte) bool {
	if n.userDefined != nil && n.userDefined.next(0, c) != noNode {
		return false
	}
	return n.rules == nil || !n.rules.startsWith(c)
}

// append appends the normalised text to dst.
func (n *normalizer) append(dst []byte, text string) []byte {
	if n.squeeze {
		text = n.trimLeft(text)
	}
	if text == "" {
		return dst
	}
	start := len(dst)
	if n.prefixSpace {
		dst = append(dst, n.space...)
	}
	afterSpace := n.squeeze
	for text != "" {
		if run := n.plainRun(text); run > 0 {
			dst = append(dst, text[:run]...)
			text = text[run:]
			afterSpace = false
			continue
		}
		replacement, length := n.first(text)
		text = text[length:]
		if afterSpace {
			replacement = strings.TrimLeft(replacement, " ")
		}
		if replacement != "" {
			dst = n.appendSpaced(dst, replacement)
			afterSpace = n.squeeze && replacement[len(replacement)-1] == ' '
		}
	}
	if n.squeeze {
		for len(dst)-start >= len(n.space) && string(dst[len(dst)-len(n.space):]) == n.space {
			dst = dst[:len(dst)-len(n.space)]
		}
	}
	if n.suffixSpace {
		dst = append(dst, n.space...)
	}
	return dst
}

func (n *normalizer) trimLeft(text string) string {
	for text != "" {
		replacement, length := n.first(text)
		if replacement != " " {
			break
		}
		text = text[length:]
	}
	return text
}

// plainRun returns the length of the text at the start that stays as it is and holds no space.
func (n *normalizer) plainRun(text string) int {
	i := 0
	for i < len(text) && text[i] < utf8.RuneSelf && text[i] != ' ' && n.plain[text[i]] {
		i++
	}
	if i < len(text) && text[i] >= utf8.RuneSelf && i > 0 {
		i-- // a rule may join the last one to what follows
	}
	return i
}

// first returns what the first characters of text become, and their length, which is at least 1. A byte that is not
// valid UTF-8 becomes U+FFFD.
func (n *normalizer) first(text string) (replacement string, length int) {
	if text[0] == ' ' && n.plain[' '] && (len(text) == 1 || text[1] < utf8.RuneSelf) {
		return " ", 1
	}
	if n.userDefined != nil {
		if length := longestKey(n.userDefined, text); length > 0 {
			return text[:length], length
		}
	}
	if n.rules != nil {
		if replacement, length := n.rules.longest(text); length > 0 {
			return replacement, length
		}
	}
	r, length := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && length == 1 {
		return "\uFFFD", 1
	}
	return text[:length], length
}

// appendSpaced appends text with its spaces written as the model writes them.
func (n *normalizer) appendSpaced(dst []byte, text string) []byte {
	for {
		i := strings.IndexByte(text, ' ')
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		dst = append(dst, n.space...)
		text = text[i+1:]
	}
}
