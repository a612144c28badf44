package score

import (
	"fmt"
	"strconv"
	"strings"
)

// CHRFOptions choose a variant of chrF. The zero value is sacreBLEU's default, chrF2.
type CHRFOptions struct {
	CharOrder int // longest character n-grams; 6 by default
	WordOrder int // longest word n-grams; 2 makes it chrF++
	Beta      int // recall counts Beta times as much as precision; 2 by default
	Lowercase bool
	// Whitespace counts white space among the characters.
	Whitespace bool
	// Epsilon smooths as chrF++.py, NLTK and Moses do, instead of leaving out the orders that have no n-grams.
	Epsilon bool
}

func (o CHRFOptions) withDefaults() CHRFOptions {
	if o.CharOrder == 0 {
		o.CharOrder = 6
	}
	if o.Beta == 0 {
		o.Beta = 2
	}
	return o
}

func (o CHRFOptions) check() error {
	const longest = 100
	if o.CharOrder < 0 || o.WordOrder < 0 || o.Beta < 0 || o.CharOrder > longest || o.WordOrder > longest || o.Beta > longest {
		return fmt.Errorf("score: character order %d, word order %d and beta %d must be between 0 and %d", o.CharOrder, o.WordOrder, o.Beta, longest)
	}
	return nil
}

// A CHRFScore is a chrF score.
type CHRFScore struct {
	Score      float64   // 0 to 100
	Interval   *Interval // of Bootstrap, if the caller sets it; it is then printed
	options    CHRFOptions
	references int
}

// CHRF scores a corpus. references holds one stream for each reference of a segment, as for BLEU.
func CHRF(hypotheses []string, references [][]string, options CHRFOptions) (CHRFScore, error) {
	counts, err := segments(options, hypotheses, references)
	if err != nil {
		return CHRFScore{}, err
	}
	options = options.withDefaults()
	return CHRFScore{Score: options.points(sum(counts)), options: options, references: len(references)}, nil
}

// SentenceCHRF scores one segment.
func SentenceCHRF(hypothesis string, references []string, options CHRFOptions) (CHRFScore, error) {
	streams := make([][]string, len(references))
	for i, r := range references {
		streams[i] = []string{r}
	}
	return CHRF([]string{hypothesis}, streams, options)
}

// segment gives for each order, characters before words: n-grams of the hypothesis, of the reference, and in both. Of
// several references the one with the best score counts.
func (o CHRFOptions) segment(hypothesis string, references []string) []int64 {
	o = o.withDefaults()
	own := o.ngrams(hypothesis)
	var best []int64
	bestScore := -1.0
	for _, reference := range references {
		counts := make([]int64, 0, 3*len(own))
		for i, other := range o.ngrams(reference) {
			counts = append(counts, compare(own[i], other)...)
		}
		if score := o.points(counts); score > bestScore {
			best, bestScore = counts, score
		}
	}
	return best
}

// ngrams counts n-grams by order.
func (o CHRFOptions) ngrams(text string) []map[string]int64 {
	if o.Lowercase {
		text = lower(text)
	}
	text = string([]rune(text)) // invalid bytes count as one character each
	all := make([]map[string]int64, 0, o.CharOrder+o.WordOrder)
	characters := text
	if !o.Whitespace {
		characters = strings.Join(strings.FieldsFunc(text, isSpace), "")
	}
	starts := make([]int, 0, len(characters)+1)
	for i := range characters {
		starts = append(starts, i)
	}
	starts = append(starts, len(characters))
	for n := 1; n <= o.CharOrder; n++ {
		counts := map[string]int64{}
		for i := 0; i+n < len(starts); i++ {
			counts[characters[starts[i]:starts[i+n]]]++
		}
		all = append(all, counts)
	}
	if o.WordOrder == 0 {
		return all
	}
	words := separatePunctuation(text)
	for n := 1; n <= o.WordOrder; n++ {
		counts := map[string]int64{}
		for i := 0; i+n <= len(words); i++ {
			counts[strings.Join(words[i:i+n], " ")]++
		}
		all = append(all, counts)
	}
	return all
}

