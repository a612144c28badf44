package search

import (
	"errors"
	"fmt"
	"math"
)

// Options say how one sentence is searched for. They may differ from sentence to sentence of a Decoder.
type Options struct {
	// Beam is the number of hypotheses kept side by side. 1 is greedy search.
	Beam int

	// NBest is the number of hypotheses that a Result holds at most; 0 means 1. A beam offers no more than Beam. With
	// independent samples (see Sampling) it is the number of samples.
	NBest int

	// Normalize is the exponent α of the length in a hypothesis' score,
	//	(Σ log p − WordPenalty·length) / length^α
	// where length counts the end of sentence. 0 does not normalise.
	Normalize float32
	// WordPenalty is subtracted for every token. A negative one favours long translations.
	WordPenalty float32

	// MaxLengthFactor caps a translation: it has at most MaxLengthFactor × len(Source.Tokens) tokens. Whatever is in the
	// beam then counts as final, without an end of sentence. The cap leaves room for at least one token after a Prefix.
	MaxLengthFactor float32

	// Scores asks for scores where the search itself does not need them (greedy search, which then cannot skip the softmax).
	Scores bool
	// WordScores asks for the score of every token. It implies Scores.
	WordScores bool
	// Align asks for the attention weights of every token.
	Align bool

	// NoRepeat forbids a token that would complete an n-gram of this size which the hypothesis already holds.
	// 0 forbids nothing.
	NoRepeat int

	// StopBelow ends a beam search when the summed log-probabilities of its best open hypothesis are this much less than those
	// that would give it the score of the best ended one, at the length that it has (Devlin, arXiv 1705.01991, takes 3, without
	// normalisation). 0 searches until all hypotheses have ended. Without normalisation and without a negative word penalty the
	// best translation is always the same, since scores only fall; with them, nearly always. There may be fewer hypotheses than
	// NBest.
	StopBelow float32

	Sampling Sampling
	// Seed is the seed of the whole job; Sentence.Seed is added to it.
	Seed uint64
}

// A Method is a way to draw tokens at random.
type Method uint8

const (
	// NoSampling takes the best.
	NoSampling Method = iota
	// Full draws from the whole distribution.
	Full
	// TopK draws from the K most probable tokens.
	TopK
	// Nucleus draws from the most probable tokens whose probabilities reach P together (Holtzman et al., arXiv 1904.09751).
	Nucleus
	// Epsilon draws from the tokens of at least probability Epsilon (Hewitt et al., arXiv 2210.15191).
	Epsilon
	// Gumbel is beam search over log-probabilities with noise: each gets an independent Gumbel variate added, and the sums
	// are normalised again, as Marian does when it samples with a beam. With a beam of 1 it is Full.
	Gumbel
)

// Sampling describes a random search. Full, TopK, Nucleus and Epsilon draw NBest independent translations, token by token,
// in slots of their own, and ignore Beam; the first of them does not depend on how many others are drawn. Gumbel keeps a beam.
//
// A hypothesis' scores are the model's, without noise and without temperature.
//
// Random numbers are a function of Options.Seed, Sentence.Seed, the step and the number of the hypothesis (and, for
// Gumbel, of the token), so that they do not depend on what else is being decoded.
type Sampling struct {
	Method      Method
	Temperature float32 // divides the log-probabilities; 0 means 1
	K           int     // for TopK
	P           float32 // for Nucleus, in (0, 1]
	Epsilon     float32 // for Epsilon, in (0, 1)
}

// ErrOptions is wrapped by the errors of Options.Validate.
var ErrOptions = errors.New("search options")

// mostBeam bounds the slots that one sentence needs.
const mostBeam = 1 << 16

