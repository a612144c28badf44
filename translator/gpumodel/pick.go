package gpumodel

import (
	"errors"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Who scores given translations asks for a few tokens of each row: bringing the scores of the vocabulary to the processor, and normalising them
// there, would take longer than the step. What the next step is does not depend on the answers, so that they may be read when it is under way.

// A question is for the log-probabilities of tokens in the rows of a step, on which the device may still be working.
type question struct {
	lists   feed
	picked  buffer      // float32
	answers []float32   // which the device writes
	count   int         // of tokens
	done    *cuda.Event // when the answers have been written
	given   []float32   // answers that were there at once
}

// openQuestions is how many may be open: one for the last Step, while that before it is being read.
const openQuestions = 2

// AskLogProbs asks for the log-probabilities of tokens[starts[row]:starts[row+1]], which are candidates, for all rows of the last Step. Those of a
// row do not depend on its neighbours, whatever is forbidden in them. AnswerLogProbs answers, one question after the other; two at most may be open.
func (s *Stepper) AskLogProbs(starts []int32, tokens []search.Token) {
	if s.questionsOpen == openQuestions {
		panic("gpumodel: too many questions are open")
	}
	q := &s.questions[(s.firstQuestion+s.questionsOpen)%openQuestions]
	s.questionsOpen++
	q.given = q.given[:0]
	s.do(func() error { return s.ask(q, starts, tokens) })
	for row := range s.rows {
		if !s.chooses(row) {
			continue
		}
		if len(q.given) == 0 { // the rows are gone when the others' answers are read
			q.given = append(q.given, make([]float32, len(tokens))...)
			s.answer(q, q.given)
		}
		s.pickAmongAll(row, tokens[starts[row]:starts[row+1]], q.given[starts[row]:starts[row+1]])
	}
}

// AnswerLogProbs stores the answer to the first open question: as many numbers as tokens were asked about.
func (s *Stepper) AnswerLogProbs(out []float32) {
	q := &s.questions[s.firstQuestion]
	s.firstQuestion = (s.firstQuestion + 1) % openQuestions
	s.questionsOpen--
	if len(q.given) > 0 {
		copy(out, q.given)
		return
	}
	s.answer(q, out)
}

// LogProbsOf asks, and answers at once, when no question is open.
func (s *Stepper) LogProbsOf(starts []int32, tokens []search.Token, out []float32) {
	s.AskLogProbs(starts, tokens)
	s.AnswerLogProbs(out)
}

// chooses says whether tokens are forbidden in a row of the last Step, or only some are candidates. Who scores given translations has no such row.
func (s *Stepper) chooses(row int) bool {
	r := &s.rows[row]
	return len(s.w.suppressed) > 0 || s.early(r) != search.NoToken || len(s.contexts[r.context].candidates) > 0
}

// pickAmongAll takes the log-probabilities of tokens from those of all candidates of a row.
func (s *Stepper) pickAmongAll(row int, tokens []search.Token, out []float32) {
	all, candidates := s.LogProbs(int32(row)), s.contexts[s.rows[row].context].candidates
	for i, token := range tokens {
		place, _ := placeOf(token, candidates)
		out[i] = all[place]
	}
}

// ask runs the output layer for some rows at a time and keeps what was asked for.
func (s *Stepper) ask(q *question, starts []int32, tokens []search.Token) error {
	k, n := s.w.device.kernels, s.w.vocabulary
	if err := s.room(&s.scores, 4*n*scoredTogether); err != nil {
		return err
	}
	if err := q.reserve(s, len(tokens)); err != nil {
		return err
	}
	places, err := q.lists.put(s.w.device.context, s.stream, starts, tokens)
	if err != nil {
		return err
	}
	for first := 0; first < len(s.rows); {
		rows := s.together(first)
		if err := s.scoresOf(s.turnMatrix(s.rows[first].turn, s.rows[first].place, rows), s.scores.at); err != nil {
			return err
		}
		if err := k.PickLogProbabilities(s.stream, s.scores.at, cuda.Offset[int32](places[0], first), places[1], q.picked.at, rows, n); err != nil {
			return err
		}
		first += rows
	}
	if err := cuda.CopyOut(s.stream, q.answers[:q.count], q.picked.at); err != nil {
		return err
	}
	return s.stream.Record(q.done)
}

// answer stores the answers when they are there: NaNs if the device has failed.
func (s *Stepper) answer(q *question, out []float32) {
	s.do(func() error { return s.wait(q.done.Synchronize) })
	if s.err == nil {
		copy(out, q.answers[:q.count])
		return
	}
	for i := range out {
		out[i] = nan
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
