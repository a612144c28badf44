package pieces

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveSubstrings finds the substrings by trying all of them: those that may be pieces, occur more than once, and lose an
// occurrence when a character is added at the end.
func naiveSubstrings(w *words, d *divider) map[string]int64 {
	counts, extended := map[string]int64{}, map[string]map[symbol]bool{}
	for i := range w.len() {
		word := w.text[w.starts[i]:w.starts[i+1]]
		for start := range len(word) - 1 {
			for end := start + 2; end < len(word); end++ {
				text := string(word[start:end])
				counts[text] += w.counts[i]
				if extended[text] == nil {
					extended[text] = map[symbol]bool{}
				}
				extended[text][word[end]] = true
			}
		}
	}
	maps.DeleteFunc(counts, func(text string, n int64) bool {
		symbols := text2symbols(text)
		ends := extended[text]
		return n < 2 || !d.allows(w.runes(nil, symbols)) || len(ends) == 1 && !ends[endOfWord]
	})
	return counts
}

func text2symbols(text string) (symbols []symbol) {
	for _, r := range text {
		symbols = append(symbols, r)
	}
	return symbols
}

func TestFrequentSubstrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := someWords(t)
		options := Defaults()
		options.Spec.MaxPieceLength = rapid.IntRange(1, 8).Draw(t, "longest")
		options.Spec.SplitByWhitespace = rapid.Bool().Draw(t, "split")
		d := &divider{spec: &options.Spec}
		want := naiveSubstrings(w, d)
		keep := rapid.IntRange(1, 60).Draw(t, "keep")
		workers := rapid.IntRange(1, 3).Draw(t, "workers")
		found, err := frequentSubstrings(t.Context(), w, d, keep, workers)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != min(keep, len(want)) {
			t.Fatalf("%d substrings, want %d of %d", len(found), keep, len(want))
		}
		for _, s := range found {
			text := string(w.text[s.start : s.start+s.length])
			if want[text] != s.count {
				t.Fatalf("%q occurs %d times, not %d", text, want[text], s.count)
			}
			delete(want, text)
		}
		for text, n := range want {
			if least := found[len(found)-1].score(); n*int64(len(text2symbols(text))) > least {
				t.Fatalf("%q is left out although it is better than the last", text)
			}
		}
		if !slices.IsSortedFunc(found, func(a, b substring) int { return cmp.Compare(b.score(), a.score()) }) {
			t.Fatal("they are not sorted")
		}
	})
}
