package corpus

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"unicode"
)

// Confusions are words that writers take for each other, such as "then" and "than": for each of them the others of its sets, in
// small letters.
type Confusions map[string][]string

// Add takes a set of words. A word may be in several sets.
func (c Confusions) Add(words []string) error {
	set := map[string]bool{}
	for i, word := range words {
		words[i] = strings.ToLower(word)
		if strings.ContainsFunc(word, func(r rune) bool { return !isWord(r) }) || set[words[i]] {
			return fmt.Errorf("%w: %q among words that are confused is there twice or holds more than letters and apostrophes", ErrRules, word)
		}
		set[words[i]] = true
	}
	if len(words) < 2 {
		return fmt.Errorf("%w: a set of words that are confused has %d words, but must have two at least", ErrRules, len(words))
	}
	for _, word := range words {
		for _, other := range words {
			if other != word {
				c[word] = append(c[word], other)
			}
		}
	}
	return nil
}

// isWord says whether a character is part of a word that may be confused.
func isWord(r rune) bool { return unicode.IsLetter(r) || r == '\'' || r == '’' }

// confuse replaces each word that has others by one of those, with the given probability. A capital at its beginning stays one.
// It reports whether it did anything.
func (c Confusions) confuse(random *rand.Rand, rate float64, text string) (string, bool) {
	var out strings.Builder
	changed := false
	for rest := text; rest != ""; {
		end := strings.IndexFunc(rest, func(r rune) bool { return !isWord(r) })
		if end == 0 {
			end = strings.IndexFunc(rest, isWord)
			if end < 0 {
				end = len(rest)
			}
			out.WriteString(rest[:end])
			rest = rest[end:]
			continue
		}
		if end < 0 {
			end = len(rest)
		}
		word := rest[:end]
		rest = rest[end:]
		if others := c[strings.ToLower(word)]; len(others) > 0 && random.Float64() < rate {
			word = likeCase(others[random.IntN(len(others))], word)
			changed = true
		}
		out.WriteString(word)
	}
	return out.String(), changed
}

// likeCase gives a word the capital of another.
func likeCase(word, like string) string {
	first := []rune(like)[0]
	if !unicode.IsUpper(first) {
		return word
	}
	letters := []rune(word)
	letters[0] = unicode.ToUpper(letters[0])
	return string(letters)
}

// maxConfusions bounds a line of a file of confusions, in bytes.
const maxConfusions = 1 << 16

// ReadConfusions reads sets of words, one on each line, divided by spaces. Empty lines and those that begin with # are passed
// over.
func ReadConfusions(from io.Reader) (Confusions, error) {
	c := Confusions{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxConfusions)
	number := 1
	for ; lines.Scan(); number++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if err := c.Add(words); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: it has more than %d bytes, but a line is one set of words that are confused, divided by spaces", number, maxConfusions)
	} else if err != nil {
		return nil, fmt.Errorf("reading words that are confused: line %d: %w", number, err)
	}
	return c, nil
}
