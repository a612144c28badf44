package gpumodel

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

var nan = float32(math.NaN())

// Best stores, for each of the given rows of the last Step, the allowed token with the highest unnormalised score.
func (s *Stepper) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	s.best(rows, 1, banned, false, out)
}

// Top stores, for each of the given rows, the k allowed tokens of highest log-probability, best first.
func (s *Stepper) Top(rows []int32, k int, banned [][]search.Token, out []search.Scored) {
	s.best(rows, k, banned, true, out)
}

func (s *Stepper) best(rows []int32, k int, banned [][]search.Token, normalised bool, out []search.Scored) {
	if len(rows) == 0 || k == 0 {
		return
	}
	s.chosen = slices.Grow(s.chosen[:0], len(rows)*k)[:len(rows)*k]
	s.do(func() error { return s.choose(rows, k, banned, normalised) })
	for i, c := range s.chosen {
		if s.err != nil || c.Score != c.Score {
			out[i] = search.Scored{Token: s.firstToken(rows[i/k]), Score: nan}
		} else {
			out[i] = search.Scored{Token: c.Token, Score: c.Score}
		}
	}
}

// firstToken is what stands for the choice of a broken row.
func (s *Stepper) firstToken(number int32) search.Token {
	if list := s.contexts[s.rows[number].context].candidates; len(list) > 0 {
		return list[0]
	}
	return 0
}

// choose runs the output layer for rows and waits for the choices.
func (s *Stepper) choose(rows []int32, k int, banned [][]search.Token, normalised bool) error {
	w, c := s.w, s.w.device.context
	columns := s.columns(rows, normalised)
	places, err := s.feedTokens(rows, banned, columns)
	if err != nil {
		return err
	}
	tokens, n := cuda.Pointer(0), w.vocabulary
	if len(columns) > 0 {
		tokens, n = places[3], len(columns)
	}
	if err := s.choices.reserve(c, 8*len(s.chosen)); err != nil {
		return err
	}
	if err := s.scratch.reserve(c, gpukernels.OutputScratch(len(rows), n, k)); err != nil {
		return err
	}
	if err := s.outputTime.around(s.stream, func() error { return s.multiplyOut(rows, k, places, tokens, n, normalised) }); err != nil {
		return err
	}
	return cuda.CopyOut(s.stream, s.chosen, s.choices.at)
}

// multiplyOut runs the output layer over the rows, those that follow each other at a time. places are those of feedTokens; n columns are
// multiplied, those of tokens if that is not 0.
func (s *Stepper) multiplyOut(rows []int32, k int, places []cuda.Pointer, tokens cuda.Pointer, n int, normalised bool) error {
	w := s.w
	for first := 0; first < len(rows); {
		count := following(rows[first:])
		o := gpukernels.Output{X: gpukernels.Matrix{At: s.top(rows[first]), Rows: count, Columns: w.dim}, Table: w.table, Bias: w.bias,
			Columns: n, Tokens: tokens, Candidates: s.candidates.at, SetOfRow: cuda.Offset[int32](places[0], first), Words: w.words(),
			ForbiddenStarts: cuda.Offset[int32](places[1], first), Forbidden: places[2], Count: k, Normalised: normalised,
			Scratch: s.scratch.at, Result: cuda.Offset[gpukernels.Choice](s.choices.at, first*k)}
		if err := w.device.kernels.Output(s.stream, o); err != nil {
			return err
		}
		first += count
	}
	return nil
}

// top is the row that the output layer multiplies.
func (s *Stepper) top(number int32) cuda.Pointer {
	return cuda.Offset[gpukernels.Half](s.rowsOf.x, int(number)*s.w.dim)
}

