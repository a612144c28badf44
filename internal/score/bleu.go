package score

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxOrder is the length of the longest n-grams that BLEU counts.
const MaxOrder = 4

// A Smoothing is what BLEU does with n-gram orders that have no match (Chen and Cherry 2014).
type Smoothing string

// The smoothings, by the names that sacreBLEU gives them.
const (
	SmoothExp   Smoothing = "exp"   // each order without a match counts half of the one before
	SmoothFloor Smoothing = "floor" // no match counts as SmoothValue, by default 0.1
	SmoothAddK  Smoothing = "add-k" // SmoothValue, by default 1, is added to matches and totals from bigrams on
	SmoothNone  Smoothing = "none"
)

// BLEUOptions choose a variant of BLEU. The zero value is sacreBLEU's default.
type BLEUOptions struct {
	Tokenizer   Tokenizer // Tokenize13a by default
	Smoothing   Smoothing // SmoothExp by default
	SmoothValue float64   // for SmoothFloor and SmoothAddK; 0 is their default
	Lowercase   bool
	// EffectiveOrder leaves out n-gram orders that the hypothesis is too short for. Scores of single sentences need it.
	EffectiveOrder bool
}

func (o BLEUOptions) withDefaults() BLEUOptions {
	if o.Tokenizer == "" {
		o.Tokenizer = Tokenize13a
	}
	if o.Smoothing == "" {
		o.Smoothing = SmoothExp
	}
	if o.SmoothValue == 0 {
		switch o.Smoothing {
		case SmoothFloor:
			o.SmoothValue = 0.1
		case SmoothAddK:
			o.SmoothValue = 1
		}
	}
	return o
}

func (o BLEUOptions) check() error {
	o = o.withDefaults()
	if err := o.Tokenizer.check(); err != nil {
		return err
	}
	switch o.Smoothing {
	case SmoothExp, SmoothFloor, SmoothAddK, SmoothNone:
	default:
		return fmt.Errorf("score: unknown smoothing %q: use exp, floor, add-k or none", o.Smoothing)
	}
	if !(o.SmoothValue >= 0) || math.IsInf(o.SmoothValue, 0) {
		return fmt.Errorf("score: smoothing value %v: it must not be negative", o.SmoothValue)
	}
	return nil
}

// A BLEUScore is BLEU and what it was computed from.
type BLEUScore struct {
	Score            float64           // 0 to 100
	Precisions       [MaxOrder]float64 // per cent, by n-gram order from 1
	Matches          [MaxOrder]int64   // n-grams of the hypotheses that a reference has
	Totals           [MaxOrder]int64   // n-grams of the hypotheses
	BrevityPenalty   float64
	HypothesisLength int64     // in tokens
	ReferenceLength  int64     // in tokens; of several references, the closest to the hypothesis
	Interval         *Interval // of Bootstrap, if the caller sets it; it is then printed
	options          BLEUOptions
	references       int
}

// BLEU scores a corpus. references holds one stream for each reference of a segment, usually just one; each stream has
// a line for each hypothesis.
func BLEU(hypotheses []string, references [][]string, options BLEUOptions) (BLEUScore, error) {
	counts, err := segments(options, hypotheses, references)
	if err != nil {
		return BLEUScore{}, err
	}
	result := options.withDefaults().compute(sum(counts))
	result.references = len(references)
	return result, nil
}

// SentenceBLEU scores one segment. sacreBLEU does it with BLEUOptions.EffectiveOrder.
func SentenceBLEU(hypothesis string, references []string, options BLEUOptions) (BLEUScore, error) {
	streams := make([][]string, len(references))
	for i, r := range references {
		streams[i] = []string{r}
	}
	return BLEU([]string{hypothesis}, streams, options)
}

type ngram [MaxOrder]int32 // token numbers from 1, then zeros

// counter counts n-grams. Tokens are numbered as they are met.
type counter struct {
	numbers map[string]int32
}

func (c counter) tokens(text string) []int32 {
	fields := strings.FieldsFunc(text, isSpace)
	ids := make([]int32, len(fields))
	for i, field := range fields {
		id, known := c.numbers[field]
		if !known {
			id = int32(len(c.numbers) + 1)
			c.numbers[field] = id
		}
		ids[i] = id
	}
	return ids
}

func ngrams(tokens []int32) map[ngram]int64 {
	counts := make(map[ngram]int64, MaxOrder*len(tokens))
	for i := range tokens {
		var g ngram
		for n := 0; n < MaxOrder && i+n < len(tokens); n++ {
			g[n] = tokens[i+n]
			counts[g]++
		}
	}
	return counts
}

func (g ngram) order() int {
	n := MaxOrder
	for n > 0 && g[n-1] == 0 {
		n--
	}
	return n
}

func (o BLEUOptions) prepare(text string) string {
	if o.Lowercase {
		text = lower(text)
	}
	return o.Tokenizer.Tokenize(strings.TrimRightFunc(text, isSpace))
}

