package corpus

import (
	"math"
	"unicode"
)

const (
	// buckets is the number of places for the n-grams of a language. Those that share one are told apart by nobody, which
	// costs little: a language has some 200,000 that matter.
	buckets = 1 << 19
	// longestGram is the longest n-gram, in letters.
	longestGram = 4
	// smoothing is what every bucket is thought to have been seen.
	smoothing = 0.1
)

// A LanguageLearner counts the n-grams of letters in samples of languages. It takes 2 MiB for each.
type LanguageLearner struct {
	counts [][]uint32
}

// NewLanguageLearner returns a learner for so many languages.
func NewLanguageLearner(languages int) *LanguageLearner {
	l := &LanguageLearner{counts: make([][]uint32, languages)}
	for k := range l.counts {
		l.counts[k] = make([]uint32, buckets)
	}
	return l
}

// Add counts a text of a language.
func (l *LanguageLearner) Add(language int, text string) {
	counts := l.counts[language]
	eachGram(text, func(bucket uint32) {
		if counts[bucket] < math.MaxUint32 {
			counts[bucket]++
		}
	})
}

// An Identifier tells languages apart by their n-grams of one to four letters, as naive Bayes does: each language gives each
// n-gram a probability, and the language for which their product is largest is taken. It knows only the languages that it has
// samples of, and takes any other for the one of these which is closest. It may be used by several goroutines.
type Identifier struct {
	logarithms [][]float32
}

// Identifier returns what was learnt. All languages are taken to be equally frequent.
func (l *LanguageLearner) Identifier() *Identifier {
	id := &Identifier{logarithms: make([][]float32, len(l.counts))}
	for k, counts := range l.counts {
		total := smoothing * buckets
		for _, n := range counts {
			total += float64(n)
		}
		id.logarithms[k] = make([]float32, buckets)
		for bucket, n := range counts {
			id.logarithms[k][bucket] = float32(math.Log((float64(n) + smoothing) / total))
		}
	}
	return id
}

// Languages returns the number of languages.
func (id *Identifier) Languages() int { return len(id.logarithms) }

// Lead tells how much better another language fits a text than the given one: the logarithm of how many times as probable the
// best of the others makes it, for each of its n-grams. It is negative where the given language is the best, and 0 for a
// text without letters.
func (id *Identifier) Lead(text string, language int) float64 {
	scores := make([]float64, len(id.logarithms))
	grams := 0
	eachGram(text, func(bucket uint32) {
		grams++
		for k := range scores {
			scores[k] += float64(id.logarithms[k][bucket])
		}
	})
	if grams == 0 || len(scores) == 1 {
		return 0
	}
	best := math.Inf(-1)
	for k, score := range scores {
		if k != language {
			best = max(best, score)
		}
	}
	return (best - scores[language]) / float64(grams)
}

// eachGram calls f with the bucket of every n-gram: of small letters, where everything between letters is one space.
func eachGram(text string, f func(bucket uint32)) {
	var window [longestGram]rune // the last letters, the newest at the end
	filled := 0
	push := func(r rune) {
		if r == ' ' && filled > 0 && window[longestGram-1] == ' ' {
			return
		}
		copy(window[:], window[1:])
		window[longestGram-1] = r
		filled = min(filled+1, longestGram)
		hash := uint64(0)
		for n := 1; n <= filled; n++ {
			hash = (hash ^ uint64(window[longestGram-n])) * 0x9e3779b97f4a7c15
			hash ^= hash >> 29
			if n > 1 || r != ' ' {
				f(uint32((hash ^ uint64(n)) * 0xbf58476d1ce4e5b9 >> 45))
			}
		}
	}
	push(' ')
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsMark(r) {
			push(unicode.ToLower(r))
		} else {
			push(' ')
		}
	}
	push(' ')
}
