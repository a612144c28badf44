// Package split divides a text that is too long for a model into parts that are not, at the best places it finds: the ends of
// sentences, else of clauses, else between words, else between characters. Nothing is lost: the parts and what stands between
// them are the text.
package split

import (
	"strings"
	"unicode/utf8"
)

// A Break is the kind of place at which a text was divided.
type Break uint8

const (
	// Anywhere is between two characters.
	Anywhere Break = iota
	// Space is between two words.
	Space
	// Clause is after a comma, semicolon, colon or the like.
	Clause
	// Sentence is after the end of a sentence.
	Sentence
	// End is the end of the text.
	End
)

// A Segment is a part of a text.
type Segment struct {
	Text      string
	Separator string // white space between this part and the next, which belongs to neither
	Break     Break  // the place after it
}

// Split divides text into segments of at most limit pieces each; Text and Separator of all segments, one after the other, are
// the text. count says how many pieces a part has. It is called on parts of the text, on every byte about twice, so that the
// whole takes time in proportion to the length.
//
// A segment takes in as much as fits, but ends rather at a better place as long as it stays at least a quarter full. A single
// character, with the marks that belong to it, is a segment even if it has more than limit pieces. An empty text is one empty
// segment.
func Split(text string, limit int, count func(string) int) []Segment {
	s := splitter{text: text, limit: max(limit, 1), count: count}
	for s.fill(); len(s.units) > 0; s.fill() {
		s.emit(s.choose())
	}
	if len(s.segments) == 0 {
		s.segments = append(s.segments, Segment{Text: text})
	}
	s.segments[len(s.segments)-1].Break = End
	return s.segments
}

// Join puts translations of the segments together, with the separators of the source between them. Where a sentence or clause
// ended without white space, as in Chinese, a space is put in unless the translation is in such a script too.
func Join(segments []Segment, translations []string) string {
	var b strings.Builder
	for i, translation := range translations {
		b.WriteString(translation)
		separator := segments[i].Separator
		if separator == "" && i+1 < len(translations) && needsSpace(segments[i].Break, translation, translations[i+1]) {
			separator = " "
		}
		b.WriteString(separator)
	}
	return b.String()
}

func needsSpace(kind Break, before, after string) bool {
	if kind != Sentence && kind != Clause || before == "" || after == "" {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return !unspaced(last) && !unspaced(first)
}

// A unit is what the text is read in: a word, or a piece of text without any space, and the white space after it.
type unit struct {
	start  int // of its text
	end    int // of its text
	next   int // start of the next unit
	pieces int
	after  Break
}

type splitter struct {
	text     string
	limit    int
	count    func(string) int
	units    []unit // read, but not yet in a segment
	sum      int    // of their pieces
	read     int    // where the next unit starts
	segments []Segment
}

// fill reads units until they have more pieces than a segment may have, or the text ends.
func (s *splitter) fill() {
	for s.sum <= s.limit && s.read < len(s.text) {
		u := nextUnit(s.text, s.read)
		u.pieces = s.count(s.text[u.start:u.end])
		s.units = append(s.units, u)
		s.sum += u.pieces
		s.read = u.next
	}
}

// choose returns the number of units that make up the next segment. The sum of the units' pieces is only an estimate, as pieces
// may span units or a unit alone may be read otherwise; what counts is the number for the whole segment.
func (s *splitter) choose() int {
	allowed := s.limit
	for {
		n := s.best(allowed)
		if n <= 1 {
			return 1
		}
		estimate, actual := s.pieces(n), s.count(s.text[s.units[0].start:s.units[n-1].end])
		if actual <= s.limit {
			return n
		}
		allowed = min(estimate*s.limit/actual, estimate-1)
	}
}

// best returns the number of units up to the best place to break with at most that many pieces, at least 1.
func (s *splitter) best(allowed int) int {
	if s.read == len(s.text) && s.sum <= allowed {
		return len(s.units)
	}
	best, kind, sum := 1, Anywhere, 0
	for i, u := range s.units {
		sum += u.pieces
		if sum > allowed {
			break
		}
		if 4*sum < s.limit {
			kind, best = Anywhere, i+1 // too short for its place to matter
		} else if u.after >= kind {
			kind, best = u.after, i+1
		}
	}
	return best
}

// pieces is the sum of the pieces of the first n units.
func (s *splitter) pieces(n int) int {
	sum := 0
	for _, u := range s.units[:n] {
		sum += u.pieces
	}
	return sum
}

// emit makes a segment of the first n units. A single unit may itself be too long, and is then cut.
func (s *splitter) emit(n int) {
	first, last := s.units[0], s.units[n-1]
	if n == 1 && first.pieces > s.limit {
		if end := s.cut(first); end < first.end {
			s.segments = append(s.segments, Segment{Text: s.text[first.start:end], Break: Anywhere})
			s.sum -= first.pieces
			s.units[0].start = end
			s.units[0].pieces = s.count(s.text[end:first.end])
			s.sum += s.units[0].pieces
			return
		}
	}
	s.segments = append(s.segments, Segment{
		Text: s.text[first.start:last.end], Separator: s.text[last.end:last.next], Break: last.after,
	})
	s.sum -= s.pieces(n)
	s.units = append(s.units[:0], s.units[n:]...)
}

// cut finds where to cut a unit that has too many pieces: after as many characters as fit, and after at least one.
func (s *splitter) cut(u unit) int {
	end := nextCharacter(s.text[:u.end], u.start)
	for end < u.end {
		next := nextCharacter(s.text[:u.end], end)
		if s.count(s.text[u.start:next]) > s.limit {
			break
		}
		end = next
	}
	return end
}
