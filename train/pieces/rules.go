package pieces

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Rules say what sequences of characters become before a text is segmented: the longest one that the text begins with
// is replaced.
type Rules map[string]string

// ruleNames are the names that NamedRules knows.
var ruleNames = []string{"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"}

// NamedRules returns the rules that the original has under that name: Unicode's compatibility composition (nfkc), with
// what is usual for translation (nmt_), and with folding of case (_cf); "identity" changes nothing.
func NamedRules(name string) (Rules, error) {
	switch name {
	case "nmt_nfkc":
		return compositionRules().forTranslation().withoutRedundant(), nil
	case "nfkc":
		return compositionRules().withoutRedundant(), nil
	case "nmt_nfkc_cf":
		return compositionRules().forTranslation().folded().withoutRedundant(), nil
	case "nfkc_cf":
		return compositionRules().folded().withoutRedundant(), nil
	case "identity":
		return nil, nil
	}
	return nil, fmt.Errorf("pieces: %w: there are no normalisation rules %q: the names are %s", ErrOptions, name, strings.Join(ruleNames, ", "))
}

// compositionRules returns NFKC as rules: one for each character that it changes, and one for each spelling of such
// a character by several others.
func compositionRules() Rules {
	rules := make(Rules, 1<<18)
	origins := map[rune][]rune{}        // the characters that decompose to a single one
	decompositions := map[string]bool{} // of several characters
	for c := rune(1); c <= unicode.MaxRune; c++ {
		text := string(c)
		if !assignable(c) || norm.NFKD.QuickSpanString(text) == len(text) {
			continue // NFKC does not change it either
		}
		if composed := norm.NFKC.String(text); composed != text {
			rules[text] = composed
		}
		if decomposed := []rune(norm.NFKD.String(text)); len(decomposed) == 1 {
			origins[decomposed[0]] = append(origins[decomposed[0]], c)
		} else {
			decompositions[string(decomposed)] = true
		}
	}
	for decomposed := range decompositions {
		composed := norm.NFKC.String(decomposed)
		if composed == decomposed {
			continue
		}
		for _, spelling := range spellings([]rune(decomposed), origins) {
			if spelling != composed {
				rules[spelling] = composed
			}
		}
	}
	return rules
}

// assignable tells whether a number can be that of a character.
func assignable(c rune) bool {
	surrogate := c >= 0xd800 && c < 0xe000
	noncharacter := c >= 0xfdd0 && c <= 0xfdef || c&0xfffe == 0xfffe
	return !surrogate && !noncharacter
}

// spellings returns all texts whose characters decompose, one by one, to those of decomposed.
func spellings(decomposed []rune, origins map[rune][]rune) []string {
	all := []string{""}
	for _, c := range decomposed {
		var longer []string
		for _, start := range all {
			longer = append(longer, start+string(c))
			for _, origin := range origins[c] {
				longer = append(longer, start+string(origin))
			}
		}
		all = longer
	}
	return all
}

// forTranslation adds that all kinds of spaces and some invisible characters become spaces, and that control
// characters vanish. The full-width tilde stays, since Japanese distinguishes it from the other.
func (r Rules) forTranslation() Rules {
	for _, c := range "\t\n\f\r\u1680\u200b\u200c\u200e\u200f\u2028\u2029\u2581\ufeff\ufffd" {
		r[string(c)] = " "
	}
	for c := rune(1); c < ' '; c++ {
		if !slices.Contains([]rune("\t\n\f\r"), c) {
			r[string(c)] = ""
		}
	}
	for _, c := range "\u007f\u008f\u009f" {
		r[string(c)] = ""
	}
	delete(r, "\uff5e")
	return r
}

// folded adds Unicode's simple case folding.
func (r Rules) folded() Rules {
	for from, to := range r {
		folded := []rune(to)
		for i, c := range folded {
			folded[i] = fold(c)
		}
		r[from] = string(folded)
	}
	for c := rune(1); c <= unicode.MaxRune; c++ {
		if _, ok := r[string(c)]; !ok && assignable(c) && fold(c) != c {
			r[string(c)] = string(fold(c))
		}
	}
	return r
}

// fold returns the character that stands for all cases of c: the small letter, but for Cherokee.
func fold(c rune) rune {
	switch {
	case unicode.SimpleFold(c) == c:
		return c
	case unicode.Is(unicode.Cherokee, c):
		return unicode.ToUpper(c)
	}
	return unicode.ToLower(unicode.ToUpper(c))
}

// withoutRedundant removes the rules for several characters that shorter ones imply.
func (r Rules) withoutRedundant() Rules {
	byLength := map[int][]string{}
	longest := 0
	for from := range r {
		if length := utf8.RuneCountInString(from); length > 1 {
			byLength[length] = append(byLength[length], from)
			longest = max(longest, length)
		}
	}
	for length := 2; length <= longest; length++ {
		for _, from := range byLength[length] {
			if r.apply(from, length-1) == r[from] {
				delete(r, from)
			}
		}
	}
	return r
}

// apply rewrites a text. longest is the number of characters of the longest rule.
func (r Rules) apply(text string, longest int) string {
	var out []byte
	for text != "" {
		_, length := utf8.DecodeRuneInString(text)
		replacement := text[:length]
		characters := 0
		for end := range len(text) + 1 {
			if end == 0 || end < len(text) && !utf8.RuneStart(text[end]) {
				continue
			}
			if to, ok := r[text[:end]]; ok {
				length, replacement = end, to
			}
			if characters++; characters == longest {
				break
			}
		}
		out = append(out, replacement...)
		text = text[length:]
	}
	return string(out)
}
