package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Step advances slots[i] by token tokens[i], for all i. Those whose step was run ahead have it already.
func (s *Stepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	s.rows, s.demanded, s.aligned = s.rows[:0], s.demanded[:0], align
	s.scored.first, s.scored.end = 0, 0
	s.foresight.Prospects = s.foresight.Prospects[:0]
	for i, number := range slots {
		s.moveAttention(number, tokens[i])
		r := row{slot: number, context: s.slots[number].context, reads: s.slots[number].reads}
		if !s.follow(&r, tokens[i]) {
			s.demanded = append(s.demanded, i)
		}
		s.rows = append(s.rows, r)
	}
	s.forgetAhead()
	if len(s.demanded) > 0 {
		s.do(func() error { return s.step(tokens) })
	}
	for _, number := range slots {
		s.slots[number].position++
	}
}

// stepLists are the lists of numbers that a step needs, on the device: one number for each row.
type stepLists struct {
	tokens, from, to, positions, words, choices, guessed, contexts cuda.Pointer

	sources cuda.Pointer // for each source a list of where its keys and values begin, and one of how many there are
	rows    int
}

// starts and lengths are the lists of a source.
func (l *stepLists) starts(source int) cuda.Pointer {
	return cuda.Offset[int32](l.sources, 2*source*l.rows)
}

func (l *stepLists) lengths(source int) cuda.Pointer {
	return cuda.Offset[int32](l.sources, (2*source+1)*l.rows)
}

// firstOfSources is how many lists stand before those of the sources.
const firstOfSources = 8

// numbersOfRow is how many lists there are.
func (w *Weights) numbersOfRow() int { return firstOfSources + 2*len(w.encoders) }

// A beginning is what a row of a turn begins its step with. A row that is run ahead has token and from of a choice or of a guess; they are
// known when the processor has read those.
type beginning struct {
	context         search.Context
	position        int
	token           search.Token
	choice, guessed int32 // the place of the one, the number of the other in the turn, or -1
	chooser         int   // row of the last Step whose choice it is
	from, to        int32 // states before and after the step
	word            int32 // row for the token's keys and values, with self-attention
	taken           bool  // the step is that of a slot
	other           int32 // row of the turn with the same from, or -1
}

// beginning is what a row begins its step with if nothing else is known.
func (s *Stepper) beginning(r *row) beginning {
	at := &s.slots[r.slot]
	b := beginning{context: r.context, position: at.position, token: search.NoToken, choice: -1, guessed: -1, from: at.state}
	if at.state == noState { // nobody reads it
		b.from = int32(s.statePlaces())
	}
	return b
}

// feedStep fills in the lists of a turn for a number of rows, of which those behind the last one of the turn belong to nobody: each has a
// state of its own that no hypothesis has.
func (s *Stepper) feedStep(t *turn, rows int) error {
	if err := s.wait(t.feed.read.Synchronize); err != nil {
		return err
	}
	list := func(i int) []int32 { return t.feed.host[i*rows : (i+1)*rows] }
	tokens, from, to, positions, words, choices, guessed, contexts := list(0), list(1), list(2), list(3), list(4), list(5), list(6), list(7)
	s.starting = false
	for i := range t.rows {
		b := &t.rows[i]
		tokens[i], choices[i], guessed[i], words[i] = b.token, b.choice, guessPlace(b, t.number*s.turnSize), b.word
		from[i], to[i], positions[i] = b.from, b.to, int32(b.position)
		contexts[i] = startOf(b.context)
		s.starting = s.starting || b.position == 0 && s.w.normedWords()
		for source, memory := range s.contexts[b.context].memory {
			list(firstOfSources + 2*source)[i], list(firstOfSources + 2*source + 1)[i] = int32(memory.first), int32(memory.count)
		}
	}
	for i := len(t.rows); i < rows; i++ {
		spare := int32(i - len(t.rows))
		state := int32(s.statePlaces()) + spare
		tokens[i], choices[i], guessed[i], words[i], from[i], to[i] = search.NoToken, -1, -1, spare, state, state
		positions[i], contexts[i] = 0, 0
		for j := firstOfSources; j < s.w.numbersOfRow(); j++ {
			list(j)[i] = 0
		}
	}
	return nil
}

// guessPlace is where a row's guess is, among those of all turns, or -1. Those of its own turn begin with the first one.
func guessPlace(b *beginning, first int) int32 {
	if b.guessed < 0 {
		return -1
	}
	return int32(first) + b.guessed
}

// stepLists says where the lists of a step with that many rows are.
func (t *turn) stepLists(rows int) stepLists {
	at := func(i int) cuda.Pointer { return cuda.Offset[int32](t.feed.device.at, i*rows) }
	return stepLists{at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(firstOfSources), rows}
}

// step runs the step of the rows that were not run ahead.
func (s *Stepper) step(tokens []search.Token) error {
	t, err := s.takeTurn()
	if err != nil {
		return err
	}
	for place, i := range s.demanded {
		r := &s.rows[i]
		r.turn, r.place = t, place
		b := s.beginning(r)
		b.token = tokens[i]
		t.rows = append(t.rows, b)
	}
	rows := padded(len(t.rows))
	if err := s.prepareStep(t, rows); err != nil {
		return err
	}
	for place, i := range s.demanded {
		s.moveOn(&s.slots[s.rows[i].slot], &t.rows[place])
	}
	return s.launch(t, rows, choosing{})
}

