package gpumodel

import (
	"errors"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// Which token of the source hard attention is at depends on the words so far. The device keeps it beside each state, and moves it on by itself
// when a step begins (gpukernels.ReadOn), so that steps can be run ahead; the processor keeps it for each slot. What is forbidden depends on
// it, and so on the word that the processor has yet to see: of a step ahead, the choices are asked for later.

// A hard is what a decoder knows of its hard attention: see model.HardAttention.
type hard struct {
	steps   []search.Token // after which it moves on
	lenient bool           // nothing is forbidden
}

// hard is the hard attention of a recurrent model, nil for others.
func (w *Weights) hard() *hard {
	if w.network == nil {
		return nil
	}
	return w.network.hard
}

// onlyHard says whether there is hard attention and no other.
func (w *Weights) onlyHard() bool { return w.hard() != nil && w.encoders[0].reader.attention == nil }

// moveAttention moves hard attention of a slot on, if the next token says so.
func (s *Stepper) moveAttention(number search.Slot, token search.Token) {
	if h := s.w.hard(); h != nil && slices.Contains(h.steps, token) {
		at := &s.slots[number]
		at.reads = min(at.reads+1, s.lastToken(at.context))
	}
}

// lastToken is the number of the last token of the source that hard attention reads.
func (s *Stepper) lastToken(c search.Context) int { return max(s.contexts[c].memory[0].count-1, 0) }

// hardStates are where hard attention is, on the device. All is int32.
type hardStates struct {
	reads  buffer // of each state
	places buffer // of each row of the step that is under way: the row of the memory that it reads
	steps  buffer // tokens after which it moves on
}

// openHard makes what hard attention has on the device, if there is any.
func (s *Stepper) openHard(rows int) error {
	h, c := s.w.hard(), s.w.device.context
	if h == nil {
		return nil
	}
	if err := errors.Join(s.hard.reads.reserve(c, 4*(s.statePlaces()+mostPadding)), s.hard.places.reserve(c, 4*rows),
		s.hard.steps.reserve(c, 4*len(h.steps))); err != nil {
		return err
	}
	if err := cuda.CopyIn(s.stream, s.hard.steps.at, h.steps); err != nil {
		return err
	}
	return s.stream.Synchronize()
}

// readOn lets hard attention move on in a step.
func (s *Stepper) readOn(a *activations, lists stepLists) error {
	return s.w.device.kernels.ReadOn(a.stream, gpukernels.Readings{Tokens: lists.tokens, From: lists.from, To: lists.to, Positions: lists.positions,
		Firsts: lists.starts(0), Counts: lists.lengths(0), Steps: s.hard.steps.at, StepCount: len(s.w.hard().steps),
		Reads: s.hard.reads.at, Places: s.hard.places.at}, lists.rows)
}

// besideSource puts embeddings and what the encoder gave for the tokens that hard attention is at side by side.
func (s *Stepper) besideSource(a *activations, embedded gpukernels.Matrix) (gpukernels.Matrix, error) {
	k, width := s.w.device.kernels, s.w.encoders[0].reader.width
	both := a.matrix(a.normed, s.w.dim+width)
	left := gpukernels.Matrix{At: both.At, Rows: a.rows, Columns: s.w.dim, Stride: both.Columns}
	if err := k.CopyRows(a.stream, left, embedded, 0); err != nil {
		return both, err
	}
	right := gpukernels.Matrix{At: cuda.Offset[gpukernels.Half](both.At, s.w.dim), Rows: a.rows, Columns: width, Stride: both.Columns}
	values := gpukernels.Matrix{At: cuda.Offset[gpukernels.Half](s.memory.memory.at, s.w.firstOfValues()), Columns: width, Stride: s.w.contextWidth()}
	return both, k.CopyRows(a.stream, right, values, s.hard.places.at)
}

// early returns the token that hard attention does not allow yet, or any more, in a row: the end of sentence before the end of the
// source is read, and a step beyond that. It is search.NoToken for other models.
func (s *Stepper) early(r *row) search.Token {
	h := s.w.hard()
	switch {
	case h == nil || h.lenient:
		return search.NoToken
	case r.reads == s.lastToken(r.context):
		return model.StepToken
	}
	return model.HardEnd
}

// withEarly adds what hard attention forbids in rows to what is forbidden there.
func (s *Stepper) withEarly(rows []int32, banned [][]search.Token) [][]search.Token {
	if h := s.w.hard(); h == nil || h.lenient {
		return banned
	}
	all := make([][]search.Token, len(rows))
	for i, number := range rows {
		if banned != nil {
			all[i] = slices.Clone(banned[i])
		}
		all[i] = append(all[i], s.early(&s.rows[number]))
	}
	return all
}

// hardWeights are the weights of hard attention in a row: all of it is at one token.
func (s *Stepper) hardWeights(r *row) []float32 {
	weights := make([]float32, s.contexts[r.context].memory[0].count)
	weights[r.reads] = 1
	return weights
}
