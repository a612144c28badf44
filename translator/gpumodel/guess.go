package gpumodel

import (
	"math"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// How the rows of a step go on is known before anybody has read the choices of it, on the device at least. A hypothesis alone takes the
// first choice of its row. Of beams, the search has told the ranks of their rows, and a kernel guesses from both which rows go on, and with
// which tokens. Of samples, it has told the random numbers, and a kernel draws with them. And tokens of a prefix are given.
//
// The kernels round as the search does, and break ties alike. They need not: it looks at the choices itself, and a guess that it does not
// share is not used. So the last bit of an exponential, which may be another one on a device, can cost time, but never changes a sample.

// guessLists are what the kernels need: see gpukernels.Draw and gpukernels.Beams.
type guessLists struct{ draws, places, ranks, states, firstRows, firstGuesses []int32 }

// nextRows is how many rows go on.
func nextRows(p search.Prospect) int {
	switch {
	case p.Ends || p.Rows == 0:
		return 0
	case p.Kept > 0 || p.Given != search.NoToken:
		return p.Rows
	}
	return p.Width
}

// guess lists the rows of the next step in a turn, and lets the device find out what it cannot be told.
func (s *Stepper) guess(t *turn, of answers) error {
	l, row, chance := &s.guessLists, 0, 0
	*l = guessLists{l.draws[:0], l.places[:0], l.ranks[:0], l.states[:0], append(l.firstRows[:0], 0), append(l.firstGuesses[:0], 0)}
	beams := 0 // guesses of beams, which come first
	for _, p := range s.foresight.Prospects {
		if competes(p, of) {
			beams += nextRows(p)
		}
	}
	guesses := beams
	for _, p := range s.foresight.Prospects {
		first := row
		row += p.Rows
		switch {
		case nextRows(p) == 0:
		case p.Given != search.NoToken:
			s.goOnWith(t, first, row, p.Given)
		case p.Kept > 0:
			s.draw(t, first, row, p, s.foresight.Chances[chance:], guesses, of)
			guesses += p.Rows
		case competes(p, of):
			s.compete(t, first, row, p.Width, of)
		default:
			s.goOn(t, first, of)
		}
		if p.Kept > 0 {
			chance += p.Rows
		}
	}
	if guesses == 0 {
		return nil
	}
	return s.askForGuesses(t, of, guesses)
}

// competes says whether it takes a kernel to see which of a sentence's rows go on. Who is alone goes on with the first choice, if the step can
// read it.
func competes(p search.Prospect, of answers) bool {
	return p.Kept == 0 && p.Given == search.NoToken && !(p.Rows == 1 && p.Width == 1 && of.own)
}

// goOn lets a row of the last Step go on with its first choice.
func (s *Stepper) goOn(t *turn, row int, of answers) {
	b := s.beginning(&s.rows[row])
	b.choice, b.chooser = of.places[row], row
	t.rows = append(t.rows, b)
}

// goOnWith lets rows of the last Step go on with a token.
func (s *Stepper) goOnWith(t *turn, first, end int, token search.Token) {
	for i := first; i < end; i++ {
		b := s.beginning(&s.rows[i])
		b.token = token
		t.rows = append(t.rows, b)
	}
}

// draw lets rows of the last Step draw how they go on. The first of their guesses has that number.
func (s *Stepper) draw(t *turn, first, end int, p search.Prospect, chances []float64, guess int, of answers) {
	both := func(x float64) (low, high int32) { bits := math.Float64bits(x); return int32(bits), int32(bits >> 32) }
	for i := first; i < end; i++ {
		b := s.beginning(&s.rows[i])
		b.guessed = int32(guess + i - first)
		chance, chanceHigh := both(chances[i-first])
		inverse, inverseHigh := both(p.InverseTemperature)
		s.guessLists.draws = append(s.guessLists.draws, chance, chanceHigh, inverse, inverseHigh,
			of.places[i], int32(p.Kept), b.from, b.guessed)
		t.rows = append(t.rows, b)
	}
}

// compete lets rows of the last Step compete for so many places in the next one.
func (s *Stepper) compete(t *turn, first, end, width int, of answers) {
	l := &s.guessLists
	for i := first; i < end; i++ {
		l.places, l.states = append(l.places, of.places[i]), append(l.states, s.beginning(&s.rows[i]).from)
		l.ranks = append(l.ranks, int32(math.Float32bits(s.foresight.Ranks[i])))
	}
	guess := l.firstGuesses[len(l.firstGuesses)-1]
	for range width {
		b := s.beginning(&s.rows[first]) // all of a beam have as many tokens
		b.guessed = guess
		t.rows = append(t.rows, b)
		guess++
	}
	l.firstRows, l.firstGuesses = append(l.firstRows, int32(len(l.places))), append(l.firstGuesses, guess)
}

// askForGuesses lets the device make the guesses of a turn: those of beams alone, whose choices are the turns', as a graph.
func (s *Stepper) askForGuesses(t *turn, of answers, guesses int) error {
	l := &s.guessLists
	if of.own && len(l.draws) == 0 {
		g := guessing{padded(max(len(l.places), guesses)), of.count, math.Float32bits(s.foresight.Weight)}
		s.listWays(t, g.rows)
		if err := s.replay(t, shape{guessing: g}); err != nil {
			return err
		}
		return s.stream.Record(t.told)
	}
	places, err := s.guessFeed.put(s.w.device.context, s.stream, l.draws, l.places, l.ranks, l.states, l.firstRows, l.firstGuesses)
	if err != nil {
		return err
	}
	k := s.w.device.kernels
	b := gpukernels.Beams{Choices: of.choices, Places: places[1], Ranks: places[2], States: places[3], Count: of.count,
		Weight: s.foresight.Weight, FirstRows: places[4], FirstGuesses: places[5], Sentences: len(l.firstRows) - 1, Guesses: s.guessesOf(t)}
	if err := k.GuessBeams(s.stream, b); err != nil {
		return err
	}
	if err := k.DrawTokens(s.stream, b.Choices, places[0], b.Guesses, len(l.draws)/numbersOfDraw, b.Weight); err != nil {
		return err
	}
	if err := cuda.CopyOut(s.stream, t.guessed[:guesses], b.Guesses); err != nil {
		return err
	}
	return s.stream.Record(t.told)
}

// A guessing is how a graph guesses for beams, of as many sentences as rows at most. It guesses nothing in the zero value.
type guessing struct {
	rows, count int
	weight      uint32 // bits of a float32
}

// numbersOfWays is how many numbers a turn has for guesses of so many rows: three lists of rows, and two of sentences with an end.
func numbersOfWays(rows int) int { return 3*rows + 2*(rows+1) }

// listWays fills in the lists that beams are guessed from, for so many rows and sentences. Those behind the last sentence have neither rows nor
// guesses. Whoever had the turn before has read the guesses, and so the device has read these lists.
func (s *Stepper) listWays(t *turn, rows int) {
	l, to := &s.guessLists, t.ways.host
	for i, list := range [][]int32{l.places, l.ranks, l.states} {
		copy(to[i*rows:], list)
	}
	for i, list := range [][]int32{l.firstRows, l.firstGuesses} {
		firsts := to[3*rows+i*(rows+1):][:rows+1]
		for n := copy(firsts, list); n <= rows; n++ {
			firsts[n] = list[len(list)-1]
		}
	}
}

// guessBeams puts the guesses of a turn into the stream.
func (s *Stepper) guessBeams(t *turn, g guessing) error {
	if err := cuda.CopyIn(s.stream, t.ways.device.at, t.ways.host[:numbersOfWays(g.rows)]); err != nil {
		return err
	}
	at := func(i int) cuda.Pointer { return cuda.Offset[int32](t.ways.device.at, i) }
	b := gpukernels.Beams{Choices: s.turnChoices.at, Places: at(0), Ranks: at(g.rows), States: at(2 * g.rows), Count: g.count,
		Weight: math.Float32frombits(g.weight), FirstRows: at(3 * g.rows), FirstGuesses: at(4*g.rows + 1), Sentences: g.rows, Guesses: s.guessesOf(t)}
	if err := s.w.device.kernels.GuessBeams(s.stream, b); err != nil {
		return err
	}
	return cuda.CopyOut(s.stream, t.guessed[:g.rows], b.Guesses)
}

const numbersOfDraw = 8 // of 32 bits

// guessesOf is where the guesses of a turn are.
func (s *Stepper) guessesOf(t *turn) cuda.Pointer {
	return cuda.Offset[gpukernels.Guess](s.turnGuesses.at, t.number*s.turnSize)
}
