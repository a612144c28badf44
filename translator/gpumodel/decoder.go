package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/search"
)

// Step advances slots[i] by token tokens[i], for all i. Those whose step was run ahead have it already.
func (s *Stepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	s.rows, s.demanded, s.aligned = s.rows[:0], s.demanded[:0], align
	for i, number := range slots {
		r := row{slot: number, context: s.slots[number].context}
		if align || !s.follow(&r, tokens[i]) {
			s.fallBack(number)
			s.demanded = append(s.demanded, i)
		}
		s.rows = append(s.rows, r)
	}
	if len(s.demanded) > 0 {
		s.do(func() error { return s.step(tokens) })
	}
	for _, number := range slots {
		s.slots[number].position++
	}
}

// stepLists are the lists of numbers that a step needs, on the device: one number for each row.
type stepLists struct {
	tokens, from, to, positions, words, choices cuda.Pointer

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
const firstOfSources = 6

// numbersOfRow is how many lists there are.
func (w *Weights) numbersOfRow() int { return firstOfSources + 2*len(w.encoders) }

// An origin is where a row's token comes from: it is given, or that of a choice if that is not -1. word is the row for its keys and values.
type origin struct {
	token        search.Token
	choice, word int32
}

// feedStep fills in the lists of a turn for a number of rows, of which those behind the last slot belong to nobody: each has a state of
// its own that no hypothesis has.
func (s *Stepper) feedStep(t *turn, rows int, of func(i int) origin) error {
	if err := t.feed.read.Synchronize(); err != nil {
		return err
	}
	list := func(i int) []int32 { return t.feed.host[i*rows : (i+1)*rows] }
	tokens, from, to, positions, words, choices := list(0), list(1), list(2), list(3), list(4), list(5)
	s.longest, s.starting = 0, false
	for i, number := range t.slots {
		at := &s.slots[number]
		o := of(i)
		tokens[i], choices[i], words[i] = o.token, o.choice, o.word
		from[i], to[i], positions[i] = s.state(number), s.nextState(number), int32(at.position)
		s.starting = s.starting || at.position == 0 && s.w.normedWords()
		for source, memory := range s.contexts[at.context].memory {
			list(firstOfSources + 2*source)[i], list(firstOfSources + 2*source + 1)[i] = int32(memory.first), int32(memory.count)
			if source == 0 {
				s.longest = max(s.longest, memory.count)
			}
		}
	}
	for i := len(t.slots); i < rows; i++ {
		spare := int32(i - len(t.slots))
		state := int32(s.statePlaces()) + spare
		tokens[i], choices[i], words[i], from[i], to[i] = search.NoToken, -1, spare, state, state
		positions[i] = 0
		for j := firstOfSources; j < s.w.numbersOfRow(); j++ {
			list(j)[i] = 0
		}
	}
	return nil
}

// stepLists says where the lists of a step with that many rows are.
func (t *turn) stepLists(rows int) stepLists {
	at := func(i int) cuda.Pointer { return cuda.Offset[int32](t.feed.device.at, i*rows) }
	return stepLists{at(0), at(1), at(2), at(3), at(4), at(5), at(firstOfSources), rows}
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
		t.slots, t.contexts = append(t.slots, r.slot), append(t.contexts, r.context)
	}
	if err := s.prepareStep(t.slots); err != nil {
		return err
	}
	rows := len(t.slots)
	if !s.aligned {
		rows = padded(rows)
	}
	if err := s.feedStep(t, rows, func(i int) origin {
		o := origin{tokens[s.demanded[i]], -1, s.newWord()}
		if at := &s.slots[t.slots[i]]; s.keepsWords() {
			at.words = append(at.words, o.word)
		}
		return o
	}); err != nil {
		return err
	}
	for _, number := range t.slots {
		s.slots[number].place = 1 - s.slots[number].place
	}
	if s.aligned {
		if err := s.room(&s.attention, 4*rows*max(s.longest, 1)); err != nil {
			return err
		}
	}
	return s.launch(t, rows)
}

// launch asks for the step of a turn whose lists are filled in.
func (s *Stepper) launch(t *turn, rows int) error {
	if err := s.stepTime.around(s.stream, func() error {
		if s.aligned {
			return s.run(t, rows)
		}
		return s.replay(t, rows)
	}); err != nil {
		return err
	}
	return s.stream.Record(t.feed.read)
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

// prepareStep does what a captured step cannot do: it makes room, and waits for the encoder.
func (s *Stepper) prepareStep(slots []search.Slot) error {
	last := 0
	for _, number := range slots {
		last = max(last, s.slots[number].position)
	}
	if err := s.reserveSignal(last + 1); err != nil {
		return err
	}
	if s.keepsWords() {
		if err := s.reserveWords(len(slots), last+1); err != nil {
			return err
		}
	}
	if s.awaited {
		return nil
	}
	s.awaited = true
	return s.stream.Wait(s.encoded)
}

// run puts the work of a step into the stream.
func (s *Stepper) run(t *turn, rows int) error {
	a, lists := &s.rowsOf, t.stepLists(rows)
	a.rows, a.x = rows, t.x
	if err := cuda.CopyIn(s.stream, t.feed.device.at, t.feed.host[:s.w.numbersOfRow()*rows]); err != nil {
		return err
	}
	if err := s.w.device.kernels.TakeTokens(s.stream, lists.tokens, s.turnChoices.at, lists.choices, rows); err != nil {
		return err
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
	lookup := gpukernels.Lookup{Queries: a.wide, Result: a.attended, Keys: keys, Values: cuda.Offset[gpukernels.Half](keys, s.w.dim),
		Starts: lists.starts(source), Lengths: lists.lengths(source), Stride: s.w.contextWidth(), Rows: a.rows, Heads: s.w.heads, HeadDim: s.w.dim / s.w.heads}
	if align {
		if err := s.w.device.kernels.LookupWeights(s.stream, lookup, s.attention.at, s.longest); err != nil {
			return err
		}
	}
	if err := s.w.device.kernels.Lookup(s.stream, lookup); err != nil {
		return err
	}
	return s.after(a, l.post, a.attended, l.o)
}

// Attention returns the weights of row's attention over the tokens of the first source; nil if the last Step was not asked to align, or
// the model has no encoder.
func (s *Stepper) Attention(number int32) []float32 {
	memory := s.contexts[s.rows[number].context].memory
	if !s.aligned || len(memory) == 0 || memory[0].count == 0 {
		return nil
	}
	length := memory[0].count
	weights := make([]float32, length)
	s.do(func() error {
		return cuda.CopyOut(s.stream, weights, cuda.Offset[float32](s.attention.at, s.rows[number].place*s.longest))
	})
	return weights
}
