package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A Joined chooses among all tokens by the scores of several models, or of one: see JoinModels and ChooseJoined. Numbers are float32, lists
// int32.
type Joined struct {
	Scores       cuda.Pointer // of each model Rows rows of N scores, as Kernels.Scores writes them
	Weights      cuda.Pointer // one for each model
	Models, Rows int
	N            int // tokens, MostJoined at most

	// Which tokens a row may have: see Output. Who is no candidate has no part in the log-probabilities of the others either.
	Candidates, SetOfRow       cuda.Pointer
	Words                      int
	ForbiddenStarts, Forbidden cuda.Pointer

	Normalisers cuda.Pointer // what is subtracted from the scores: for each row one of each model
	Sums        cuda.Pointer // for each row N; what ChooseJoined leaves there is nobody's

	Lots   cuda.Pointer // Lot, for each row
	Count  int          // choices of a row
	Result cuda.Pointer // Choice, Count for each row
	Parts  cuda.Pointer // for each choice its log-probability by each model
}

// MostJoined is how many tokens there may be: exponentials are added up as whole numbers of 64 bits, of which 2^44 stand for 1.
const MostJoined = 1 << 19

// A LotMethod is a way to choose: the best tokens, or one that is drawn.
type LotMethod int32

const (
	LotBest    LotMethod = iota
	LotFull              // among all tokens
	LotNucleus           // among the fewest best ones whose probabilities reach Limit together
	LotEpsilon           // among those whose probability is at least Limit
	LotFew               // among the Kept best ones
	LotNoisy             // the best tokens, by sums to which noise is added
	LotGiven             // none: there are choices already, with log-probabilities by the first model
)

// A Lot says how a row chooses: Chance, between 0 and 1, is what a row draws with; Key tells the noise of each token, as it does in
// translator/search.
type Lot struct {
	Chance                    float64
	Key                       uint64
	InverseTemperature, Limit float32
	Method                    LotMethod
	Kept                      int32
}

const joinedThreads = 256

// JoinModels writes, for all tokens of all rows, the sums of the log-probabilities of all models, each multiplied by the model's weight; -∞
// for what a row may not have.
func (k *Kernels) JoinModels(s *cuda.Stream, j Joined) error {
	if j.Rows == 0 {
		return nil
	}
	if err := cmp.Or(
		need(j.Models > 0 && j.N > 0 && j.N <= MostJoined, "join_models", "%d models of %d tokens", j.Models, j.N),
		need(j.ForbiddenStarts != 0, "join_models", "no list of forbidden tokens; it may be empty"),
		need(j.Candidates == 0 || j.SetOfRow != 0, "join_models", "candidates without the set of each row"),
	); err != nil {
		return err
	}
	return k.byName["join_models"].Launch(s, cuda.Shape{X: j.Rows}, cuda.Shape{X: joinedThreads}, 0, cuda.Address(j.Scores),
		cuda.Address(j.Weights), cuda.Address(j.Candidates), cuda.Address(j.SetOfRow), cuda.Address(j.ForbiddenStarts),
		cuda.Address(j.Forbidden), cuda.Address(j.Normalisers), cuda.Address(j.Sums), cuda.Int(j.Models), cuda.Int(j.Rows), cuda.Int(j.N),
		cuda.Int(j.Words))
}

// ChooseJoined writes, for all rows, the tokens with the largest of the sums that JoinModels gave, best first, equal ones by token; or the one
// that is drawn, with the odds exp((sum − the largest) × InverseTemperature). Of a noisy row, each sum is multiplied by InverseTemperature and gets a
// variate of the standard Gumbel distribution; a choice's score is that, less the logarithm of the sum of the exponentials of all of them.
// Where there are no more, the choice is {-∞, -1}. A row in which a model has a score of a candidate that is not finite, or the largest sum is
// not, has NaN scores. What is given is multiplied by the first model's weight.
func (k *Kernels) ChooseJoined(s *cuda.Stream, j Joined) error {
	if j.Rows == 0 {
		return nil
	}
	if err := need(j.Count > 0, "choose_joined", "the best %d tokens", j.Count); err != nil {
		return err
	}
	return k.byName["choose_joined"].Launch(s, cuda.Shape{X: j.Rows}, cuda.Shape{X: joinedThreads}, 0, cuda.Address(j.Scores),
		cuda.Address(j.Weights), cuda.Address(j.Normalisers), cuda.Address(j.Sums), cuda.Address(j.Lots), cuda.Address(j.Result), cuda.Address(j.Parts),
		cuda.Int(j.Models), cuda.Int(j.Rows), cuda.Int(j.N), cuda.Int(j.Count))
}
