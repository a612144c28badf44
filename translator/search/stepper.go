// Package search finds translations: greedily, by beam, or by sampling, over any model that can take one decoder
// step at a time.
//
// The Stepper is the boundary to the device. It offers whole passes (encode these sentences, advance these slots by
// one token), never single tensor operations, so that a CPU, a GPU and a test's fake can each do a pass in their own
// best way.
package search

// A Token is a piece's number in the target or source vocabulary.
type Token = int32

// NoToken stands for the empty history before the first target token.
const NoToken Token = -1

// A Source is one sentence as the encoder takes it.
type Source struct {
	Tokens     []Token   // source pieces, end of sentence last
	Further    [][]Token // the second source and those after it, of models that have several; the same form as Tokens
	Candidates []Token   // target pieces that may be generated, ascending (a shortlist); nil for the whole vocabulary
}

// Pieces is how many pieces all sources have together.
func (s *Source) Pieces() int {
	n := len(s.Tokens)
	for _, tokens := range s.Further {
		n += len(tokens)
	}
	return n
}

// A Context is an encoded sentence, held by the Stepper that encoded it until it is released.
type Context int32

// A Slot is a place in the decoder, holding the state of one hypothesis. Slots are numbered from 0.
type Slot int32

// Scored is a target token with its score.
type Scored struct {
	Token Token
	Score float32
}

// A Stepper runs one model on one device for one worker. It is not safe for concurrent use.
//
// What a row gives depends on the sentence and its history only, bit for bit: never on the other sentences of the
// call, on their number or on their order.
//
// The order of use is: Encode some sources; Begin a slot for each hypothesis that starts; then, again and again,
// Step the active slots and ask for Best, Top or LogProbs of its rows, and Reorder where hypotheses replace each
// other; Release a context when no slot needs it any more. A slot whose hypothesis has ended is simply not stepped
// again, and may Begin anew.
type Stepper interface {
	// Slots is the number of slots, fixed when the Stepper was made.
	Slots() int

	// Vocabulary is the number of target tokens.
	Vocabulary() int

	// Encode runs the encoder over the sources as one batch and stores the handle of sources[i] in contexts[i].
	// The Stepper does not keep sources[i].Tokens or Further; it does keep sources[i].Candidates until Release.
	Encode(sources []Source, contexts []Context)

	// Release frees the memory of a context.
	Release(context Context)

	// Begin puts the decoder's initial state for the sentence into the slot.
	Begin(slot Slot, context Context)

	// Reorder gives dst[i] the state that src[i] had before the call, for all i at once. Every slot may stand in src
	// any number of times, in dst once. Both slots belong to the same sentence.
	Reorder(dst, src []Slot)

	// Step advances slots[i] by token tokens[i] (NoToken at the start), for all i: row i of the answers below. If
	// align is true, attention weights are kept for Attention. A slot stands in slots once.
	Step(slots []Slot, tokens []Token, align bool)

	// Best stores, for each of the given rows of the last Step, the allowed token with the highest unnormalised score
	// (the softmax is skipped). Ties go to the smaller token. banned[i], if banned is not nil, lists tokens not
	// allowed in rows[i], beside the model's own suppressed ones. A row with a NaN or an infinity gets a NaN score.
	Best(rows []int32, banned [][]Token, out []Scored)

	// Top stores, for each of the given rows, the k allowed tokens of highest log-probability, best first, in
	// out[i*k:(i+1)*k]; ties go to the smaller token. The log-probabilities are normalised over all candidates,
	// suppressed and banned ones included. Where fewer than k are allowed the rest is {NoToken, -Inf}. A row with a
	// NaN or an infinity gets NaN scores.
	Top(rows []int32, k int, banned [][]Token, out []Scored)

	// LogProbs returns the log-probability of every candidate of a row, in the order of its Candidates (or of the
	// vocabulary). Suppressed tokens hold -Inf. The slice is valid until the next call.
	LogProbs(row int32) []float32

	// Attention returns the weights of row's attention over the source tokens in the alignment head. It is valid
	// until the next Step, which must have been asked to align.
	Attention(row int32) []float32
}