// Validate returns an error that names the first field whose value makes no sense.
func (o *Options) Validate() error {
	switch {
	case o.Beam < 1:
		return fmt.Errorf("%w: the beam size is %d, but must be at least 1", ErrOptions, o.Beam)
	case o.Beam > mostBeam:
		return fmt.Errorf("%w: the beam size is %d, but can be at most %d", ErrOptions, o.Beam, mostBeam)
	case o.NBest < 0:
		return fmt.Errorf("%w: the number of hypotheses is %d, but must not be negative", ErrOptions, o.NBest)
	case !finite(o.Normalize) || o.Normalize < 0:
		return fmt.Errorf("%w: the length normalisation is %v, but must be at least 0", ErrOptions, o.Normalize)
	case !finite(o.WordPenalty):
		return fmt.Errorf("%w: the word penalty is %v, but must be a number", ErrOptions, o.WordPenalty)
	case !finite(o.MaxLengthFactor) || o.MaxLengthFactor <= 0:
		return fmt.Errorf("%w: the maximal length factor is %v, but must be greater than 0", ErrOptions, o.MaxLengthFactor)
	case !finite(o.StopBelow) || o.StopBelow < 0:
		return fmt.Errorf("%w: a search that stops at scores %v below the best, but it must be at least 0", ErrOptions, o.StopBelow)
	case o.NoRepeat < 0:
		return fmt.Errorf("%w: the size of n-grams not to be repeated is %d, but must not be negative", ErrOptions, o.NoRepeat)
	}
	return o.Sampling.validate()
}

func (s *Sampling) validate() error {
	switch {
	case s.Method > Gumbel:
		return fmt.Errorf("%w: there is no sampling method %d", ErrOptions, s.Method)
	case s.Method == NoSampling:
		return nil
	case !finite(s.Temperature) || s.Temperature < 0:
		return fmt.Errorf("%w: the sampling temperature is %v, but must be greater than 0", ErrOptions, s.Temperature)
	case s.Method == TopK && s.K < 1:
		return fmt.Errorf("%w: top-k sampling among %d tokens, but it must be at least 1", ErrOptions, s.K)
	case s.Method == Nucleus && !(s.P > 0 && s.P <= 1):
		return fmt.Errorf("%w: the nucleus holds a probability of %v, but it must be in (0, 1]", ErrOptions, s.P)
	case s.Method == Epsilon && !(s.Epsilon > 0 && s.Epsilon < 1):
		return fmt.Errorf("%w: the smallest probability to sample is %v, but it must be in (0, 1)", ErrOptions, s.Epsilon)
	}
	return nil
}

// independent says whether hypotheses are drawn on their own, without a beam.
func (s *Sampling) independent() bool { return s.Method != NoSampling && s.Method != Gumbel }

// LooksAtAll says whether each candidate may be the next token, not only the best ones.
func (s *Sampling) LooksAtAll() bool { return s.Method != NoSampling && s.Method != TopK }

// limit is the number that bounds what is drawn, if the method has one.
func (s *Sampling) limit() float32 {
	switch s.Method {
	case Nucleus:
		return s.P
	case Epsilon:
		return s.Epsilon
	}
	return 0
}

func (s *Sampling) inverseTemperature() float64 {
	if s.Temperature == 0 {
		return 1
	}
	return 1 / float64(s.Temperature)
}

// scored says whether log-probabilities are needed.
func (o *Options) scored() bool {
	return o.Beam > 1 || o.Scores || o.WordScores || o.Sampling.Method != NoSampling
}

func (o *Options) hypotheses() int { return max(o.NBest, 1) }

// slots is the number of hypotheses that may be alive at once.
func (o *Options) slots() int {
	if o.Sampling.independent() {
		return o.hypotheses()
	}
	return o.Beam
}

// lengthCap is the largest number of tokens of a translation. The comparison is Marian's: the translation ends with the first
// length that is not below factor × source.
func (o *Options) lengthCap(source, prefix int) int {
	limit := math.Ceil(float64(o.MaxLengthFactor * float32(source)))
	return max(int(min(limit, math.MaxInt32)), prefix+1)
}

// total is the score of a hypothesis of that length, the end of sentence included.
func (o *Options) total(sum float32, length int) float32 {
	penalised := o.penalised(sum, length)
	if o.Normalize == 0 {
		return penalised
	}
	return penalised / o.divisor(length)
}

// divisor is what normalisation divides the scores of hypotheses of a length by.
func (o *Options) divisor(length int) float32 {
	return float32(math.Pow(float64(length), float64(o.Normalize)))
}

// penalised is the score of a hypothesis before it is divided by its length.
func (o *Options) penalised(sum float32, length int) float32 {
	return sum - float32(o.WordPenalty*float32(length))
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
