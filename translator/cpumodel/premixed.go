package cpumodel

import (
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
)

// premix chooses the products of what attention finds that are computed of the encoder's results instead (KeptContexts). In other
// models than those of type devlin there are two consumers, the second cell and the output, and only beams are faster so: for each
// word of a hypothesis, what is added up is wider. A product with a norm is not the sum of its parts.
func (w *Weights) premix(m *model.Model, beam int) {
	n := w.network
	switch {
	case !w.uses(KeptContexts) || n.attention == nil || n.hard != nil:
		return
	case n.devlin != nil:
		n.premixed = []*product{n.devlin.context}
	case beam > 1 && m.Sources() == 1 && len(n.base) > 1 && n.base[1].kind != model.SRUCell &&
		len(n.base[1].input.norms) == 0 && len(n.hidden[2].norms) == 0:
		n.premixed = []*product{n.base[1].input, n.hidden[2]}
	}
	for _, p := range n.premixed {
		n.mixWidth += p.linear.n
	}
	if n.premixed != nil {
		n.attention.kernel.ValueDim = n.mixWidth
	}
}

// multiplyMixed computes what becomes of rows that attention found, or of those that it weighs: the results of all premixed products,
// side by side. Their biases may be in the rows that are weighed, as the weights add up to 1.
func (s *Stepper) multiplyMixed(y, x []float32, rows int) {
	n, first := s.w.network, 0
	s.operand.set(x, rows, n.attention.dim)
	for _, p := range n.premixed {
		s.mul(y[first:], n.mixWidth, p.linear, kernels.None)
		first += p.linear.n
	}
}

// mixed returns what becomes of the tokens of a sentence, whose results of the encoder are given.
func (s *Stepper) mixed(results []float32, tokens int) []float32 {
	b, width := &s.network, s.w.network.mixWidth
	b.gates = grow(b.gates, tokens*width)
	if tokens > 0 {
		s.multiplyMixed(b.gates, results, tokens)
	}
	return b.gates[:tokens*width]
}

// mix computes the sum of what became of a sentence's tokens, weighted by attention.
func (s *Stepper) mix(sum []float32, c *context, query int) {
	a, b := s.w.network.attention, &s.network
	if c.length == 0 {
		b.found = grow(b.found, a.dim)
		clear(b.found)
		s.multiplyMixed(sum, b.found, 1)
		return
	}
	s.look(sum, s, c, query)
}

// attendMixed is attend for a decoder of two cells: it returns what the second reads; what the output reads is left behind that in the
// buffer of gates.
func (s *Stepper) attendMixed(rows int, align bool) [][]float32 {
	n, b := s.w.network, &s.network
	width, wide := n.base[1].input.linear.n, n.mixWidth
	b.gates = grow(b.gates, rows*wide)
	x := s.cells.inputRows[:0]
	s.ask(n.attention, s.cells.outputs, rows)
	if align {
		s.attentions = s.attentions[:0]
	}
	for i := range s.rows {
		c, sum := &s.contexts[s.rows[i].context], b.gates[i*wide:(i+1)*wide]
		s.mix(sum, c, i)
		x = append(x, sum[:width])
		if align {
			s.alignAdditive(i, c, i)
		}
	}
	s.cells.inputRows = x
	return x
}
