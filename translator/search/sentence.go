package search

import "slices"

// A Sentence is one source sentence on its way through a Decoder. It must not be changed from Encode until its Result.
type Sentence struct {
	Source Source

	// Prefix holds tokens with which the translation is forced to begin. They should be among Source.Candidates. One that
	// is not, or that the model suppresses, is forced all the same and counts as certain in the scores.
	Prefix []Token

	Seed    uint64 // the sentence's own seed, for sampling
	Options Options
	Tag     any // the caller's

	contexts []Context  // one for each Stepper, while the sentence is encoded
	single   [1]Context // room for that of a single Stepper
}

// Slots is the number of decoder slots that the sentence takes from Start on.
func (s *Sentence) Slots() int {
	if s.empty() {
		return 0
	}
	return s.Options.slots()
}

// empty says whether the source holds nothing but its end. Such a sentence never reaches the model.
func (s *Sentence) empty() bool { return len(s.Source.Tokens) <= 1 }

// Flags say what was remarkable about a search.
type Flags uint8

const (
	// Unfinished: the best hypothesis was cut off by the length cap before its end of sentence.
	Unfinished Flags = 1 << iota
	// Repetition: the best hypothesis repeats itself as no honest text does (see Repeats), and the source does not.
	Repetition
	// NonFinite: a score was not a number, or infinite. The search was given up without hypotheses.
	NonFinite
)

// A Result is a sentence whose search has ended. The sentence is not encoded any more; it may be encoded and started again,
// with other options for example.
type Result struct {
	Sentence *Sentence
	// Hypotheses, best first; independent samples in the order of their numbers. At least one, unless Flags has NonFinite.
	// The list and the tokens in it are the Decoder's again at its next Step; the other lists of a hypothesis are the caller's.
	Hypotheses []Hypothesis
	Flags      Flags
}

// Clone returns a Result that the caller can keep.
func (r Result) Clone() Result {
	r.Hypotheses = slices.Clone(r.Hypotheses)
	for i := range r.Hypotheses {
		r.Hypotheses[i].Tokens = slices.Clone(r.Hypotheses[i].Tokens)
	}
	return r
}

// A Hypothesis is a candidate translation.
type Hypothesis struct {
	Tokens   []Token // in the order of generation, with the end of sentence if it was generated
	Finished bool    // whether the end of sentence was generated

	// Score is the weighted sum of log-probabilities with word penalty and normalisation. With Gumbel noise, hypotheses are
	// ordered by the noisy score, which is not given. 0 where the search does without scores.
	Score float32
	// ModelScores is the sum of log-probabilities of each model, without its weight; nil where the search does without.
	ModelScores []float32
	// WordScores is the weighted log-probability of each token (as differences of the float32 sums, like Marian's); nil
	// unless asked for.
	WordScores []float32
	// Alignment holds for each token the weights of the source tokens; nil unless asked for.
	Alignment [][]float32
}
