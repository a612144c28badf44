package gpumodel

import (
	"errors"
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Who scores given translations, or prefixes, asks for a few tokens of each row: bringing the scores of the vocabulary to the processor, and
// normalising them there, would take longer than the step. What the next step is does not depend on the answers, so that they may be read when it
// is under way.

var _ search.Picker = (*Stepper)(nil)

// A question is for the log-probabilities of tokens in the rows of a step, on which the device may still be working.
type question struct {
	lists      feed
	picked     buffer      // float32
	answers    []float32   // which the device writes
	count      int         // of tokens
	done       *cuda.Event // when the answers have been written
	suppressed []int32     // those of the tokens that have no probability in their rows
}

// openQuestions is how many may be open: one for the last Step, while that before it is being read.
const openQuestions = 2

// AskLogProbs asks for the log-probabilities of tokens[starts[row]:starts[row+1]], which are candidates, for all rows of the last Step. Those of a
// row do not depend on its neighbours. AnswerLogProbs answers, one question after the other; two at most may be open.
func (s *Stepper) AskLogProbs(starts []int32, tokens []search.Token) {
	if s.questionsOpen == openQuestions {
		panic("gpumodel: too many questions are open")
	}
	q := &s.questions[(s.firstQuestion+s.questionsOpen)%openQuestions]
	s.questionsOpen++
	q.suppressed = q.suppressed[:0]
	for row := range s.rows {
		early := s.early(&s.rows[row])
		for i := starts[row]; i < starts[row+1]; i++ {
			if tokens[i] == early || slices.Contains(s.w.suppressed, tokens[i]) {
				q.suppressed = append(q.suppressed, i)
			}
		}
	}
	s.do(func() error { return s.ask(q, starts, tokens) })
}

// AnswerLogProbs stores the answer to the first open question: as many numbers as tokens were asked about.
func (s *Stepper) AnswerLogProbs(out []float32) {
	q := &s.questions[s.firstQuestion]
	s.firstQuestion = (s.firstQuestion + 1) % openQuestions
	s.questionsOpen--
	s.answer(q, out)
}

// LogProbsOf asks, and answers at once, when no question is open.
func (s *Stepper) LogProbsOf(starts []int32, tokens []search.Token, out []float32) {
	s.AskLogProbs(starts, tokens)
	s.AnswerLogProbs(out)
}

// ask runs the output layer for some rows at a time, of those with tokens, and keeps what was asked for.
func (s *Stepper) ask(q *question, starts []int32, tokens []search.Token) error {
	n := s.w.vocabulary
	if err := s.room(&s.scores, 4*n*scoredTogether); err != nil {
		return err
	}
	if err := q.reserve(s, len(tokens)); err != nil {
		return err
	}
	s.setOfRow = s.setOfRow[:0]
	for i := range s.rows {
		s.setOfRow = append(s.setOfRow, s.setOf(s.rows[i].context))
	}
	places, err := q.lists.put(s.w.device.context, s.stream, starts, tokens, s.setOfRow)
	if err != nil {
		return err
	}
	for first := 0; first < len(s.rows); {
		rows := s.askedTogether(first, starts)
		if rows == 0 {
			first++
			continue
		}
		if err := s.scoresOf(s.turnMatrix(s.rows[first].turn, s.rows[first].place, rows), s.scores.at); err != nil {
			return err
		}
		p := gpukernels.Picking{Scores: s.scores.at, Rows: rows, N: n, Starts: cuda.Offset[int32](places[0], first), Tokens: places[1],
			Candidates: s.candidates.at, SetOfRow: cuda.Offset[int32](places[2], first), Words: s.w.words(), Result: q.picked.at}
		if err := s.w.device.kernels.PickLogProbabilities(s.stream, p); err != nil {
			return err
		}
		first += rows
	}
	if err := cuda.CopyOut(s.stream, q.answers[:q.count], q.picked.at); err != nil {
		return err
	}
	return s.stream.Record(q.done)
}

// askedTogether is how many rows from the first on are scored at a time, all of which are asked about.
func (s *Stepper) askedTogether(first int, starts []int32) int {
	rows, most := 0, s.together(first)
	for rows < most && starts[first+rows] < starts[first+rows+1] {
		rows++
	}
	return rows
}

// answer stores the answers when they are there: NaNs if the device has failed.
func (s *Stepper) answer(q *question, out []float32) {
	s.do(func() error { return s.wait(q.done.Synchronize) })
	if s.err != nil {
		for i := range out {
			out[i] = nan
		}
		return
	}
	copy(out, q.answers[:q.count])
	for _, i := range q.suppressed {
		if out[i] == out[i] {
			out[i] = float32(math.Inf(-1))
		}
	}
}

// reserve makes room for so many answers.
func (q *question) reserve(s *Stepper, count int) (err error) {
	c := s.w.device.context
	q.count = count
	if q.done == nil {
		if q.done, err = c.Event(); err != nil {
			return err
		}
	}
	if count > len(q.answers) || q.answers == nil {
		was := q.answers
		if q.answers, err = cuda.AllocHost[float32](c, max(count, 2*len(was), 256)); err != nil {
			return err
		}
		if err := freeHost(c, was); err != nil {
			return err
		}
	}
	return s.room(&q.picked, 4*len(q.answers))
}

// close frees what a question has, once the device is done with it.
func (q *question) close(c *cuda.Context) error {
	failed := []error{q.lists.close(c), c.Free(q.lists.device.at), c.Free(q.picked.at), freeHost(c, q.answers)}
	if q.done != nil {
		failed = append(failed, q.done.Close())
	}
	*q = question{}
	return errors.Join(failed...)
}