// columns returns all tokens that the rows may have, if multiplying with them alone is less work than with the vocabulary, and nil
// otherwise. Normalised scores always go over the vocabulary: their sums would run in an order that the other rows decide.
func (s *Stepper) columns(rows []int32, normalised bool) []int32 {
	if normalised {
		return nil
	}
	s.union = append(s.union[:0], make([]uint64, (s.w.vocabulary+63)/64)...)
	last := noContext
	for _, number := range rows {
		handle := s.rows[number].context
		list := s.contexts[handle].candidates
		if len(list) == 0 {
			return nil
		}
		if handle == last {
			continue
		}
		last = handle
		for _, token := range list {
			s.union[token/64] |= 1 << (token % 64)
		}
	}
	s.columnList = s.columnList[:0]
	for i, word := range s.union {
		for ; word != 0; word &= word - 1 {
			s.columnList = append(s.columnList, int32(i*64+bits.TrailingZeros64(word)))
		}
	}
	if 2*len(s.columnList) > s.w.vocabulary {
		return nil
	}
	return s.columnList
}

// feedTokens brings to the device which tokens the rows may have: the set of each, where its list of forbidden tokens begins, the lists,
// and the columns.
func (s *Stepper) feedTokens(rows []int32, banned [][]search.Token, columns []int32) ([]cuda.Pointer, error) {
	s.setOfRow, s.forbidden, s.starts = s.setOfRow[:0], s.forbidden[:0], append(s.starts[:0], 0)
	for i, number := range rows {
		handle, set := s.rows[number].context, int32(-1)
		if len(s.contexts[handle].candidates) > 0 {
			set = int32(handle)
		}
		s.setOfRow = append(s.setOfRow, set)
		s.forbidden = append(s.forbidden, s.w.suppressed...)
		if banned != nil {
			s.forbidden = append(s.forbidden, banned[i]...)
		}
		s.starts = append(s.starts, int32(len(s.forbidden)))
	}
	return s.lists.put(s.w.device.context, s.stream, s.setOfRow, s.starts, s.forbidden, columns)
}

// following returns how many rows from the first on follow each other one by one.
func following(rows []int32) int {
	n := 1
	for n < len(rows) && rows[n] == rows[n-1]+1 {
		n++
	}
	return n
}

// LogProbs returns the log-probability of every candidate of a row, in the order of its candidates or of the vocabulary.
func (s *Stepper) LogProbs(number int32) []float32 {
	w := s.w
	s.logProbs = slices.Grow(s.logProbs[:0], w.vocabulary)[:w.vocabulary]
	s.do(func() error {
		if err := s.scores.reserve(w.device.context, 4*w.vocabulary); err != nil {
			return err
		}
		x := gpukernels.Matrix{At: s.top(number), Rows: 1, Columns: w.dim}
		if err := w.device.kernels.Scores(s.stream, x, w.table, w.bias, s.scores.at, w.vocabulary); err != nil {
			return err
		}
		return cuda.CopyOut(s.stream, s.logProbs, s.scores.at)
	})
	y, candidates := s.logProbs, s.contexts[s.rows[number].context].candidates
	if len(candidates) > 0 {
		for i, token := range candidates { // ascending, so that nothing is overwritten before it is read
			y[i] = y[token]
		}
		y = y[:len(candidates)]
	}
	s.normaliseScores(y)
	if y[0] != y[0] {
		return y
	}
	for _, token := range w.suppressed {
		place, ok := int(token), true
		if len(candidates) > 0 {
			place, ok = slices.BinarySearch(candidates, token)
		}
		if ok {
			y[place] = float32(math.Inf(-1))
		}
	}
	return y
}

// normaliseScores turns scores into log-probabilities, or all into NaN if one is not finite or the device has failed.
func (s *Stepper) normaliseScores(y []float32) {
	largest, broken := float32(math.Inf(-1)), s.err != nil
	for _, v := range y {
		broken = broken || !(math.Abs(float64(v)) <= math.MaxFloat32)
		largest = max(largest, v)
	}
	sum := 0.0
	for _, v := range y {
		sum += math.Exp(float64(v - largest))
	}
	subtract := largest + float32(math.Log(sum))
	for i := range y {
		if y[i] -= subtract; broken {
			y[i] = nan
		}
	}
}
