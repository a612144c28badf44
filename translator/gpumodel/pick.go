package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Who scores given translations asks for a few tokens of each row: bringing the scores of the vocabulary to the processor, and normalising them
// there, would take longer than the step.

// LogProbsOf stores the log-probabilities of tokens[starts[row]:starts[row+1]], which are candidates, for all rows of the last Step. Those of a
// row do not depend on its neighbours, whatever is forbidden in them.
func (s *Stepper) LogProbsOf(starts []int32, tokens []search.Token, out []float32) {
	s.do(func() error { return s.pick(starts, tokens, out) })
	if s.err != nil {
		for i := range out {
			out[i] = nan
		}
		return
	}
	for row := range s.rows {
		if s.chooses(row) {
			s.pickAmongAll(row, tokens[starts[row]:starts[row+1]], out[starts[row]:starts[row+1]])
		}
	}
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

// pick runs the output layer for some rows at a time and keeps what was asked for.
func (s *Stepper) pick(starts []int32, tokens []search.Token, out []float32) error {
	k, n := s.w.device.kernels, s.w.vocabulary
	if err := s.room(&s.scores, 4*n*scoredTogether); err != nil {
		return err
	}
	if err := s.room(&s.picked, 4*len(out)); err != nil {
		return err
	}
	places, err := s.lists.put(s.w.device.context, s.stream, starts, tokens)
	if err != nil {
		return err
	}
	for first := 0; first < len(s.rows); {
		rows := s.together(first)
		if err := s.scoresOf(s.turnMatrix(s.rows[first].turn, s.rows[first].place, rows), s.scores.at); err != nil {
			return err
		}
		if err := k.PickLogProbabilities(s.stream, s.scores.at, cuda.Offset[int32](places[0], first), places[1], s.picked.at, rows, n); err != nil {
			return err
		}
		first += rows
	}
	return s.wait(func() error { return cuda.CopyOut(s.stream, out, s.picked.at) })
}
