package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Nothing that a step computes depends on the weights that serve as alignments. A step that is asked for them keeps them on the device, and
// they are copied to the turn as soon as it has run, so that they are there when the search reads them, and the next step may overwrite
// them.

// fewestFurthest is how many tokens of a source attention has room for at first.
const fewestFurthest = 64

// reserveWeights makes room for the weights of attention to the sources of the rows of a turn.
func (s *Stepper) reserveWeights(t *turn) error {
	furthest := 0
	for i := range t.rows {
		for _, memory := range s.contexts[t.rows[i].context].memory {
			furthest = max(furthest, memory.count)
		}
	}
	if furthest > s.furthest {
		furthest = max(furthest, 2*s.furthest, fewestFurthest)
		if err := s.room(&s.weights, 2*4*s.turnSize*furthest); err != nil {
			return err
		}
		s.furthest = furthest
	}
	if least := s.turnSize * s.furthest; s.aligned && len(t.attention) < least {
		c := s.w.device.context
		if err := t.looked.Synchronize(); err != nil { // the last step ahead was in vain perhaps, and is still being copied
			return err
		}
		if err := freeHost(c, t.attention); err != nil {
			return err
		}
		var err error
		t.attention, err = cuda.AllocHost[float32](c, least)
		return err
	}
	return nil
}

// alignments is where a step keeps the weights that serve as alignments, furthest places for each row.
func (s *Stepper) alignments() cuda.Pointer {
	return cuda.Offset[float32](s.weights.at, s.turnSize*s.furthest)
}

// keepAttention asks for the weights of the step that was just asked for, if the last Step was asked to align.
func (s *Stepper) keepAttention(t *turn) error {
	if t.aligned = s.aligned; !t.aligned || s.w.onlyHard() { // the processor knows that of hard attention
		return nil
	}
	t.furthest = s.furthest
	if err := cuda.CopyOut(s.stream, t.attention[:len(t.rows)*t.furthest], s.alignments()); err != nil {
		return err
	}
	return s.stream.Record(t.looked)
}

// Attention returns the weights of row's attention over the tokens of the first source; nil if the last Step was not asked to align, or
// the model has no encoder.
func (s *Stepper) Attention(number int32) []float32 {
	r := &s.rows[number]
	memory := s.contexts[r.context].memory
	if !s.aligned || len(memory) == 0 || memory[0].count == 0 {
		return nil
	}
	if s.w.onlyHard() {
		return s.hardWeights(r)
	}
	s.do(func() error { return s.wait(r.turn.looked.Synchronize) })
	if s.err != nil {
		return make([]float32, memory[0].count)
	}
	return r.turn.attention[r.place*r.turn.furthest:][:memory[0].count]
}
