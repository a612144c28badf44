package pieces

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A symbol is the number of a character of the alphabet, from 1. Numbers ascend as characters do.
type symbol = int32

// endOfWord is the symbol behind each word.
const endOfWord symbol = 0

// words are the distinct words of the text, in ascending order.
type words struct {
	alphabet []rune // by symbol - 1
	text     []symbol
	starts   []int32 // of the words in text, and one more for its end
	counts   []int64 // of each word in the corpus
	total    int64   // characters in the corpus
}

// newWords makes words of what was counted, cut at characters that are not in the alphabet.
func newWords(t *tally, alphabet []rune) (*words, error) {
	w := &words{alphabet: alphabet}
	symbols := make(map[rune]symbol, len(alphabet))
	for i, r := range alphabet {
		symbols[r] = symbol(i + 1)
	}
	counts := cutAtUnknown(t.words, symbols)
	t.words = nil
	list := make([]string, 0, len(counts))
	length := 0
	for word := range counts {
		list = append(list, word)
		length += len(word) + 1
	}
	if length > math.MaxInt32 {
		return nil, fmt.Errorf("pieces: %w: its distinct words have %d bytes, more than %d: take a sample of the sentences, or keep fewer words",
			ErrCorpus, length, math.MaxInt32)
	}
	slices.SortFunc(list, strings.Compare)
	w.text = make([]symbol, 0, length)
	w.starts = make([]int32, 0, len(list)+1)
	w.counts = make([]int64, len(list))
	for i, word := range list {
		w.starts = append(w.starts, int32(len(w.text)))
		before := len(w.text)
		for _, r := range word {
			w.text = append(w.text, symbols[r])
		}
		w.counts[i] = counts[word]
		w.total += counts[word] * int64(len(w.text)-before)
		w.text = append(w.text, endOfWord)
	}
	w.starts = append(w.starts, int32(len(w.text)))
	return w, nil
}

// cutAtUnknown replaces words with characters that have no symbol by what lies between those.
func cutAtUnknown(counts map[string]int64, symbols map[rune]symbol) map[string]int64 {
	unknown := func(r rune) bool { return symbols[r] == 0 }
	parts := map[string]int64{}
	for word, n := range counts {
		if strings.ContainsFunc(word, unknown) {
			for part := range strings.FieldsFuncSeq(word, unknown) {
				parts[part] += n
			}
			delete(counts, word)
		}
	}
	for part, n := range parts {
		counts[part] += n
	}
	return counts
}

// len returns the number of words.
func (w *words) len() int { return len(w.counts) }

// word returns the symbols of a word.
func (w *words) word(i int) []symbol { return w.text[w.starts[i] : w.starts[i+1]-1] }

// runes appends the characters of some symbols to dst.
func (w *words) runes(dst []rune, symbols []symbol) []rune {
	for _, s := range symbols {
		dst = append(dst, w.alphabet[s-1])
	}
	return dst
}

// symbolCounts returns how often each symbol occurs in the corpus; that of symbol s is at s-1.
func (w *words) symbolCounts() []int64 {
	counts := make([]int64, len(w.alphabet))
	for i := range w.len() {
		for _, s := range w.word(i) {
			counts[s-1] += w.counts[i]
		}
	}
	return counts
}