// moveOn makes the state after a row's step that of a slot.
func (s *Stepper) moveOn(at *slot, b *beginning) {
	s.giveState(at)
	at.state = b.to
	if s.keepsWords() {
		at.words = append(at.words, b.word)
	}
}

// launch asks for the step of a turn whose lists are filled in, for the choices behind it, and for the attention in it if the last Step was asked to
// align. While times are measured, the choices are a graph of their own.
func (s *Stepper) launch(t *turn, rows int, c choosing) error {
	of := shape{rows: rows, step: true, starting: s.starting, aligned: s.aligned}
	if !s.measures {
		of.choosing = c
	}
	if err := s.stepTime.Around(s.stream, func() error { return s.replay(t, of) }); err != nil {
		return err
	}
	if err := s.keepAttention(t); err != nil {
		return err
	}
	s.last = t
	switch {
	case c.count == 0:
		return s.stream.Record(t.feed.read)
	case s.measures:
		return s.launchChoices(t, rows, c)
	}
	return s.noteChoices(t, c)
}

// launchChoices asks for choices behind a step that has been asked for.
func (s *Stepper) launchChoices(t *turn, rows int, c choosing) error {
	if err := s.outputTime.Around(s.stream, func() error { return s.replay(t, shape{rows: rows, choosing: c}) }); err != nil {
		return err
	}
	return s.noteChoices(t, c)
}

// noteChoices notes what the output layer was asked for last: when it is done, the device has read the lists of the turn.
func (s *Stepper) noteChoices(t *turn, c choosing) error {
	t.wish = c.wish
	return s.stream.Record(t.done)
}

// room makes a buffer of the decoder larger, once nothing uses it any more.
func (s *Stepper) room(b *buffer, bytes int) error {
	if bytes > b.bytes {
		if err := s.stream.Synchronize(); err != nil {
			return err
		}
	}
	return b.reserve(s.w.device.context, bytes)
}

// prepareStep does what a captured step cannot do: it makes room, takes places for what the rows of a turn write, fills in the lists, and waits
// for the encodes that the rows came from.
func (s *Stepper) prepareStep(t *turn, rows int) error {
	last := 0
	for i := range t.rows {
		last = max(last, t.rows[i].position)
	}
	if err := s.reserveSignal(last + 1); err != nil {
		return err
	}
	if s.keepsWords() {
		if err := s.reserveWords(len(t.rows), last+1); err != nil {
			return err
		}
	}
	for i := range t.rows {
		t.rows[i].to, t.rows[i].word = s.places.take(), s.newWord()
	}
	if err := s.feedStep(t, rows); err != nil {
		return err
	}
	if s.w.network != nil || s.aligned {
		if err := s.reserveWeights(t); err != nil {
			return err
		}
	}
	return s.awaitEncodes(t)
}

// run puts the work of a step into the stream, behind the copy of its lists.
func (s *Stepper) run(t *turn, rows int) error {
	a, lists := &s.rowsOf, t.stepLists(rows)
	a.rows, a.x = rows, t.x
	beginnings := gpukernels.Beginnings{Tokens: lists.tokens, From: lists.from, Choices: s.turnChoices.at, Places: lists.choices,
		Guesses: s.turnGuesses.at, Guessed: lists.guessed, To: lists.to, Positions: lists.positions}
	if s.keepsWords() {
		beginnings.Words, beginnings.Capacity = s.states.at, s.words.capacity
	}
	if err := s.w.device.kernels.BeginRows(s.stream, beginnings, rows); err != nil {
		return err
	}
	if s.w.network != nil {
		return s.decode(a, lists)
	}
	if err := s.embed(a, s.w.emb, s.w.top, s.w.target, lists.tokens, lists.positions); err != nil {
		return err
	}
	for i, l := range s.w.decoder {
		if err := s.autoregress(a, l, lists, i); err != nil {
			return err
		}
		for source := range l.contexts {
			if err := s.lookUp(a, &l.contexts[source], lists, source, s.aligned && source == 0 && i == s.w.alignment); err != nil {
				return err
			}
		}
		if err := s.feedForward(a, &l.ffn); err != nil {
			return err
		}
	}
	return s.end(a, s.w.top, a.x, a.x, a.bottom)
}

// lookUp runs the attention of a layer to a source.
func (s *Stepper) lookUp(a *activations, l *contextAttention, lists stepLists, source int, align bool) error {
	input, err := s.before(a, l.pre, a.normed, a.x)
	if err != nil {
		return err
	}
	if err := s.product(a, a.wide, input, &l.q, false); err != nil {
		return err
	}
	keys := cuda.Offset[gpukernels.Half](s.memory.memory.at, l.first)
	lookup := gpukernels.Lookup{Queries: a.wide, Result: a.attended, Keys: keys, Values: cuda.Offset[gpukernels.Half](keys, s.w.attention()),
		Starts: lists.starts(source), Lengths: lists.lengths(source), Stride: s.w.contextWidth(), Rows: a.rows, Heads: s.w.heads,
		HeadDim: s.w.head.filled, Scale: gpukernels.Scale(s.w.head.own)}
	if align {
		if err := s.w.device.kernels.LookupWeights(s.stream, lookup, s.alignments(), s.furthest); err != nil {
			return err
		}
	}
	if err := s.w.device.kernels.Lookup(s.stream, lookup); err != nil {
		return err
	}
	return s.after(a, l.post, a.attended, l.o)
}
