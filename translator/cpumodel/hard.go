package cpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A hard is what a decoder knows of its hard attention. See model.HardAttention.
type hard struct {
	steps   []search.Token // after which it moves on
	lenient bool           // nothing is forbidden
}

// read moves hard attention on where a token says so, and copies what the encoder gave for the token of the source that it is at beside
// the embeddings, in rows of that width. Hypotheses that go on from the same state may read different tokens.
func (s *Stepper) read(slots []search.Slot, tokens []search.Token, width int, align bool) {
	n, b := s.w.network, &s.network
	alone := n.attention == nil
	if align && alone {
		s.attentions = s.attentions[:0]
	}
	for i, handle := range slots {
		slot := &s.slots[handle]
		c := &s.contexts[slot.context]
		last := int32(max(c.length-1, 0))
		if slices.Contains(n.hard.steps, tokens[i]) {
			slot.reads = min(slot.reads+1, last)
		}
		s.rows[i].ends = slot.reads == last
		seen := b.embedded[i*width+s.w.dim : (i+1)*width]
		if c.length == 0 {
			clear(seen)
			continue
		}
		results := s.memory.rows(c.memory)
		if !alone { // which keeps more, before them
			results = results[n.attention.kernel.KeptLen(c.length):]
		}
		copy(seen, results[int(slot.reads)*n.contextDim:])
		if align && alone {
			first := len(s.attentions)
			s.attentions = room(s.attentions, c.length)[:first+c.length]
			weights := s.attentions[first:]
			clear(weights)
			weights[slot.reads] = 1
			s.rows[i].attention = run{first, c.length}
		}
	}
}

// early returns the token that hard attention does not allow yet, or any more, in a row: the end of sentence before the end of the
// source is read, and a step beyond that. It is search.NoToken for other models.
func (s *Stepper) early(row int) search.Token {
	switch {
	case s.w.network == nil || s.w.network.hard == nil || s.w.network.hard.lenient:
		return search.NoToken
	case s.rows[row].ends:
		return model.StepToken
	}
	return model.HardEnd
}