// segment gives: length, reference length, matches by order, totals by order.
func (o BLEUOptions) segment(hypothesis string, references []string) []int64 {
	o = o.withDefaults()
	c := counter{numbers: map[string]int32{}}
	tokens := c.tokens(o.prepare(hypothesis))
	most := map[ngram]int64{} // over the references
	closest := int64(-1)
	for _, reference := range references {
		words := c.tokens(o.prepare(reference))
		closest = closer(int64(len(tokens)), closest, int64(len(words)))
		for g, n := range ngrams(words) {
			most[g] = max(most[g], n)
		}
	}
	counts := make([]int64, 2+2*MaxOrder)
	counts[0], counts[1] = int64(len(tokens)), closest
	for g, n := range ngrams(tokens) {
		order := g.order()
		counts[1+order] += min(n, most[g])
		counts[1+MaxOrder+order] += n
	}
	return counts
}

// closer returns the one of two lengths that is closer to want, the shorter one if both are. A negative a is none.
func closer(want, a, b int64) int64 {
	distance := func(v int64) int64 { return max(v-want, want-v) }
	if a < 0 || distance(b) < distance(a) || distance(b) == distance(a) && b < a {
		return b
	}
	return a
}

func (o BLEUOptions) points(counts []int64) float64 { return o.withDefaults().compute(counts).Score }

// compute turns summed counts into a score.
func (o BLEUOptions) compute(counts []int64) BLEUScore {
	s := BLEUScore{options: o, HypothesisLength: counts[0], ReferenceLength: counts[1], BrevityPenalty: 1}
	copy(s.Matches[:], counts[2:])
	copy(s.Totals[:], counts[2+MaxOrder:])
	if s.HypothesisLength < s.ReferenceLength {
		s.BrevityPenalty = 0
		if s.HypothesisLength > 0 {
			s.BrevityPenalty = math.Exp(1 - float64(s.ReferenceLength)/float64(s.HypothesisLength))
		}
	}
	if s.Matches == [MaxOrder]int64{} {
		return s
	}
	order := s.setPrecisions()
	logs := 0.0
	for _, p := range s.Precisions[:order] {
		logs += flooredLog(p)
	}
	s.Score = s.BrevityPenalty * math.Exp(logs/float64(order))
	return s
}

// setPrecisions returns the number of orders that count.
func (s *BLEUScore) setPrecisions() int {
	effective, halving := MaxOrder, 1.0
	for n := range MaxOrder {
		matches, total := float64(s.Matches[n]), float64(s.Totals[n])
		if s.options.Smoothing == SmoothAddK && n > 0 {
			matches += s.options.SmoothValue
			total += s.options.SmoothValue
		}
		if total == 0 {
			break
		}
		if s.options.EffectiveOrder {
			effective = n + 1
		}
		switch {
		case matches != 0:
			s.Precisions[n] = 100 * matches / total
		case s.options.Smoothing == SmoothExp:
			halving *= 2
			s.Precisions[n] = 100 / (halving * total)
		case s.options.Smoothing == SmoothFloor:
			s.Precisions[n] = 100 * s.options.SmoothValue / total
		}
	}
	return effective
}

// flooredLog is a logarithm that lets one vanishing precision make the product vanish, without infinities.
func flooredLog(v float64) float64 {
	if v == 0 {
		return -9999999999
	}
	return math.Log(v)
}

func (s BLEUScore) line() line {
	precisions := make([]string, MaxOrder)
	for i, p := range s.Precisions {
		precisions[i] = strconv.FormatFloat(p, 'f', 1, 64)
	}
	ratio := 0.0
	if s.ReferenceLength != 0 {
		ratio = float64(s.HypothesisLength) / float64(s.ReferenceLength)
	}
	return line{
		name: "BLEU", points: s.Score, interval: s.Interval, settings: s.settings(),
		details: fmt.Sprintf("%s (BP = %.3f ratio = %.3f hyp_len = %d ref_len = %d)",
			strings.Join(precisions, "/"), s.BrevityPenalty, ratio, s.HypothesisLength, s.ReferenceLength),
	}
}

func (s BLEUScore) settings() []setting {
	smooth := string(s.options.Smoothing)
	if s.options.Smoothing == SmoothFloor || s.options.Smoothing == SmoothAddK {
		smooth += fmt.Sprintf("[%.2f]", s.options.SmoothValue)
	}
	return global(s.references, s.Interval,
		setting{"case", caseName(s.options.Lowercase)}, setting{"eff", yesNo(s.options.EffectiveOrder)},
		setting{"tok", string(s.options.Tokenizer)}, setting{"smooth", smooth})
}

// Signature says how the score was computed, in sacreBLEU's form.
func (s BLEUScore) Signature() string { return signature(s.settings()) }

// String gives the score with two decimal places, as sacreBLEU's Python interface prints it.
func (s BLEUScore) String() string { return s.line().text(2, false) }

// Format gives the score with that many decimal places, after its name and signature, as sacrebleu -f text prints it.
func (s BLEUScore) Format(places int) string { return s.line().text(places, true) }

// JSON gives the object that sacrebleu -f json prints, but without indentation.
func (s BLEUScore) JSON(places int) ([]byte, error) { return s.line().json(places) }

// MarshalJSON gives JSON with one decimal place, as sacrebleu does unless told otherwise.
func (s BLEUScore) MarshalJSON() ([]byte, error) { return s.JSON(1) }
