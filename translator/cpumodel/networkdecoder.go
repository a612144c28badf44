package cpumodel

import (
	"slices"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// begin puts the decoder's first state into a slot: what the sentence makes all layers and memories of a recurrent decoder begin
// with, or zeros.
func (s *Stepper) begin(slot search.Slot, c *context) {
	if s.w.network != nil && s.w.network.devlin != nil {
		s.beginDevlin(slot, c)
		return
	}
	states, start := s.slotStates(s.states, int(slot)), s.starts.rows(c.start)
	if len(start) == 0 {
		clear(states)
		return
	}
	for first := 0; first < len(states); first += len(start) {
		copy(states[first:], start)
	}
}

// decodeNetwork runs a recurrent decoder, from the embeddings to what the output layer multiplies.
func (s *Stepper) decodeNetwork(slots []search.Slot, tokens []search.Token, align bool) {
	w, n, b, rows := s.w, s.w.network, &s.network, len(slots)
	width := w.dim
	if n.hard != nil {
		width += n.contextDim
	}
	b.embedded = grow(b.embedded, rows*width)
	for i, slot := range slots {
		s.embed(b.embedded[i*width:i*width+w.dim], w.target, tokens[i], s.slots[slot].position)
	}
	b.tokens = add(b.tokens[:0], tokens...)
	if n.hard != nil {
		s.read(slots, tokens, width, align)
	}
	if n.devlin != nil {
		s.decodeDevlin(slots, align)
		return
	}
	s.gather(slots, 0, n.dim)
	s.decoderCell(n.base[0], b.embedded, rows, true)
	rest := n.base[1:]
	switch {
	case n.premixed != nil:
		s.decoderCellWith(rest[0], s.attendMixed(rows, align), nil, rows, false)
		rest = rest[1:]
	case n.attention != nil:
		s.attend(rows, align)
	}
	for _, cell := range rest {
		s.decoderCell(cell, b.found, rows, false)
	}
	s.scatter(slots, 0, n.dim)
	for i := range n.high {
		s.highLayer(&n.high[i], slots, i+1)
	}
	s.deepOutput(rows)
	s.finish(rows)
}

// decoderCell advances the gathered states by a cell, which reads input if it has any. first says that the states are still
// those before the step.
func (s *Stepper) decoderCell(c *cell, input []float32, rows int, first bool) {
	var x [][]float32
	if c.input != nil {
		x = s.fromEmbeddings(c, input, rows)
	}
	s.decoderCellWith(c, x, input, rows, first)
}

// decoderCellWith is decoderCell with what comes from the input.
func (s *Stepper) decoderCellWith(c *cell, x [][]float32, input []float32, rows int, first bool) {
	b := &s.cells
	s.run(c, &cellRows{
		count: rows, outputs: b.outputs, memories: b.memories, x: x, input: input, at: b.counting(rows), shared: first,
	})
}

// highLayer runs a layer over the results of the one before, which are in the buffer of outputs.
func (s *Stepper) highLayer(l *cellLayer, slots []search.Slot, layer int) {
	rows, dim, b := len(slots), s.w.network.dim, &s.network
	b.layerInput = add(b.layerInput[:0], s.cells.outputs[:rows*dim]...)
	s.gather(slots, layer, dim)
	for i, cell := range l.cells {
		s.decoderCell(cell, b.layerInput, rows, i == 0)
	}
	s.scatter(slots, layer, dim)
	if l.skip {
		kernels.Add(s.cells.outputs[:rows*dim], s.cells.outputs, b.layerInput)
	}
}

// attend looks at all sources with the states after the first cell.
func (s *Stepper) attend(rows int, align bool) {
	b, width := &s.network, s.w.network.attention.dim
	for _, encoder := range s.further {
		width += encoder.w.network.attention.dim
	}
	b.found = grow(b.found, rows*width)
	if align {
		s.attentions = s.attentions[:0]
	}
	first := s.attendTo(0, b.found, width, rows, align)
	for k := range s.further {
		first += s.attendTo(k+1, b.found[first:], width, rows, false)
	}
}

// attendTo looks at a source, numbered from 0. Its results lie stride elements apart. It returns how many elements each has.
func (s *Stepper) attendTo(source int, results []float32, stride, rows int, align bool) int {
	encoder := s
	if source > 0 {
		encoder = s.further[source-1]
	}
	dim := encoder.w.network.attention.dim
	s.ask(encoder.w.network.attention, s.cells.outputs, rows)
	for i := range s.rows {
		c := &s.contexts[s.rows[i].context]
		if source > 0 {
			c = &encoder.contexts[c.further[source-1]]
		}
		s.look(results[i*stride:i*stride+dim], encoder, c, i)
		if align {
			s.alignAdditive(i, c, i)
		}
	}
	return dim
}

// ask computes the queries of attention from states.
func (s *Stepper) ask(a *additive, states []float32, rows int) {
	b := &s.network
	b.projected, b.queries = grow(b.projected, rows*a.dim), grow(b.queries, rows*a.kernel.Width())
	s.product(b.projected, a.state, states, rows)
	a.kernel.Query(b.queries, b.projected, rows)
}

// query returns a query of a kernel.
func (b *networkBuffers) query(a *additive, i int) []float32 {
	return b.queries[i*a.kernel.Width() : (i+1)*a.kernel.Width()]
}

// look computes what the attention to a context of an encoder finds with a query.
func (s *Stepper) look(found []float32, encoder *Stepper, c *context, query int) {
	a := encoder.w.network.attention
	s.scratch = grow(s.scratch, a.kernel.ScratchLen(c.length))
	a.kernel.Run(found, s.network.query(a, query), a.score, encoder.memory.rows(c.memory), c.length, s.scratch)
}

// alignAdditive keeps the weights of attention to a context, with a query, for row i.
func (s *Stepper) alignAdditive(i int, c *context, query int) {
	if c.length == 0 {
		return
	}
	a, first := s.w.network.attention, len(s.attentions)
	s.attentions = slices.Grow(s.attentions, c.length)[:first+c.length]
	a.kernel.Weights(s.attentions[first:], s.network.query(a, query), a.score, s.memory.rows(c.memory), c.length)
	s.rows[i].attention = run{first, c.length}
}

// deepOutput computes what the output layer multiplies from embeddings, results and what attention found.
func (s *Stepper) deepOutput(rows int) {
	b, dim := &s.network, s.w.dim
	s.top, b.summand = grow(s.top, rows*dim), grow(b.summand, rows*dim)
	inputs := [...][]float32{b.embedded, s.cells.outputs, b.found}
	for i, p := range s.w.network.hidden {
		if i == 0 {
			s.product(s.top, p, inputs[i], rows)
			continue
		}
		if i == 2 && s.w.network.premixed != nil {
			s.addMixed(rows)
			continue
		}
		s.product(b.summand, p, inputs[i], rows)
		kernels.Add(s.top[:rows*dim], s.top, b.summand)
	}
	s.w.tanh(s.top[:rows*dim])
}

// addMixed adds what came of attention without a product, behind what the second cell read.
func (s *Stepper) addMixed(rows int) {
	n, dim := s.w.network, s.w.dim
	for i := range rows {
		top := s.top[i*dim : (i+1)*dim]
		kernels.Add(top, top, s.network.gates[(i+1)*n.mixWidth-dim:])
	}
}
