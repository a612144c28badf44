package cpumodel

import (
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A devlin is a packed model.DevlinDecoder.
type devlin struct {
	bottom  *cell
	context *product // from what attention found, or from the encoder's results, to the gates of bottom
	layers  []*linear
	top     *linear // without topCell
	topCell *cell
}

func (p *packer) devlin(from *model.DevlinDecoder) *devlin {
	d := &devlin{bottom: p.cell(&from.Bottom), context: p.product(&from.Context), top: p.optional(from.Top)}
	for _, layer := range from.Layers {
		d.layers = append(d.layers, p.linear(layer))
	}
	if from.TopCell != nil {
		d.topCell = p.cell(from.TopCell)
	}
	return d
}

// beginDevlin puts the decoder's first state into a slot: that of the cell at the bottom comes from the sentence, a cell on top
// begins with zeros.
func (s *Stepper) beginDevlin(slot search.Slot, c *context) {
	states := s.slotStates(s.states, int(slot))
	clear(states[copy(states, s.starts.rows(c.start)):])
}

// decodeDevlin runs Devlin's decoder, from the embeddings to what the output layer multiplies.
func (s *Stepper) decodeDevlin(slots []search.Slot, align bool) {
	d, b, c, rows := s.w.network.devlin, &s.network, &s.cells, len(slots)
	s.gather(slots, 0, s.w.network.dim)
	s.lookBack(align)
	x, width := s.fromEmbeddings(d.bottom, b.embedded, rows), d.context.linear.n
	c.fromInput = grow(c.fromInput, rows*width)
	for i, group := range s.sharing.group {
		gates := c.fromInput[i*width : (i+1)*width]
		kernels.Add(gates, x[i], b.gates[int(group)*width:])
		x[i] = gates
	}
	s.run(d.bottom, &cellRows{count: rows, outputs: c.outputs, x: x, input: b.embedded, at: c.counting(rows), shared: true})
	s.scatter(slots, 0, s.w.network.dim)
	s.devlinTop(slots, s.devlinLayers(c.outputs[:rows*d.bottom.dim], rows))
	s.finish(rows)
}

// lookBack computes what the attention of the last states adds to the gates of the cell at the bottom, once for rows that share a
// state.
func (s *Stepper) lookBack(align bool) {
	d, b, h := s.w.network.devlin, &s.network, &s.sharing
	a, n, width := s.w.network.attention, len(h.first), d.context.linear.n
	b.states, b.found, b.gates = grow(b.states, n*s.w.network.dim), grow(b.found, n*a.dim), grow(b.gates, n*width)
	h.distinct(b.states, s.cells.outputs, s.w.network.dim)
	s.ask(a, b.states, n)
	if align {
		s.attentions = s.attentions[:0]
	}
	for j, row := range h.first {
		c := &s.contexts[s.rows[row].context]
		if s.w.network.premixed != nil {
			s.mix(b.gates[j*width:(j+1)*width], c, j)
		} else {
			s.look(b.found[j*a.dim:(j+1)*a.dim], s, c, j)
		}
		if align {
			s.alignAdditive(int(row), c, j)
		}
	}
	if s.w.network.premixed == nil {
		s.product(b.gates, d.context, b.found, n)
	}
	for i, group := range h.group {
		s.rows[i].attention = s.rows[h.first[group]].attention
	}
}

// devlinLayers runs the fully connected layers. Every second one adds what came out of the one before the last.
func (s *Stepper) devlinLayers(x []float32, rows int) []float32 {
	d, b := s.w.network.devlin, &s.network
	width := d.bottom.dim
	for i, layer := range d.layers {
		s.operand.set(x, rows, width)
		if i%2 == 0 && i > 0 { // its result has the place of the one before the last
			b.summand = grow(b.summand, rows*layer.n)
			s.mul(b.summand, layer.n, layer, kernels.None)
			sum := b.results[0][:rows*layer.n]
			kernels.Add(sum, sum, b.summand)
			kernels.ReLU(sum)
			x, width = sum, layer.n
			continue
		}
		b.results[i%2] = grow(b.results[i%2], rows*layer.n)
		x, width = b.results[i%2][:rows*layer.n], layer.n
		s.mul(x, layer.n, layer, kernels.Rectified)
	}
	return x
}

// devlinTop runs the layer on top, into what the output layer multiplies.
func (s *Stepper) devlinTop(slots []search.Slot, x []float32) {
	d, b, dim, rows := s.w.network.devlin, &s.cells, s.w.dim, len(slots)
	s.top = grow(s.top, rows*dim)
	if d.topCell == nil {
		s.operand.set(x, rows, len(x)/rows)
		s.mul(s.top, dim, d.top, kernels.None)
		s.w.tanh(s.top[:rows*dim])
		return
	}
	for i, slot := range slots {
		copy(s.top[i*dim:(i+1)*dim], s.topState(slot))
	}
	given := s.fromInputs(d.topCell, x, rows)
	s.run(d.topCell, &cellRows{count: rows, outputs: s.top, x: given, input: x, at: b.counting(rows), shared: true})
	for i, slot := range slots {
		copy(s.topState(slot), s.top[i*dim:(i+1)*dim])
	}
}

// topState returns the state of the cell on top in a slot.
func (s *Stepper) topState(slot search.Slot) []float32 {
	return s.slotStates(s.states, int(slot))[s.w.network.dim:]
}
