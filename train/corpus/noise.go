package corpus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Noise makes pairs as careless as people write, so that a student learns to translate that too. What happens to a pair
// depends on the seed and its line alone. White space is never added or removed: word alignments stay valid.
type Noise struct {
	Seed uint64

	// The shares of lines that are written in capitals, on both sides; with each word beginning with a capital, on both sides;
	// and in small letters, on the source side. A line gets one of them at most.
	Upper, Title, Lower float64
	// Unpunctuated is the share of lines that lose the mark at their end, if both sides have one.
	Unpunctuated float64
	// Typos is the share of lines that get typing errors on the source side. TypoRate is the share of words, among those of
	// at least four letters, that have one in such a line; one word has, if there is any.
	Typos, TypoRate float64

	// Confusions are words that are taken for each other on the source side; ConfusionRate is the share of those that are there
	// which become another of their set.
	Confusions    Confusions
	ConfusionRate float64
}

// DefaultNoise changes about a quarter of the lines.
func DefaultNoise() Noise {
	return Noise{Upper: 0.03, Title: 0.03, Lower: 0.05, Unpunctuated: 0.05, Typos: 0.1, TypoRate: 0.1}
}

// Check says what is wrong with the shares.
func (n *Noise) Check() error {
	for _, share := range []struct {
		name  string
		value float64
	}{
		{"upper", n.Upper}, {"title", n.Title}, {"lower", n.Lower}, {"unpunctuated", n.Unpunctuated}, {"typos", n.Typos},
		{"typo-rate", n.TypoRate}, {"confusion-rate", n.ConfusionRate},
	} {
		if !isShare(share.value) {
			return fmt.Errorf("%w: the share %s is %v, but must be between 0 and 1", ErrRules, share.name, share.value)
		}
	}
	if sum := n.Upper + n.Title + n.Lower; !isShare(sum) {
		return fmt.Errorf("%w: a line gets one of upper (%v), title (%v) and lower (%v): their shares are %v together, and must not be more than 1: set those that are not wanted to 0",
			ErrRules, n.Upper, n.Title, n.Lower, sum)
	}
	return nil
}

// Changes are how many lines got which noise.
type Changes struct {
	Lines        int64 `json:"lines"`
	Upper        int64 `json:"upper"`
	Title        int64 `json:"title"`
	Lower        int64 `json:"lower"`
	Unpunctuated int64 `json:"unpunctuated"`
	Typos        int64 `json:"typos"`
	Confused     int64 `json:"confused"`
}

// Apply changes a pair, which has the given line number, and counts what it did. For another epoch, take another seed.
func (n *Noise) Apply(line uint64, p *Pair, counts *Changes) {
	random := rand.New(rand.NewPCG(n.Seed, line))
	counts.Lines++
	letterCase, ending, typos := random.Float64(), random.Float64(), random.Float64()
	if ending < n.Unpunctuated && unpunctuate(p) {
		counts.Unpunctuated++
	}
	if n.ConfusionRate > 0 {
		var confused bool
		if p.Source, confused = n.Confusions.confuse(random, n.ConfusionRate, p.Source); confused {
			counts.Confused++
		}
	}
	if typos < n.Typos && n.mistype(random, p) {
		counts.Typos++
	}
	switch {
	case letterCase < n.Upper:
		p.Source, p.Target = upper(p.Source), upper(p.Target)
		counts.Upper++
	case letterCase < n.Upper+n.Title:
		p.Source, p.Target = title(p.Source), title(p.Target)
		counts.Title++
	case letterCase < n.Upper+n.Title+n.Lower:
		p.Source = strings.ToLower(p.Source)
		counts.Lower++
	}
}

// upper is strings.ToUpper with the German letter that has no capital of its own in common use.
func upper(text string) string { return strings.ToUpper(strings.ReplaceAll(text, "ß", "SS")) }

func title(text string) string {
	inWord := false
	return strings.Map(func(r rune) rune {
		begins := !inWord
		inWord = !unicode.IsSpace(r) && (inWord || unicode.IsLetter(r) || unicode.IsDigit(r))
		if begins {
			return unicode.ToTitle(r)
		}
		return r
	}, text)
}

// unpunctuate removes the last character of both sides if each is a mark at the end of a word.
func unpunctuate(p *Pair) bool {
	source, target := withoutMark(p.Source), withoutMark(p.Target)
	if source == "" || target == "" {
		return false
	}
	p.Source, p.Target = source, target
	return true
}

const sentenceMarks = ".!?,;:…。！？，、；：।؟"

// withoutMark returns "" where there is none to remove.
func withoutMark(text string) string {
	last, size := utf8.DecodeLastRuneInString(text)
	rest := text[:len(text)-size]
	before, _ := utf8.DecodeLastRuneInString(rest)
	if !strings.ContainsRune(sentenceMarks, last) || !unicode.IsLetter(before) && !unicode.IsDigit(before) {
		return ""
	}
	return rest
}

// mistype puts typing errors into the source side. It reports whether there was a word for them.
func (n *Noise) mistype(random *rand.Rand, p *Pair) bool {
	text := []rune(p.Source)
	words := typeable(text)
	if len(words) == 0 || !utf8.ValidString(p.Source) {
		return false
	}
	certain := random.IntN(len(words))
	var out []rune
	end := 0
	for k, word := range words {
		if wanted := random.Float64() < n.TypoRate; !wanted && k != certain {
			continue
		}
		out = append(out, text[end:word[0]]...)
		out = append(out, mistyped(random, text[word[0]:word[1]])...)
		end = word[1]
	}
	p.Source = string(append(out, text[end:]...))
	return true
}

// shortestTyped is the least number of letters of a word that is mistyped.
const shortestTyped = 4

// typeable returns the stretches of letters that are long enough: first character, and the one behind the last. Letters with
// marks of their own are left alone, as taking them apart would give something that nobody types.
func typeable(text []rune) (words [][2]int) {
	for from := 0; from < len(text); from++ {
		to := from
		for to < len(text) && unicode.IsLetter(text[to]) {
			to++
		}
		marked := to < len(text) && unicode.IsMark(text[to]) || from > 0 && unicode.IsMark(text[from-1])
		if to-from >= shortestTyped && !marked {
			words = append(words, [2]int{from, to})
		}
		from = to
	}
	return words
}

// mistyped makes one error behind the first letter: two letters exchanged, one left out, one twice, or another in its place.
func mistyped(random *rand.Rand, word []rune) []rune {
	at := 1 + random.IntN(len(word)-1)
	switch kind := random.IntN(4); {
	case kind == 0 && at+1 < len(word) && word[at] != word[at+1]:
		changed := slices.Clone(word)
		changed[at], changed[at+1] = changed[at+1], changed[at]
		return changed
	case kind == 1:
		return slices.Delete(slices.Clone(word), at, at+1)
	case kind == 2:
		return slices.Insert(slices.Clone(word), at, word[at])
	}
	changed := slices.Clone(word)
	changed[at] = other(random, word, at)
	return changed
}

// other returns a letter for the place of another: for Latin letters one of the alphabet, else one of the word.
func other(random *rand.Rand, word []rune, at int) rune {
	if word[at] < utf8.RuneSelf {
		return 'a' + rune((int(unicode.ToLower(word[at])-'a')+1+random.IntN(25))%26)
	}
	return word[random.IntN(len(word))]
}
