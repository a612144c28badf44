package gpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Greedy search knows what comes next: each row goes on with the token that it chose. So whoever asks for the best tokens of all rows lets
// the next step begin before they are read: it takes them from where the output layer put them on the device, and while the processor
// looks at the tokens of one step, the device works on the next.
//
// The step ahead is a guess. A sentence that ended goes on for one step in vain; one that goes on otherwise, or is asked about its
// attention, does that step again, which is possible since the step ahead has spoilt nothing: it wrote the states of recurrent units into
// the other one of two places that each slot has, and, with self-attention, the word's keys and values into a row of their own, whose
// number stands where the repeated step puts another.
//
// What a step leaves for those who ask later lies in a turn, which the next steps leave alone.

// A turn is a step of some rows that the device may still be working on.
type turn struct {
	feed   feed         // the lists of the step
	tokens feed         // the lists of the output layer
	x      cuda.Pointer // what the output layer multiplies, a row of fp16 for each row
	number int          // of the turn
	first  int          // place of the turn's choices among those of all turns

	slots    []search.Slot
	contexts []search.Context // of the slots
	asked    bool             // the output layer has been asked for the choices
	chosen   []gpukernels.Choice
	done     *cuda.Event // when chosen has been written
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

// ahead says that a slot's next step has been asked for already.
type ahead struct {
	turn  *turn // nil if not
	place int   // in the turn
	token search.Token
	word  int32 // row of the token's keys and values, with self-attention
}

// openTurns makes what turns have on the device.
func (s *Stepper) openTurns(rows int) error {
	c := s.w.device.context
	if err := s.turnRows.reserve(c, 2*turns*rows*s.w.dim); err != nil {
		return err
	}
	if err := s.turnChoices.reserve(c, 8*turns*rows); err != nil {
		return err
	}
	for i := range s.turns {
		t := &s.turns[i]
		t.number, t.first, t.x = i, i*rows, cuda.Offset[gpukernels.Half](s.turnRows.at, i*rows*s.w.dim)
		var err error
		if t.chosen, err = cuda.AllocHost[gpukernels.Choice](c, rows); err != nil {
			return err
		}
		if t.done, err = c.Event(); err != nil {
			return err
		}
		if err := t.feed.reserve(c, s.w.numbersOfRow()*rows); err != nil {
			return err
		}
	}
	return nil
}

// close frees what a turn has, once the device is done with it.
func (t *turn) close(c *cuda.Context) []error {
	failed := []error{t.feed.close(c), t.tokens.close(c), c.Free(t.feed.device.at), c.Free(t.tokens.device.at)}
	if t.done != nil {
		failed = append(failed, t.done.Synchronize(), t.done.Close())
	}
	if t.chosen != nil {
		failed = append(failed, cuda.FreeHost(c, t.chosen))
	}
	*t = turn{}
	return failed
}

// takeTurn returns a turn for other rows: one that has none of the last Step. Slots whose next step was in it have to do that again.
func (s *Stepper) takeTurn() (*turn, error) {
	t := &s.turns[0]
	for slices.ContainsFunc(s.rows, func(r row) bool { return r.turn == t }) {
		t = &s.turns[t.number+1]
	}
	for _, slot := range t.slots {
		if s.slots[slot].ahead.turn == t {
			s.fallBack(slot)
		}
	}
	t.slots, t.contexts, t.asked = t.slots[:0], t.contexts[:0], false
	return t, t.done.Synchronize() // it is, unless a step ahead was in vain
}

// fallBack forgets the slot's next step.
func (s *Stepper) fallBack(number search.Slot) {
	at := &s.slots[number]
	if at.ahead.turn != nil && s.keepsWords() {
		s.words.give(at.ahead.word)
	}
	at.ahead = ahead{}
}

// follow makes the slot's next step, if it has been run with this token, the step of a row.
func (s *Stepper) follow(r *row, token search.Token) bool {
	at := &s.slots[r.slot]
	next := at.ahead
	if next.turn == nil || next.turn != s.newest || next.token != token {
		return false
	}
	at.ahead = ahead{}
	at.place = 1 - at.place
	if s.keepsWords() {
		at.words = append(at.words, next.word)
	}
	r.turn, r.place = next.turn, next.place
	return true
}

// bestOfAll answers Best for all rows of the last Step, and runs the next one ahead.
func (s *Stepper) bestOfAll() error {
	for _, r := range s.rows {
		if !r.turn.asked {
			if err := s.askForChoices(r.turn); err != nil {
				return err
			}
		}
	}
	next, err := s.runAhead()
	if err != nil {
		return err
	}
	for i, r := range s.rows {
		if err := r.turn.done.Synchronize(); err != nil {
			return err
		}
		choice := r.turn.chosen[r.place]
		s.chosen[i] = choice
		at := &s.slots[r.slot]
		if at.ahead = (ahead{turn: next, place: i, token: choice.Token, word: s.aheadWords[i]}); choice.Score != choice.Score {
			s.fallBack(r.slot) // what it went on with is no token
		}
	}
	return nil
}

// askForChoices lets the output layer choose for all rows of a turn.
func (s *Stepper) askForChoices(t *turn) error {
	columns := s.columns(t.contexts, false)
	places, err := s.feedTokens(&t.tokens, t.contexts, nil, columns)
	if err != nil {
		return err
	}
	o, err := s.output(len(t.slots), places, columns, 1, false)
	if err != nil {
		return err
	}
	o.X, o.Result = s.turnMatrix(t, 0, len(t.slots)), cuda.Offset[gpukernels.Choice](s.turnChoices.at, t.first)
	if err := s.outputTime.around(s.stream, func() error { return s.w.device.kernels.Output(s.stream, o) }); err != nil {
		return err
	}
	if err := cuda.CopyOut(s.stream, t.chosen[:len(t.slots)], o.Result); err != nil {
		return err
	}
	t.asked = true
	return s.stream.Record(t.done)
}

// turnMatrix is some rows of a turn as the output layer multiplies them.
func (s *Stepper) turnMatrix(t *turn, first, rows int) gpukernels.Matrix {
	return gpukernels.Matrix{At: cuda.Offset[gpukernels.Half](t.x, first*s.w.dim), Rows: rows, Columns: s.w.dim}
}

// runAhead asks for the next step of the rows of the last Step, with the tokens that they choose, and for its choices.
func (s *Stepper) runAhead() (*turn, error) {
	t, err := s.takeTurn()
	if err != nil {
		return nil, err
	}
	for _, r := range s.rows {
		t.slots, t.contexts = append(t.slots, r.slot), append(t.contexts, r.context)
	}
	if err := s.prepareStep(t.slots); err != nil {
		return nil, err
	}
	s.aheadWords = s.aheadWords[:0]
	for range t.slots {
		s.aheadWords = append(s.aheadWords, s.newWord())
	}
	rows := padded(len(t.slots))
	if err := s.feedStep(t, rows, func(i int) origin {
		r := s.rows[i]
		return origin{token: search.NoToken, choice: int32(r.turn.first + r.place), word: s.aheadWords[i]}
	}); err != nil {
		return nil, err
	}
	if err := s.launch(t, rows); err != nil {
		return nil, err
	}
	s.newest = t
	return t, s.askForChoices(t)
}
