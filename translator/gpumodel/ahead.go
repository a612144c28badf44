package gpumodel

import (
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Who asks for the best tokens of all rows lets the next step begin before they are read. Its rows take their tokens from where the output
// layer put them on the device: greedily each row goes on with the one that it chose, and of beams, for which the search has told the ranks of
// their rows, a kernel guesses which rows go on, and with which tokens. So while the processor looks at the tokens of one step, the device
// works on the next.
//
// The step ahead is a guess. A hypothesis that ended goes on for one step in vain; one that goes on otherwise, or is asked about its
// attention, does that step again, which is possible since the step ahead has spoilt nothing: no step overwrites a state, or a list of
// words, that any slot has. It writes what comes after into another place; and since a state stays what it is, the place tells whose
// hypothesis a row went on from.
//
// What a step leaves for those who ask later lies in a turn, which the next steps leave alone.

// A turn is a step of some rows that the device may still be working on.
type turn struct {
	feed   feed         // the lists of the step
	tokens feed         // the lists of the output layer
	x      cuda.Pointer // what the output layer multiplies, a row of fp16 for each row
	number int          // of the turn

	rows       []beginning
	count      int  // choices of each row that the output layer has been asked for; 0 for none
	normalised bool // with log-probabilities
	chosen     []gpukernels.Choice
	done       *cuda.Event // when chosen has been written
	guessed    []gpukernels.Guess
	told       *cuda.Event // when guessed has been written
}

// turns are enough: the last step may be in two of them, rows that were run ahead and others, while the next is run ahead in the third.
const turns = 3

// A row is a row of the last Step: where the device has it.
type row struct {
	slot    search.Slot
	context search.Context
	turn    *turn
	place   int // in the turn
}

// beamLists are what GuessBeams needs: see gpukernels.Beams.
type beamLists struct{ places, ranks, states, firstRows, firstGuesses []int32 }

// openTurns makes what turns have on the device.
func (s *Stepper) openTurns(rows int) error {
	c := s.w.device.context
	s.turnSize = rows
	if err := s.turnRows.reserve(c, 2*turns*rows*s.w.dim); err != nil {
		return err
	}
	if err := s.turnGuesses.reserve(c, 8*turns*rows); err != nil {
		return err
	}
	for i := range s.turns {
		t := &s.turns[i]
		t.number, t.x = i, cuda.Offset[gpukernels.Half](s.turnRows.at, i*rows*s.w.dim)
		var err error
		if t.guessed, err = cuda.AllocHost[gpukernels.Guess](c, rows); err != nil {
			return err
		}
		if t.done, err = c.Event(); err != nil {
			return err
		}
		if t.told, err = c.Event(); err != nil {
			return err
		}
		if err := t.feed.reserve(c, s.w.numbersOfRow()*rows); err != nil {
			return err
		}
	}
	return s.reserveChoices(1)
}

// reserveChoices makes room for that many choices of each row. Those that there were are lost.
func (s *Stepper) reserveChoices(count int) error {
	if count <= s.mostChoices {
		return nil
	}
	c := s.w.device.context
	if err := s.room(&s.turnChoices, 8*turns*s.turnSize*count); err != nil {
		return err
	}
	for i := range s.turns {
		t := &s.turns[i]
		if err := t.freeChosen(c); err != nil {
			return err
		}
		var err error
		if t.chosen, err = cuda.AllocHost[gpukernels.Choice](c, s.turnSize*count); err != nil {
			return err
		}
	}
	s.mostChoices = count
	return nil
}

func (t *turn) freeChosen(c *cuda.Context) error {
	was := t.chosen
	t.chosen, t.count = nil, 0
	if was == nil {
		return nil
	}
	return cuda.FreeHost(c, was)
}

// close frees what a turn has, once the device is done with it.
func (t *turn) close(c *cuda.Context) []error {
	failed := []error{t.feed.close(c), t.tokens.close(c), c.Free(t.feed.device.at), c.Free(t.tokens.device.at)}
	for _, e := range []*cuda.Event{t.done, t.told} {
		if e != nil {
			failed = append(failed, e.Synchronize(), e.Close())
		}
	}
	if failed = append(failed, t.freeChosen(c)); t.guessed != nil {
		failed = append(failed, cuda.FreeHost(c, t.guessed))
	}
	*t = turn{}
	return failed
}

// takeTurn returns a turn for other rows: one that has none of the last Step.
func (s *Stepper) takeTurn() (*turn, error) {
	t := &s.turns[0]
	for slices.ContainsFunc(s.rows, func(r row) bool { return r.turn == t }) {
		t = &s.turns[t.number+1]
	}
	t.rows, t.count = t.rows[:0], 0
	return t, t.done.Synchronize() // it is, unless a step ahead was in vain
}

// follow makes a row that was run ahead, if one goes on from the slot's state with this token, the next step of the slot.
func (s *Stepper) follow(r *row, token search.Token) bool {
	at := &s.slots[r.slot]
	if s.ahead == nil || at.state == noState {
		return false
	}
	for place := s.firstAhead[at.state]; place >= 0; {
		b := &s.ahead.rows[place]
		if b.token == token && !b.taken {
			b.taken = true
			s.moveOn(at, b)
			r.turn, r.place = s.ahead, int(place)
			return true
		}
		place = b.other
	}
	return false
}

// forgetAhead gives back the places that rows of the step ahead wrote to in vain.
func (s *Stepper) forgetAhead() {
	if s.ahead == nil {
		return
	}
	for i := range s.ahead.rows {
		b := &s.ahead.rows[i]
		s.firstAhead[b.from] = -1
		if b.taken {
			continue
		}
		s.places.give(b.to)
		if s.keepsWords() {
			s.words.give(b.word)
		}
	}
	s.ahead = nil
}

// Foresee says what the search is going to make of the next answers of Top.
func (s *Stepper) Foresee(beams []search.Beam, ranks []float32, weight float32) {
	s.beams, s.ranks, s.weight = append(s.beams[:0], beams...), append(s.ranks[:0], ranks...), weight
}

// foresees says whether it is known how all rows of the last Step go on, if so many choices of each are wanted.
func (s *Stepper) foresees(count int) bool {
	if s.aligned || s.waits {
		return false
	}
	rows, guesses := 0, 0
	for _, b := range s.beams {
		rows, guesses = rows+b.Rows, guesses+b.Width
	}
	return count == 1 || rows == len(s.rows) && len(s.ranks) == rows && guesses <= len(s.slots)
}

// chooseAhead puts the choices of all rows of the last Step into s.chosen, and runs the next one ahead.
func (s *Stepper) chooseAhead(count int, normalised bool) error {
	s.forgetAhead()
	if err := s.reserveChoices(count); err != nil {
		return err
	}
	for _, r := range s.rows {
		if r.turn.count < count || r.turn.normalised != normalised {
			if err := s.askForChoices(r.turn, count, normalised); err != nil {
				return err
			}
		}
	}
	next, err := s.runAhead(count, normalised)
	if err != nil {
		return err
	}
	for i, r := range s.rows {
		if err := r.turn.done.Synchronize(); err != nil {
			return err
		}
		copy(s.chosen[i*count:(i+1)*count], r.turn.chosen[r.place*r.turn.count:])
	}
	if next == nil {
		return nil
	}
	return s.readAhead(next)
}

// choicePlace is where the first choice of a row is among those of all turns.
func (s *Stepper) choicePlace(r *row) int32 {
	return int32(r.turn.number*s.turnSize*s.mostChoices + r.place*r.turn.count)
}

// askForChoices lets the output layer choose for all rows of a turn.
func (s *Stepper) askForChoices(t *turn, count int, normalised bool) error {
	s.asked = s.asked[:0]
	for i := range t.rows {
		s.asked = append(s.asked, t.rows[i].context)
	}
	columns := s.columns(s.asked, normalised)
	places, err := s.feedTokens(&t.tokens, s.asked, nil, columns)
	if err != nil {
		return err
	}
	o, err := s.output(len(t.rows), places, columns, count, normalised)
	if err != nil {
		return err
	}
	o.X = s.turnMatrix(t, 0, len(t.rows))
	o.Result = cuda.Offset[gpukernels.Choice](s.turnChoices.at, t.number*s.turnSize*s.mostChoices)
	if err := s.outputTime.around(s.stream, func() error { return s.chooseFrom(o) }); err != nil {
		return err
	}
	if err := cuda.CopyOut(s.stream, t.chosen[:len(t.rows)*count], o.Result); err != nil {
		return err
	}
	t.count, t.normalised = count, normalised
	return s.stream.Record(t.done)
}

// turnMatrix is some rows of a turn as the output layer multiplies them.
func (s *Stepper) turnMatrix(t *turn, first, rows int) gpukernels.Matrix {
	return gpukernels.Matrix{At: cuda.Offset[gpukernels.Half](t.x, first*s.w.dim), Rows: rows, Columns: s.w.dim}
}

// runAhead asks for the next step of the rows of the last Step, with the choices that they make, and for its choices. There is none if
// everything ends with this one.
func (s *Stepper) runAhead(count int, normalised bool) (*turn, error) {
	t, err := s.takeTurn()
	if err != nil {
		return nil, err
	}
	if count == 1 {
		s.goOn(t)
	} else if err := s.guessBeams(t, count); err != nil {
		return nil, err
	}
	if len(t.rows) == 0 {
		return nil, nil
	}
	rows := padded(len(t.rows))
	if err := s.prepareStep(t, rows); err != nil {
		return nil, err
	}
	if err := s.launch(t, rows); err != nil {
		return nil, err
	}
	s.newest = t
	return t, s.askForChoices(t, count, normalised)
}

// goOn lets each row of the last Step go on with its choice.
func (s *Stepper) goOn(t *turn) {
	for i := range s.rows {
		r := &s.rows[i]
		b := s.beginning(r)
		b.choice = s.choicePlace(r)
		t.rows = append(t.rows, b)
	}
}

// guessBeams lets the device guess how beams go on.
func (s *Stepper) guessBeams(t *turn, count int) error {
	l, row, guesses := &s.beamLists, 0, 0
	*l = beamLists{l.places[:0], l.ranks[:0], l.states[:0], append(l.firstRows[:0], 0), append(l.firstGuesses[:0], 0)}
	for _, beam := range s.beams {
		rows := s.rows[row : row+beam.Rows]
		if row += beam.Rows; len(rows) == 0 || beam.Width == 0 {
			continue
		}
		for i := range rows {
			l.places, l.states = append(l.places, s.choicePlace(&rows[i])), append(l.states, s.beginning(&rows[i]).from)
			l.ranks = append(l.ranks, int32(math.Float32bits(s.ranks[row-beam.Rows+i])))
		}
		for range beam.Width {
			b := s.beginning(&rows[0]) // all of a beam have as many tokens
			b.guessed = int32(t.number*s.turnSize + guesses)
			t.rows = append(t.rows, b)
			guesses++
		}
		l.firstRows, l.firstGuesses = append(l.firstRows, int32(len(l.places))), append(l.firstGuesses, int32(guesses))
	}
	if guesses == 0 {
		return nil
	}
	places, err := s.beamFeed.put(s.w.device.context, s.stream, l.places, l.ranks, l.states, l.firstRows, l.firstGuesses)
	if err != nil {
		return err
	}
	b := gpukernels.Beams{Choices: s.turnChoices.at, Places: places[0], Ranks: places[1], States: places[2], Count: count, Weight: s.weight,
		FirstRows: places[3], FirstGuesses: places[4], Sentences: len(l.firstRows) - 1,
		Guesses: cuda.Offset[gpukernels.Guess](s.turnGuesses.at, t.number*s.turnSize)}
	if err := s.w.device.kernels.GuessBeams(s.stream, b); err != nil {
		return err
	}
	if err := cuda.CopyOut(s.stream, t.guessed[:guesses], b.Guesses); err != nil {
		return err
	}
	return s.stream.Record(t.told)
}

// readAhead notes what the rows of the step ahead went on with, so that slots can follow.
func (s *Stepper) readAhead(t *turn) error {
	if t.rows[0].guessed >= 0 {
		if err := t.told.Synchronize(); err != nil {
			return err
		}
	}
	for i := range t.rows {
		b := &t.rows[i]
		if b.guessed >= 0 {
			b.from, b.token = t.guessed[i].State, t.guessed[i].Token
		} else if choice := s.chosen[i]; choice.Score > float32(math.Inf(-1)) {
			b.token = choice.Token
		}
		b.other, s.firstAhead[b.from] = s.firstAhead[b.from], int32(i)
	}
	s.ahead = t
	return nil
}