// A Foresight is what the search knows about its next step before it has seen the answers of this one.
type Foresight struct {
	Weight    float32    // multiplies all log-probabilities
	Prospects []Prospect // of all rows of the last Step, in their order
	Ranks     []float32  // of each row
	Chances   []float64  // of each row that draws its token: a number between 0 and 1
}

// A Prospect says how the rows of a sentence are going to go on. If Given is a token, all go on with that one. If Kept is not 0, each draws
// one of its so many best, as a sample. Otherwise of all ways to go on from them the Width best are taken, by the row's rank plus the
// weighted log-probability, and among equals the first ones.
type Prospect struct {
	Rows               int  // behind those of the sentence before
	Ends               bool // with this step, whatever the answers are
	Width              int
	Given              Token
	Kept               int
	InverseTemperature float64
}

// A Foreseer is a Stepper that can begin the next step before the search has seen the answers of this one. It has to be right about
// nothing: Reorder and Step say how the search went on.
type Foreseer interface {
	// Foresee says, before a Best, a Top or a Choose for all rows of the last Step but those whose token is given, what will be made of the answers.
	// The slices are the caller's again when that has answered. Where the tokens of all rows are given, nothing is asked behind it.
	Foresee(Foresight)
}

// A Picker is a Stepper that brings the log-probabilities of single tokens from its device, instead of those of all candidates. AskLogProbs asks
// for those of tokens[starts[row]:starts[row+1]], which are candidates, for all rows of the last Step: -Inf for what the model suppresses, NaN in a
// row with a NaN or an infinity. AnswerLogProbs stores the answer to the first question that is open, of which there may be two: so the next step
// can be under way when the answers about the last one are read.
type Picker interface {
	AskLogProbs(starts []int32, tokens []Token)
	AnswerLogProbs(out []float32)
}

// A Spreader is a Stepper that can have several cores work on one pass. What the passes give does not depend on how many there are.
type Spreader interface {
	// Spread says how many cores the passes that follow may use, one at least.
	Spread(cores int)
}

// A Joiner is a Stepper whose device can look at the log-probabilities of several models, its own perhaps alone, and choose among all
// candidates. Who cannot is asked for LogProbs.
type Joiner interface {
	// Join returns a Joint of this Stepper and others, which make the same steps from now on, with a weight for each. It is nil if the
	// device cannot look at all of them together.
	Join(others []Stepper, weights []float32) Joint
}

// A Joint chooses by sums of log-probabilities, those of all models, each multiplied by its weight, added up in their order. What is not
// allowed in one model is not allowed at all.
//
// Rounding is the device's own, and the same for a row whatever rows are beside it.
type Joint interface {
	Foreseer // of what is made of the answers of Choose

	// Choose stores, for each of the given rows of the last Step, k ways to go on in out[i*k:(i+1)*k]: the allowed tokens with the largest
	// sums, best first, ties going to the smaller token; or, if lots[i] has a method, the one token that is drawn, or with Gumbel those with the
	// largest sums with noise, whose scores are with noise, too. Where there are no more, the rest is {NoToken, -Inf}. A row with a NaN or an
	// infinity in any model gets NaN scores. parts has as many log-probabilities as there are models for each element of out. banned is that of Top.
	Choose(rows []int32, k int, banned [][]Token, lots []Lot, out []Scored, parts []float32)
}

// A Lot says how a row draws its token, or that it draws none, with NoSampling. Chance is a number between 0 and 1. What falls on which chance is
// told by the candidates' order, in a nucleus and among the K best by that of their sums. With Gumbel, sums are divided by the temperature, get
// the noise of each token, and are normalised again.
type Lot struct {
	Method             Method
	Limit              float32 // P of Nucleus, Epsilon of Epsilon
	K                  int     // of TopK, no more than there are candidates
	InverseTemperature float64
	Chance             float64
	Key                uint64 // of the noise
	Alone              bool   // there is one model, whose answers are to be those of Top, to the last bit, without the weight; parts are nobody's
}