// separatePunctuation splits at white space, and one ASCII punctuation mark off each word's end or, if there is none,
// its beginning.
func separatePunctuation(text string) []string {
	const marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	var words []string
	for _, word := range strings.FieldsFunc(text, isSpace) {
		last := len(word) - 1
		switch {
		case last == 0:
			words = append(words, word)
		case strings.IndexByte(marks, word[last]) >= 0:
			words = append(words, word[:last], word[last:])
		case strings.IndexByte(marks, word[0]) >= 0:
			words = append(words, word[:1], word[1:])
		default:
			words = append(words, word)
		}
	}
	return words
}

func compare(hypothesis, reference map[string]int64) []int64 {
	var own, other, both int64
	for g, n := range hypothesis {
		own += n
		both += min(n, reference[g])
	}
	for _, n := range reference {
		other += n
	}
	if other == 0 {
		own = 0
	}
	return []int64{own, other, both}
}

// points is the F score of the precisions and recalls, averaged over the orders.
func (o CHRFOptions) points(counts []int64) float64 {
	o = o.withDefaults()
	const epsilon = 1e-16
	factor := float64(o.Beta * o.Beta)
	var smoothed, precisions, recalls, orders float64
	for ; len(counts) >= 3; counts = counts[3:] {
		own, other, both := float64(counts[0]), float64(counts[1]), float64(counts[2])
		precision, recall := epsilon, epsilon
		if own > 0 {
			precision = both / own
		}
		if other > 0 {
			recall = both / other
		}
		if denominator := factor*precision + recall; denominator > 0 {
			smoothed += (1 + factor) * precision * recall / denominator
		} else {
			smoothed += epsilon
		}
		if own > 0 && other > 0 {
			precisions += precision
			recalls += recall
			orders++
		}
	}
	if o.Epsilon {
		return 100 * smoothed / float64(o.CharOrder+o.WordOrder)
	}
	if orders == 0 || precisions+recalls == 0 {
		return 0
	}
	precision, recall := precisions/orders, recalls/orders
	return 100 * ((1 + factor) * precision * recall / (factor*precision + recall))
}

// Name is chrF with beta and a plus sign for each word order, such as chrF2++.
func (s CHRFScore) Name() string {
	return "chrF" + strconv.Itoa(s.options.Beta) + strings.Repeat("+", s.options.WordOrder)
}

func (s CHRFScore) settings() []setting {
	return global(s.references, s.Interval,
		setting{"case", caseName(s.options.Lowercase)}, setting{"eff", yesNo(!s.options.Epsilon)},
		setting{"nc", strconv.Itoa(s.options.CharOrder)}, setting{"nw", strconv.Itoa(s.options.WordOrder)},
		setting{"space", yesNo(s.options.Whitespace)})
}

func (s CHRFScore) line() line {
	return line{name: s.Name(), points: s.Score, interval: s.Interval, settings: s.settings()}
}

// Signature says how the score was computed, in sacreBLEU's form.
func (s CHRFScore) Signature() string { return signature(s.settings()) }

// String gives the score with two decimal places, as sacreBLEU's Python interface prints it.
func (s CHRFScore) String() string { return s.line().text(2, false) }

// Format gives the score with that many decimal places, after its name and signature, as sacrebleu -f text prints it.
func (s CHRFScore) Format(places int) string { return s.line().text(places, true) }

// JSON gives the object that sacrebleu -f json prints, but without indentation.
func (s CHRFScore) JSON(places int) ([]byte, error) { return s.line().json(places) }

// MarshalJSON gives JSON with one decimal place, as sacrebleu does unless told otherwise.
func (s CHRFScore) MarshalJSON() ([]byte, error) { return s.JSON(1) }
