package gpumodel

import (
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

var nan = float32(math.NaN())

// Best stores, for each of the given rows of the last Step, the allowed token with the highest unnormalised score.
func (s *Stepper) Best(rows []int32, banned [][]search.Token, out []search.Scored) {
	s.best(rows, wish{count: 1}, banned, out)
}

// Top stores, for each of the given rows, the k allowed tokens of highest log-probability, best first.
func (s *Stepper) Top(rows []int32, k int, banned [][]search.Token, out []search.Scored) {
	s.best(rows, wish{k, true}, banned, out)
}

func (s *Stepper) best(rows []int32, want wish, banned [][]search.Token, out []search.Scored) {
	k := want.count
	if len(rows) == 0 || k == 0 {
		return
	}
	banned = s.withEarly(rows, banned)
	answer := func(i int) gpukernels.Choice { return s.chosen[i] }
	if s.foresees() {
		s.chosen = slices.Grow(s.chosen[:0], len(s.rows)*k)[:len(s.rows)*k]
		s.do(func() error { return s.chooseAhead(rows, banned, want) })
		answer = func(i int) gpukernels.Choice { return s.chosen[int(rows[i/k])*k+i%k] }
	} else {
		s.chosen = slices.Grow(s.chosen[:0], len(rows)*k)[:len(rows)*k]
		s.do(func() error { return s.choose(rows, banned, want) })
	}
	for i := range out[:len(rows)*k] {
		if c := answer(i); s.err != nil || c.Score != c.Score {
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
func (s *Stepper) choose(rows []int32, banned [][]search.Token, want wish) error {
	if err := s.room(&s.choices, 8*len(s.chosen)); err != nil {
		return err
	}
	o, err := s.outputOf(rows, banned, want)
	if err != nil {
		return err
	}
	if err := s.outputTime.Around(s.stream, func() error { return s.multiplyOut(rows, o, s.choices.at) }); err != nil {
		return err
	}
	return s.wait(func() error { return cuda.CopyOut(s.stream, s.chosen, s.choices.at) })
}

// outputOf is the output layer for rows of the last Step.
func (s *Stepper) outputOf(rows []int32, banned [][]search.Token, want wish) (gpukernels.Output, error) {
	s.asked = s.asked[:0]
	for _, number := range rows {
		s.asked = append(s.asked, s.rows[number].context)
	}
	s.listAllowed(s.asked, banned)
	places, err := s.lists.put(s.w.device.context, s.stream, s.setOfRow, s.starts, s.forbidden)
	if err != nil {
		return gpukernels.Output{}, err
	}
	o := s.outputLayer(places[0], places[1], places[2], want)
	if columns := s.columns(s.asked, want.normalised); len(columns) > 0 {
		if err := s.feedColumns(columns); err != nil {
			return o, err
		}
		o.Columns, o.Tokens = len(columns), s.columnTokens()
	}
	err = s.room(&s.scratch, gpukernels.OutputScratch(len(rows), o.Columns, want.count))
	o.Scratch = s.scratch.at
	return o, err
}

// outputLayer is that over the vocabulary, with the lists of listAllowed where they are on the device. For which rows, and where the result is to be,
// is for the caller to say.
func (s *Stepper) outputLayer(sets, starts, forbidden cuda.Pointer, want wish) gpukernels.Output {
	w := s.w
	return gpukernels.Output{Table: w.table, Bias: w.bias, Columns: w.vocabulary, Candidates: s.candidates.at, SetOfRow: sets, Words: w.words(),
		ForbiddenStarts: starts, Forbidden: forbidden, Count: want.count, Normalised: want.normalised, Scratch: s.scratch.at}
}

// multiplyOut runs the output layer over the rows, those that lie one behind the other at a time. Their choices are stored one behind the other.
func (s *Stepper) multiplyOut(rows []int32, o gpukernels.Output, to cuda.Pointer) error {
	sets, starts := o.SetOfRow, o.ForbiddenStarts
	for first := 0; first < len(rows); {
		count, at := s.following(rows[first:]), &s.rows[rows[first]]
		o.X = s.turnMatrix(at.turn, at.place, count)
		o.SetOfRow, o.ForbiddenStarts = cuda.Offset[int32](sets, first), cuda.Offset[int32](starts, first)
		o.Result = cuda.Offset[gpukernels.Choice](to, first*o.Count)
		if err := s.chooseFrom(o); err != nil {
			return err
		}
		first += count
	}
	return nil
}

// listAllowed lists which tokens rows of these contexts may have: the set of each, where its list of forbidden tokens begins, and these lists.
func (s *Stepper) listAllowed(contexts []search.Context, banned [][]search.Token) {
	s.setOfRow, s.forbidden, s.starts = s.setOfRow[:0], s.forbidden[:0], append(s.starts[:0], 0)
	for i, handle := range contexts {
		s.setOfRow = append(s.setOfRow, s.setOf(handle))
		s.forbidden = append(s.forbidden, s.w.suppressed...)
		if banned != nil {
			s.forbidden = append(s.forbidden, banned[i]...)
		}
		s.starts = append(s.starts, int32(len(s.forbidden)))
	}
}

// setOf is the number of the set of a context's candidates on the device, -1 if it may have all tokens.
func (s *Stepper) setOf(handle search.Context) int32 {
	if len(s.contexts[handle].candidates) > 0 {
		return int32(handle)
	}
	return -1
}

// following returns how many rows from the first on lie one behind the other on the device.
func (s *Stepper) following(rows []int32) int {
	n := 1
	for n < len(rows) && s.rows[rows[n]].behind(&s.rows[rows[n-1]]) {
		n++
	}
	return n
}

// behind says whether the row lies right behind another one on the device.
func (r *row) behind(last *row) bool { return r.turn == last.turn && r.place == last.place+1 }

// LogProbs returns the log-probability of every candidate of a row, in the order of its candidates or of the vocabulary.
func (s *Stepper) LogProbs(number int32) []float32 {
	scores, candidates := s.rowScores(int(number)), s.contexts[s.rows[number].context].candidates
	y := s.logProbs[:0]
	if len(candidates) > 0 {
		for _, token := range candidates {
			y = append(y, scores[token])
		}
	} else {
		y = append(y, scores...)
	}
	s.logProbs = y
	s.normaliseScores(y)
	if y[0] != y[0] {
		return y
	}
	for _, token := range s.w.suppressed {
		forbid(y, candidates, token)
	}
	if token := s.early(&s.rows[number]); token != search.NoToken {
		forbid(y, candidates, token)
	}
	return y
}

// forbid lets a token have no probability, if it is one of the candidates.
func forbid(y []float32, candidates []search.Token, token search.Token) {
	if place, ok := placeOf(token, candidates); ok {
		y[place] = float32(math.Inf(-1))
	}
}

// placeOf is the place of a token among the candidates, which are all if there are none.
func placeOf(token search.Token, candidates []search.Token) (place int, ok bool) {
	if len(candidates) == 0 {
		return int(token), true
	}
	return slices.BinarySearch(candidates, token)
}

// scoredTogether is how many rows are asked for their scores at a time: as many as a tile of that product has, for as many take no
// longer than one.
const scoredTogether = 16

// A scoredBlock holds the scores of rows first to end of the last Step, one row of the vocabulary after the other.
type scoredBlock struct {
	first, end int
	scores     []float32
}

// rowScores returns the scores of a row over the vocabulary. Those of the rows that come after it are computed with it, since the search
// looks at one row after the other.
func (s *Stepper) rowScores(number int) []float32 {
	b, n := &s.scored, s.w.vocabulary
	if number < b.first || number >= b.end {
		rows := s.together(number)
		b.first, b.end = number, number+rows
		b.scores = slices.Grow(b.scores[:0], rows*n)[:rows*n]
		s.do(func() error { return s.scoreRows(b.scores, number, rows) })
	}
	return b.scores[(number-b.first)*n:][:n]
}

// together is how many rows from the first on are scored at a time.
func (s *Stepper) together(first int) int {
	rows := 1
	for rows < scoredTogether && first+rows < len(s.rows) && s.rows[first+rows].behind(&s.rows[first+rows-1]) {
		rows++
	}
	return rows
}

// scoreRows writes the scores of rows that lie behind one another over the vocabulary.
func (s *Stepper) scoreRows(to []float32, first, rows int) error {
	if err := s.room(&s.scores, 4*len(to)); err != nil {
		return err
	}
	if err := s.scoresOf(s.turnMatrix(s.rows[first].turn, s.rows[first].place, rows), s.scores.at); err != nil {
		return err
	}
	return s.wait(func() error { return cuda.CopyOut(s.stream, to, s.scores.at) })
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
