package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
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

// stepLists are the lists of numbers that a step needs, on the device.
type stepLists struct{ tokens, slots, positions, starts, lengths cuda.Pointer }

// feedStep brings them there.
func (s *Stepper) feedStep(slots []search.Slot, tokens []search.Token) (stepLists, error) {
	s.positions, s.starts, s.lengths = s.positions[:0], s.starts[:0], s.lengths[:0]
	s.numbers = appendNumbers(s.numbers[:0], slots)
	last := 0
	s.longest = 0
	for _, number := range slots {
		at := &s.slots[number]
		memory := s.contexts[at.context].memory
		s.positions = append(s.positions, int32(at.position))
		s.starts, s.lengths = append(s.starts, int32(memory.first)), append(s.lengths, int32(memory.count))
		last, s.longest = max(last, at.position), max(s.longest, memory.count)
	}
	if err := s.reserveSignal(last + 1); err != nil {
		return stepLists{}, err
	}
	p, err := s.feed.put(s.w.device.context, s.stream, tokens, s.numbers, s.positions, s.starts, s.lengths)
	if err != nil {
		return stepLists{}, err
	}
	return stepLists{p[0], p[1], p[2], p[3], p[4]}, nil
}

func (s *Stepper) step(slots []search.Slot, tokens []search.Token) error {
	a := &s.rowsOf
	if err := a.reserve(s.w, len(slots)); err != nil {
		return err
	}
	lists, err := s.feedStep(slots, tokens)
	if err != nil {
		return err
	}
	if s.aligned {
		if err := s.attention.reserve(s.w.device.context, 4*len(slots)*max(s.longest, 1)); err != nil {
			return err
		}
	}
	if err := s.embed(a, decoderSide, s.w.target, lists.tokens, lists.positions); err != nil {
		return err
	}
	for i, l := range s.w.decoder {
		if err := s.recurrent(a, l, lists, i); err != nil {
			return err
		}
		if err := s.lookUp(a, l, lists, s.aligned && i == s.w.alignment); err != nil {
			return err
		}
		if err := s.feedForward(a, &l.ffn); err != nil {
			return err
		}
	}
	return s.normalise(a, s.w.top[decoderSide], a.x, a.x, 0)
}

// recurrent runs the recurrent sublayer of a layer.
func (s *Stepper) recurrent(a *activations, l *decoderLayer, lists stepLists, layer int) error {
	input, err := s.before(a, &l.recurrent)
	if err != nil {
		return err
	}
	if err := s.product(a, a.wide, input, &l.gates, false); err != nil {
		return err
	}
	state := cuda.Offset[float32](s.states.at, layer*s.w.dim)
	if err := s.w.device.kernels.SSRU(s.stream, a.matrix(a.attended, s.w.dim), a.wide, lists.slots, lists.positions, state,
		len(s.w.decoder)*s.w.dim); err != nil {
		return err
	}
	if l.project != nil {
		return s.after(a, &l.recurrent, a.attended, l.project)
	}
	return s.end(a, &l.recurrent, a.attended)
}

// lookUp runs the attention of a layer to the source.
func (s *Stepper) lookUp(a *activations, l *decoderLayer, lists stepLists, align bool) error {
	input, err := s.before(a, &l.context)
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
	return s.after(a, &l.context, a.attended, &l.o)
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
