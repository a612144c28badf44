package gpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Who scores given translations asks for a few tokens of each row: bringing the scores of the vocabulary to the processor, and normalising them
// there, would take longer than the step.

// LogProbsOf stores the log-probabilities of tokens[starts[row]:starts[row+1]], which are candidates, for all rows of the last Step.
func (s *Stepper) LogProbsOf(starts []int32, tokens []search.Token, out []float32) {
	if s.chooses() {
		for row := range s.rows {
			all, candidates := s.LogProbs(int32(row)), s.contexts[s.rows[row].context].candidates
			for i := starts[row]; i < starts[row+1]; i++ {
				place, _ := placeOf(tokens[i], candidates)
				out[i] = all[place]
			}
		}
		return
	}
	s.do(func() error { return s.pick(starts, tokens, out) })
	if s.err != nil {
		for i := range out {
			out[i] = nan
		}
	}
}

// chooses says whether tokens are forbidden in rows of the last Step, or only some are candidates.
func (s *Stepper) chooses() bool {
	return len(s.w.suppressed) > 0 || s.w.hard() != nil && !s.w.hard().lenient ||
		slices.ContainsFunc(s.rows, func(r row) bool { return len(s.contexts[r.context].candidates) > 0 })
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
