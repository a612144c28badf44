package align

import "strings"

// MaxWords is how many different words of a side are told apart by default.
const MaxWords = 1 << 22

// Words numbers the words of one side of a corpus, in the order in which they come. It takes about 100 bytes and those of the
// word for each.
type Words struct {
	limit int
	ids   map[string]int32
	words []string
}

// NewWords returns an empty vocabulary. From the limit on, all further words are one and the same.
func NewWords(limit int) *Words { return &Words{limit: max(limit, 1), ids: map[string]int32{}} }

// Encode appends the numbers of the words of a line, which white space separates.
func (w *Words) Encode(line string, dst []int32) []int32 {
	for word := range strings.FieldsSeq(line) {
		id, known := w.ids[word]
		switch {
		case known:
		case len(w.words) < w.limit:
			id = int32(len(w.words))
			word = strings.Clone(word) // not to keep the whole line
			w.ids[word] = id
			w.words = append(w.words, word)
		default:
			id = int32(w.limit)
		}
		dst = append(dst, id)
	}
	return dst
}

// Word returns the word of a number, and "" for that of all words beyond the limit.
func (w *Words) Word(id int32) string {
	if int(id) >= len(w.words) {
		return ""
	}
	return w.words[id]
}
