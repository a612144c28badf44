package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// Step advances slots[i] by token tokens[i], for all i.
func (s *Stepper) Step(slots []search.Slot, tokens []search.Token, align bool) {
	s.rows = s.rows[:0]
	for _, number := range slots {
		s.rows = append(s.rows, row{s.slots[number].context})
	}
	s.aligned = align
	if len(slots) > 0 {
		s.do(func() error { return s.step(slots, tokens) })
	}
	for _, number := range slots {
		s.slots[number].position++
	}
}

// stepLists are the lists of numbers that a step needs, on the device: one number for each row.
type stepLists struct{ tokens, slots, positions, starts, lengths, words cuda.Pointer }

// numbersOfRow is how many lists there are.
const numbersOfRow = 6

// feedStep fills in the lists of a number of rows, of which those behind the last slot belong to nobody: each has a slot of its own
// that no hypothesis has.
func (s *Stepper) feedStep(slots []search.Slot, tokens []search.Token, rows int) error {
	if err := s.feed.read.Synchronize(); err != nil {
		return err
	}
	list := func(i int) []int32 { return s.feed.host[i*rows : (i+1)*rows] }
	toTokens, toSlots, positions, starts, lengths, words := list(0), list(1), list(2), list(3), list(4), list(5)
	s.longest, s.starting = 0, false
	for i, number := range slots {
		at := &s.slots[number]
		memory := s.contexts[at.context].memory
		toTokens[i], toSlots[i], positions[i] = tokens[i], int32(number), int32(at.position)
		starts[i], lengths[i] = int32(memory.first), int32(memory.count)
		words[i] = at.lastWord()
		s.longest, s.starting = max(s.longest, memory.count), s.starting || at.position == 0 && s.w.normedWords()
	}
	for i := len(slots); i < rows; i++ {
		spare := int32(i - len(slots))
		toTokens[i], toSlots[i], positions[i], starts[i], lengths[i], words[i] = search.NoToken, int32(len(s.slots))+spare, 0, 0, 0, spare
	}
	return nil
}

// stepLists says where the lists of a step with that many rows are.
func (s *Stepper) stepLists(rows int) stepLists {
	at := func(i int) cuda.Pointer { return cuda.Offset[int32](s.feed.device.at, i*rows) }
	return stepLists{at(0), at(1), at(2), at(3), at(4), at(5)}
}

func (s *Stepper) step(slots []search.Slot, tokens []search.Token) error {
	rows := len(slots)
	if !s.aligned {
		rows = padded(rows)
	}
	if err := s.prepareStep(slots); err != nil {
		return err
	}
	if err := s.feedStep(slots, tokens, rows); err != nil {
		return err
	}
	if s.aligned {
		if err := s.attention.reserve(s.w.device.context, 4*rows*max(s.longest, 1)); err != nil {
			return err
		}
	}
	if err := s.stepTime.around(s.stream, func() error {
		if s.aligned {
			return s.run(rows)
		}
		return s.replay(rows)
	}); err != nil {
		return err
	}
	return s.stream.Record(s.feed.read)
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
	if s.w.autoreg == model.SelfAttention {
		if err := s.addWords(slots, last+1); err != nil {
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
func (s *Stepper) run(rows int) error {
	a, lists := &s.rowsOf, s.stepLists(rows)
	a.rows = rows
	if err := cuda.CopyIn(s.stream, s.feed.device.at, s.feed.host[:numbersOfRow*rows]); err != nil {
		return err
	}
	if err := s.embed(a, decoderSide, s.w.target, lists.tokens, lists.positions); err != nil {
		return err
	}
	for i, l := range s.w.decoder {
		if err := s.autoregress(a, l, lists, i); err != nil {
			return err
		}
		if err := s.lookUp(a, l, lists, s.aligned && i == s.w.alignment); err != nil {
			return err
		}
		if err := s.feedForward(a, &l.ffn); err != nil {
			return err
		}
	}
	return s.end(a, s.w.top[decoderSide], a.x, a.x, a.bottom)
}

// lookUp runs the attention of a layer to the source.
func (s *Stepper) lookUp(a *activations, l *decoderLayer, lists stepLists, align bool) error {
	input, err := s.before(a, l.pre, a.normed, a.x)
	if err != nil {
		return err
	}
	if err := s.product(a, a.wide, input, &l.q, false); err != nil {
		return err
	}
	keys := cuda.Offset[gpukernels.Half](s.memory.memory.at, l.first)
	lookup := gpukernels.Lookup{Queries: a.wide, Result: a.attended, Keys: keys, Values: cuda.Offset[gpukernels.Half](keys, s.w.dim),
		Starts: lists.starts, Lengths: lists.lengths, Stride: s.w.contextKV.out, Rows: a.rows, Heads: s.w.heads, HeadDim: s.w.dim / s.w.heads}
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

// Attention returns the weights of row's attention over the source tokens; nil if the last Step was not asked to align.
func (s *Stepper) Attention(number int32) []float32 {
	length := s.contexts[s.rows[number].context].memory.count
	if !s.aligned || length == 0 {
		return nil
	}
	weights := make([]float32, length)
	s.do(func() error {
		return cuda.CopyOut(s.stream, weights, cuda.Offset[float32](s.attention.at, int(number)*s.longest))
	})
	return weights
}
