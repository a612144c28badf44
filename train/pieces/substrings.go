package pieces

import (
	"cmp"
	"context"
	"slices"
)

// A substring is a part of the words that occurs more than once in the text.
type substring struct {
	start  int32 // of one occurrence in words.text
	length int32
	count  int64 // in the text
}

// score is how many characters of the text the substring covers.
func (s substring) score() int64 { return s.count * int64(s.length) }

// A substringFinder finds frequent substrings by sorting the suffixes of all words, as far as a piece can be long: equal
// substrings then lie side by side. Only those count that cannot be extended without losing an occurrence.
type substringFinder struct {
	words   *words
	divider *divider
	longest int
	wordOf  []int32 // by position in words.text
	keep    int
}

// frequentSubstrings returns the keep substrings of at least two characters that cover most of the text and may be pieces, the
// best first.
func frequentSubstrings(ctx context.Context, w *words, d *divider, keep, workers int) ([]substring, error) {
	f := &substringFinder{words: w, divider: d, longest: d.spec.MaxPieceLength, keep: keep, wordOf: make([]int32, len(w.text))}
	for i := range w.len() {
		for at := w.starts[i]; at < w.starts[i+1]; at++ {
			f.wordOf[at] = int32(i)
		}
	}
	suffixes, bounds := f.byFirst()
	found := make([]bestSubstrings, workers)
	for i := range found {
		found[i].finder = f
	}
	err := eachIndex(ctx, len(bounds)-1, 1, workers, func(worker, bucket int) {
		f.search(suffixes[bounds[bucket]:bounds[bucket+1]], 1, &found[worker])
	})
	all := &found[0]
	for i := range found[1:] {
		all.list = append(all.list, found[i+1].list...)
	}
	all.shrink()
	return all.list, err
}

// byFirst returns the positions of all suffixes, sorted by their first symbol, and where each symbol's begin.
func (f *substringFinder) byFirst() (suffixes []int32, bounds []int32) {
	bounds = make([]int32, len(f.words.alphabet)+2)
	for _, s := range f.words.text {
		if s != endOfWord {
			bounds[s+1]++
		}
	}
	for s := 1; s < len(bounds); s++ {
		bounds[s] += bounds[s-1]
	}
	next := slices.Clone(bounds)
	suffixes = make([]int32, bounds[len(bounds)-1])
	for at, s := range f.words.text {
		if s != endOfWord {
			suffixes[next[s]] = int32(at)
			next[s]++
		}
	}
	return suffixes, bounds
}

// search reports the substrings that suffixes, which are alike in their first depth symbols, begin with.
func (f *substringFinder) search(suffixes []int32, depth int, found *bestSubstrings) {
	if len(suffixes) == 0 {
		return
	}
	if len(suffixes) == 1 {
		f.searchOne(suffixes[0], depth, found)
		return
	}
	branches := false
	first := f.words.text[int(suffixes[0])+depth]
	for _, at := range suffixes {
		if s := f.words.text[int(at)+depth]; s != first || s == endOfWord {
			branches = true
			break
		}
	}
	if branches {
		f.report(suffixes, depth, found)
	}
	if depth < f.longest {
		f.sort(suffixes, depth, found)
	}
}

// sort sorts suffixes by the symbol behind the depth ones in which they are alike, and searches those that are alike in it, too.
func (f *substringFinder) sort(suffixes []int32, depth int, found *bestSubstrings) {
	text := f.words.text[depth:]
	for len(suffixes) > 0 {
		pivot := median(text[suffixes[0]], text[suffixes[len(suffixes)/2]], text[suffixes[len(suffixes)-1]])
		low, high := 0, len(suffixes)
		for i := 0; i < high; {
			switch s := text[suffixes[i]]; {
			case s < pivot:
				suffixes[i], suffixes[low] = suffixes[low], suffixes[i]
				low++
				i++
			case s > pivot:
				high--
				suffixes[i], suffixes[high] = suffixes[high], suffixes[i]
			default:
				i++
			}
		}
		if pivot != endOfWord {
			f.search(suffixes[low:high], depth+1, found)
		}
		if low > 0 {
			f.sort(suffixes[:low], depth, found)
		}
		suffixes = suffixes[high:]
	}
}

func median(a, b, c symbol) symbol { return max(min(a, b), min(max(a, b), c)) }

// searchOne reports the only substring of one suffix that cannot be extended, the whole of it.
func (f *substringFinder) searchOne(at int32, depth int, found *bestSubstrings) {
	end := int(f.words.starts[f.wordOf[at]+1]) - 1
	if length := end - int(at); length >= depth && length <= f.longest {
		f.report([]int32{at}, length, found)
	}
}

// report adds the substring of that length with which all suffixes begin, if it may be a piece and occurs more than once.
func (f *substringFinder) report(suffixes []int32, length int, found *bestSubstrings) {
	if length < 2 {
		return
	}
	count := int64(0)
	for _, at := range suffixes {
		count += f.words.counts[f.wordOf[at]]
	}
	start := suffixes[0]
	if count < 2 {
		return
	}
	found.runes = f.words.runes(found.runes[:0], f.words.text[start:int(start)+length])
	if f.divider.allows(found.runes) {
		found.add(substring{start, int32(length), count})
	}
}

// bestSubstrings keeps the best of many substrings.
type bestSubstrings struct {
	finder *substringFinder
	list   []substring
	least  int64 // score of the worst that is kept, once there are enough
	runes  []rune
}

func (b *bestSubstrings) add(s substring) {
	if s.score() < b.least {
		return
	}
	if b.list = append(b.list, s); len(b.list) >= 4*b.finder.keep {
		b.shrink()
		b.least = b.list[len(b.list)-1].score()
	}
}

// shrink sorts the list and drops what is too much. Equal scores are ordered by the text, so that it does not matter who has
// found what.
func (b *bestSubstrings) shrink() {
	slices.SortFunc(b.list, func(s, t substring) int {
		return cmp.Or(cmp.Compare(t.score(), s.score()), slices.Compare(b.finder.of(s), b.finder.of(t)))
	})
	b.list = b.list[:min(len(b.list), b.finder.keep)]
}

// of returns the symbols of a substring.
func (f *substringFinder) of(s substring) []symbol { return f.words.text[s.start : s.start+s.length] }
