package gpumodel

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/model"
)

// A product is a model.Product on the device: matrices of one input side by side, and norms of columns of what they give.
type product struct {
	linear
	norms   []columnsNorm
	epsilon float32
}

// A columnsNorm is a layer norm of width columns from the column first on.
type columnsNorm struct {
	first, width int
	scale, bias  cuda.Pointer
	of           unit // that the columns consist of
}

// product uploads products of the same input, side by side, which read rows of a layout and give units. bias is added to the first columns:
// by the norms, where there are any.
func (u *uploader) product(in layout, of unit, bias []float32, from ...*model.Product) *product {
	to := &product{epsilon: from[0].Epsilon}
	var matrices []model.Affine
	width, normed := 0, false
	for _, p := range from {
		matrices = append(matrices, p.Matrices...)
		width, normed = width+p.Width(), normed || len(p.Norms) > 0
	}
	bias = append(bias[:len(bias):len(bias)], make([]float32, width-len(bias))...)
	if normed {
		to.linear = u.laidOut(in, of, nil, matrices...)
	} else {
		to.linear = u.laidOut(in, of, bias, matrices...)
	}
	first := 0
	for _, p := range from {
		to.norms = append(to.norms, u.norms(p, of, bias[first:], first)...)
		first += p.Width()
	}
	return to
}

// norms uploads the norms of a product whose columns, those of the model, begin at first, with what is added to their biases.
func (u *uploader) norms(p *model.Product, of unit, more []float32, first int) []columnsNorm {
	var to []columnsNorm
	for i := range p.Norms {
		width := p.Width()
		if len(p.Norms) > 1 {
			width = p.Matrices[i].Out
		}
		bias := append([]float32(nil), more[:width]...)
		if p.Norms[i].Bias != nil {
			for j, b := range u.floats(p.Norms[i].Bias) {
				bias[j] += b
			}
		}
		columns := of.of(width)
		to = append(to, columnsNorm{of.of(first).width(), columns.width(), u.vector(p.Norms[i].Scale, columns), upload(u, fill(bias, columns)), of})
		first, more = first+width, more[width:]
	}
	return to
}

// A cell is a model.Cell on the device. Its bias is part of a product where that gives the same; only a GRU without input that has it outside
// of the reset gate keeps it, in the place of an input.
type cell struct {
	kind         model.CellKind
	dim          int
	input, state *product // nil if there is none
	bias         cuda.Pointer
	factor       *product // of multiplicative cells, from the state; the one from the input is the last columns of input
	width        int      // elements of a state: what the cell gave last, and its memory
}

// cell uploads a cell whose input, if it has one of its own, has a layout.
func (u *uploader) cell(from *model.Cell, in layout) *cell {
	gate := whole(from.Dim)
	state := layout{gate}
	c := &cell{kind: from.Kind, dim: gate.filled, width: gate.filled}
	if from.Kind.Memory() {
		c.width = 2 * gate.filled
	}
	var bias, ofInput, ofState []float32
	for _, t := range from.Bias {
		bias = append(bias, u.floats(t)...)
	}
	switch {
	case len(bias) == 0:
	case from.Input != nil && !from.Final:
		ofInput = bias
	case from.Final || !from.Kind.Gated():
		ofState = bias
	default:
		c.bias = upload(u, fill(bias, gate.of(len(bias))))
	}
	if from.Factors != nil {
		c.input, c.factor = u.product(in, gate, ofInput, from.Input, &from.Factors[0]), u.product(state, gate, nil, &from.Factors[1])
	} else if from.Input != nil {
		c.input = u.product(in, gate, ofInput, from.Input)
	}
	if from.State != nil {
		c.state = u.product(state, gate, ofState, from.State)
	}
	return c
}

