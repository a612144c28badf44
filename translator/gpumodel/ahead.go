package gpumodel

import (
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Who asks for the best tokens, and has told what is going to be made of them (Foresee), lets the next step begin before they are read. Its
// rows take their tokens from where the output layer put them on the device (guess.go). So while the processor looks at the tokens of one
// step, the device works on the next.
//
// The step ahead is a guess. A hypothesis that ended goes on for one step in vain; one that goes on otherwise, or is suddenly asked about
// its attention, does that step again, which is possible since the step ahead has spoilt nothing: no step overwrites a state, or a list of
// words, that any slot has. It writes what comes after into another place; and since a state stays what it is, the place tells whose
// hypothesis a row went on from.
//
// The choices of the step ahead are asked for at once, too, unless tokens were forbidden in the last one: then they are in the next, and
// which is known when the processor has read this one's choices. Meanwhile the device has the step itself to do.
//
// What a step leaves for those who ask later lies in a turn, which the next steps leave alone.

// A turn is a step of some rows that the device may still be working on.
type turn struct {
	feed   feed         // the lists of the step, and behind them those of the output layer
	ways   feed         // the lists that beams are guessed from
	x      cuda.Pointer // what the output layer multiplies, a row of fp16 for each row
	number int          // of the turn

	rows      []beginning
	aligned   bool      // attention is copied to furthest places for each row
	attention []float32 // of aligned steps
	furthest  int
	looked    *cuda.Event // when attention has been written
	wish                  // what the output layer has been asked for that is still worth something
	chosen    []gpukernels.Choice
	done      *cuda.Event // when chosen has been written
	guessed   []gpukernels.Guess
	told      *cuda.Event // when guessed has been written
}

// turns are enough: the last step may be in two of them, rows that were run ahead and others, while the next is run ahead in the third.
const turns = 3

// A row is a row of the last Step: where the device has it.
type row struct {
	slot    search.Slot
	context search.Context
	turn    *turn
	place   int // in the turn
	reads   int // token of the source that hard attention is at
	banned  []search.Token
}

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
		if t.looked, err = c.Event(); err != nil {
			return err
		}
		if err := s.openLists(t, rows); err != nil {
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
	return freeHost(c, was)
}

// freeHost frees what AllocHost returned, if it is anything.
func freeHost[T any](c *cuda.Context, was []T) error {
	if was == nil {
		return nil
	}
	return cuda.FreeHost(c, was)
}

// close frees what a turn has, once the device is done with it.
func (t *turn) close(c *cuda.Context) []error {
	failed := []error{t.feed.close(c), t.ways.close(c), c.Free(t.feed.device.at), c.Free(t.ways.device.at)}
	for _, e := range []*cuda.Event{t.done, t.told, t.looked} {
		if e != nil {
			failed = append(failed, e.Synchronize(), e.Close())
		}
	}
	failed = append(failed, t.freeChosen(c), freeHost(c, t.guessed), freeHost(c, t.attention))
	*t = turn{}
	return failed
}

// takeTurn returns a turn for other rows: one that has none of the last Step.
func (s *Stepper) takeTurn() (*turn, error) {
	t := &s.turns[0]
	for slices.ContainsFunc(s.rows, func(r row) bool { return r.turn == t }) {
		t = &s.turns[t.number+1]
	}
	t.rows, t.wish = t.rows[:0], wish{}
	return t, s.wait(t.done.Synchronize) // it is, unless a step ahead was in vain
}

// follow makes a row that was run ahead, if one goes on from the slot's state with this token, the next step of the slot.
func (s *Stepper) follow(r *row, token search.Token) bool {
	at := &s.slots[r.slot]
	if s.ahead == nil || at.state == noState || s.aligned && !s.ahead.aligned {
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

// Foresee says what the search is going to make of the next answers. Where there are none to wait for, the next step begins at once.
func (s *Stepper) Foresee(f search.Foresight) {
	s.foresight.Weight = f.Weight
	s.foresight.Prospects = append(s.foresight.Prospects[:0], f.Prospects...)
	s.foresight.Ranks = append(s.foresight.Ranks[:0], f.Ranks...)
	s.foresight.Chances = append(s.foresight.Chances[:0], f.Chances...)
	asked := slices.ContainsFunc(f.Prospects, func(p search.Prospect) bool { return p.Given == search.NoToken })
	if !asked && s.foresees() {
		s.do(s.goOnAsGiven)
	}
}

// goOnAsGiven runs the next step ahead, of which all tokens are given.
func (s *Stepper) goOnAsGiven() error {
	s.forgetAhead()
	next, err := s.runAhead(answers{}, wish{})
	if err != nil || next == nil {
		return err
	}
	return s.readAhead(next, 0)
}

// foresees says whether the search has told how all rows of the last Step go on.
func (s *Stepper) foresees() bool {
	rows, draws, next := 0, 0, 0
	for _, p := range s.foresight.Prospects {
		rows, next = rows+p.Rows, next+nextRows(p)
		if p.Kept > 0 {
			draws += p.Rows
		}
	}
	return !s.waits && rows == len(s.rows) && len(s.foresight.Ranks) == rows && len(s.foresight.Chances) == draws && next <= len(s.slots)
}

// chooseAhead puts the choices of all rows of the last Step into s.chosen, and runs the next one ahead. Of these rows the lists say which
// tokens are forbidden, if any are.
func (s *Stepper) chooseAhead(rows []int32, banned [][]search.Token, want wish) error {
	s.forgetAhead()
	if err := s.reserveChoices(want.count); err != nil {
		return err
	}
	s.forbid(rows, banned)
	for i := range s.rows {
		if t := s.rows[i].turn; t.count < want.count || t.normalised != want.normalised {
			if err := s.askForChoices(t, want, banned != nil); err != nil {
				return err
			}
		}
	}
	count, behind := want.count, want
	if banned != nil {
		behind = wish{}
	}
	next, err := s.runAhead(s.ownAnswers(count), behind)
	if err != nil {
		return err
	}
	for i, r := range s.rows {
		if i == 0 || r.turn != s.rows[i-1].turn {
			if err := s.wait(r.turn.done.Synchronize); err != nil {
				return err
			}
		}
		copy(s.chosen[i*count:(i+1)*count], r.turn.chosen[r.place*r.turn.count:])
	}
	if banned != nil {
		s.forgetChoices()
	}
	if next == nil {
		return nil
	}
	return s.readAhead(next, count)
}

// forbid notes which tokens are forbidden in which rows of the last Step. Where some are, choices that were asked for before that was known
// are worth nothing.
func (s *Stepper) forbid(rows []int32, banned [][]search.Token) {
	for i, list := range banned {
		r := &s.rows[rows[i]]
		if r.banned = list; len(list) > 0 {
			r.turn.count = 0
		}
	}
}

// forgetChoices lets nobody who asks again have choices without what is forbidden now.
func (s *Stepper) forgetChoices() {
	for i := range s.rows {
		s.rows[i].turn.count, s.rows[i].banned = 0, nil
	}
}

// bannedIn lists what is forbidden in the rows of a turn, by their places.
func (s *Stepper) bannedIn(t *turn) [][]search.Token {
	s.banned = append(s.banned[:0], make([][]search.Token, len(t.rows))...)
	for i := range s.rows {
		if r := &s.rows[i]; r.turn == t {
			s.banned[r.place] = r.banned
		}
	}
	return s.banned
}

// choicePlace is where the first choice of a row is among those of all turns.
func (s *Stepper) choicePlace(r *row) int32 {
	return int32(r.turn.number*s.turnSize*s.mostChoices + r.place*r.turn.count)
}

// askForChoices lets the output layer choose for all rows of a turn, in which tokens may be forbidden.
func (s *Stepper) askForChoices(t *turn, want wish, forbidding bool) error {
	var banned [][]search.Token
	if forbidding {
		banned = s.bannedIn(t)
	}
	rows := padded(len(t.rows))
	c, err := s.prepareChoices(t, rows, want, banned)
	if err != nil {
		return err
	}
	return s.launchChoices(t, rows, c)
}

// turnMatrix is some rows of a turn as the output layer multiplies them.
func (s *Stepper) turnMatrix(t *turn, first, rows int) gpukernels.Matrix {
	return gpukernels.Matrix{At: cuda.Offset[gpukernels.Half](t.x, first*s.w.dim), Rows: rows, Columns: s.w.dim}
}

// answers are what rows of the last Step have chosen, on the device.
type answers struct {
	choices cuda.Pointer
	places  []int32 // of each row's first choice
	count   int     // of each row
	own     bool    // they are those of the turns, which steps can read
}

// ownAnswers are the choices in the turns of the rows of the last Step.
func (s *Stepper) ownAnswers(count int) answers {
	s.answered = s.answered[:0]
	for i := range s.rows {
		s.answered = append(s.answered, s.choicePlace(&s.rows[i]))
	}
	return answers{s.turnChoices.at, s.answered, count, true}
}

// runAhead asks for the next step of the rows of the last Step, which have these answers, and for choices behind it. There is none if everything ends
// with this one.
func (s *Stepper) runAhead(of answers, behind wish) (*turn, error) {
	t, err := s.takeTurn()
	if err != nil {
		return nil, err
	}
	if err := s.guess(t, of); err != nil {
		return nil, err
	}
	if len(t.rows) == 0 {
		return nil, nil
	}
	rows := padded(len(t.rows))
	if err := s.prepareStep(t, rows); err != nil {
		return nil, err
	}
	c, err := s.prepareChoices(t, rows, behind, nil)
	if err != nil {
		return nil, err
	}
	if err := s.launch(t, rows, c); err != nil {
		return nil, err
	}
	s.newest = t
	return t, nil
}

// readAhead notes what the rows of the step ahead went on with, so that slots can follow. Each row of the last Step has so many choices.
func (s *Stepper) readAhead(t *turn, count int) error {
	if err := s.wait(t.told.Synchronize); err != nil {
		return err
	}
	for i := range t.rows {
		b := &t.rows[i]
		if b.guessed >= 0 {
			guess := t.guessed[b.guessed]
			b.from, b.token = guess.State, guess.Token
		} else if b.choice >= 0 {
			if choice := s.chosen[b.chooser*count]; choice.Score > float32(math.Inf(-1)) {
				b.token = choice.Token
			}
		}
		b.other, s.firstAhead[b.from] = s.firstAhead[b.from], int32(i)
	}
	s.ahead = t
	return nil
}