// multiply computes to = norm(x·p).
func (s *Stepper) multiply(a *activations, to, x gpukernels.Matrix, p *product) error {
	if err := s.runProduct(a, &p.linear, gpukernels.Product{X: x, Result: to}); err != nil {
		return err
	}
	for _, n := range p.norms {
		columns := to
		columns.At, columns.Columns, columns.Stride = cuda.Offset[gpukernels.Half](to.At, n.first), n.width, max(to.Stride, to.Columns)
		if err := s.w.device.kernels.NormColumns(a.stream, columns, gpukernels.RowNorm{Scale: n.scale, Bias: n.bias, Epsilon: p.epsilon,
			Part: n.of.filled, Own: n.of.own}); err != nil {
			return err
		}
	}
	return nil
}

// cellRows are rows that go through a cell.
type cellRows struct {
	a      *activations // whose stream and bytes they use
	states gpukernels.CellStates
	h      gpukernels.Matrix // what the cells gave last, replaced by what they give
	u      cuda.Pointer      // room for what comes from the states

	places cuda.Pointer      // of the rows in what follows: see gpukernels.CellStep
	x      gpukernels.Matrix // what came from the inputs
	input  cuda.Pointer
	result gpukernels.Matrix // without an address if h is enough
	added  bool
}

// advance runs a cell.
func (s *Stepper) advance(c *cell, r *cellRows) error {
	k := s.w.device.kernels
	if c.factor != nil {
		factors := gpukernels.Matrix{At: r.u, Rows: r.h.Rows, Columns: c.dim}
		if err := s.multiply(r.a, factors, r.h, c.factor); err != nil {
			return err
		}
		if err := k.MultiplyCells(r.a.stream, r.states, r.h, r.x, r.places, factors.At); err != nil {
			return err
		}
	}
	step := gpukernels.CellStep{Kind: gpukernels.CellKind(c.kind), States: r.states, Places: r.places, Bias: c.bias, Input: r.input, Added: r.added,
		H: r.h, Result: r.result}
	if c.input != nil {
		step.X = r.x
	}
	if c.state != nil {
		step.U = gpukernels.Matrix{At: r.u, Rows: r.h.Rows, Columns: c.state.out}
		if err := s.multiply(r.a, step.U, r.h, c.state); err != nil {
			return err
		}
	}
	return k.AdvanceCells(r.a.stream, step)
}

// cellSublayer runs a recurrent sublayer of a transformer whose unit is a cell.
func (s *Stepper) cellSublayer(a *activations, l *recurrent, lists stepLists, layer int) error {
	input, err := s.before(a, l.pre, a.normed, a.x)
	if err != nil {
		return err
	}
	c := l.cell
	r, err := s.beginCells(a, lists, layer, c, a.attended, 0)
	if err != nil {
		return err
	}
	if err := s.advanceWith(c, &r, a.matrix(input, s.w.dim)); err != nil {
		return err
	}
	return s.after(a, l.post, a.attended, l.o)
}

// beginCells lets the rows of a step begin with their states in a layer, or, at position 0, with what starts has for their sentences, zeros if
// that is 0. What cells of this kind give goes to h.
func (s *Stepper) beginCells(a *activations, lists stepLists, layer int, c *cell, h, starts cuda.Pointer) (cellRows, error) {
	kept := s.layerStates(lists, layer)
	r := cellRows{a: a, h: a.matrix(h, c.dim), u: a.other,
		states: gpukernels.CellStates{At: kept.At, Stride: kept.Stride, To: kept.To}}
	return r, s.w.device.kernels.BeginCells(a.stream, gpukernels.BeginCells{States: r.states, Width: c.width, From: kept.From,
		Positions: kept.Positions, Starts: starts, Numbers: lists.contexts, H: r.h})
}

// advanceWith runs a cell with the input that it has of its own.
func (s *Stepper) advanceWith(c *cell, r *cellRows, input gpukernels.Matrix) error {
	if err := s.feedCells(c, r, input); err != nil {
		return err
	}
	return s.advance(c, r)
}

// feedCells computes what comes from the input that a cell has of its own.
func (s *Stepper) feedCells(c *cell, r *cellRows, input gpukernels.Matrix) error {
	r.x, r.input = r.a.matrix(r.a.wide, c.input.out), input.At
	return s.multiply(r.a, r.x, input, c.input)
}
