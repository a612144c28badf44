package network

import (
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// product returns how an input is multiplied. It is made once.
func (r *Replica[T]) product(from *model.Product) *autodiff.Product[T] {
	if p := r.products[from]; p != nil {
		return p
	}
	p := &autodiff.Product[T]{Epsilon: float64(from.Epsilon)}
	for i := range from.Matrices {
		p.Factors = append(p.Factors, autodiff.Factor[T]{W: r.matrix(from.Matrices[i].W), B: r.matrix(from.Matrices[i].B)})
	}
	for i := range from.Norms {
		p.Norms = append(p.Norms, autodiff.NormParameters[T]{Scale: r.matrix(from.Norms[i].Scale), Bias: r.matrix(from.Norms[i].Bias)})
	}
	r.products[from] = p
	return p
}

// multiply returns a product of all of x.
func (r *Replica[T]) multiply(p *model.Product, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	return r.tape.Product(r.product(p), x, r.Quantised)
}

// shift adds biases, side by side, to the columns of y.
func (r *Replica[T]) shift(y *autodiff.Matrix[T], biases []*marian.Tensor) {
	first := 0
	for _, t := range biases {
		bias := r.matrix(t)
		r.tape.Shift(y, first, bias)
		first += bias.Cols
	}
}

// recurrentMask draws what recurrent dropout leaves of an input or a state: the same in all steps and sentences of a batch, as in
// Marian. It is nil without dropout.
func (r *Replica[T]) recurrentMask(width int) []T {
	return r.tape.ColumnMask(r.options.DropoutRNN, width)
}

// masked returns x after recurrent dropout.
func (r *Replica[T]) masked(x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	mask := r.recurrentMask(x.Cols)
	if mask == nil {
		return x
	}
	y := r.tape.Room(x.Rows, x.Cols)
	r.tape.Mask(y, x, mask)
	return y
}

// A steppedProduct is the product of an input that is filled step by step, after dropout.
type steppedProduct[T autodiff.Float] struct {
	x, dropped *autodiff.Matrix[T] // the same without dropout
	mask       []T                 // nil without dropout
	joint      *autodiff.Joint[T]
}

func (r *Replica[T]) stepped(p *model.Product, x *autodiff.Matrix[T], mask []T) steppedProduct[T] {
	s := steppedProduct[T]{x: x, dropped: x, mask: mask}
	if mask != nil {
		s.dropped = r.tape.Room(x.Rows, x.Cols)
	}
	s.joint = r.tape.Joint(r.product(p), s.dropped, r.Quantised)
	return s
}

// rows returns the product of some rows of the input.
func (s *steppedProduct[T]) rows(t *autodiff.Tape[T], first, rows int) *autodiff.Matrix[T] {
	if s.mask != nil {
		t.Mask(t.Part(s.dropped, first, rows), t.Part(s.x, first, rows), s.mask)
	}
	return t.Rows(s.joint, first, rows)
}

// A cellInput is what a cell reads, in the order of time. Products of what is there before the first step are computed at once.
type cellInput[T autodiff.Float] struct {
	x     *autodiff.Matrix[T] // nil for none
	later bool                // it is filled step by step

	product, factor           steppedProduct[T]   // of what comes later; factor is that of multiplicative cells
	wholeProduct, wholeFactor *autodiff.Matrix[T] // of what is there; without an input, wholeProduct is biases in its place, or nil
}

// A runningCell is a cell on its way through the steps of a batch.
type runningCell[T autodiff.Float] struct {
	cell        *model.Cell
	out, memory *autodiff.Matrix[T] // what it gives, in the order of time
	input       cellInput[T]
	state       steppedProduct[T]
	factor      steppedProduct[T]   // of the state, of multiplicative cells
	replaced    *autodiff.Matrix[T] // the state of these
}

// biasInState says whether the bias of a cell belongs to what comes from the state: inside of the reset gate of a GRU, or where there
// is no input.
func biasInState(c *model.Cell) bool { return c.Final || c.Input == nil && !c.Kind.Gated() }

// prepareInput readies what a cell reads in so many steps of sentences, all in all.
func (r *Replica[T]) prepareInput(c *model.Cell, in *cellInput[T], rows int) {
	switch {
	case c.Input == nil:
		if len(c.Bias) > 0 && !biasInState(c) {
			in.wholeProduct = r.tape.Zeros(rows, c.State.Width())
			r.shift(in.wholeProduct, c.Bias)
		}
	case in.later:
		in.product = r.stepped(c.Input, in.x, r.recurrentMask(c.In))
		if c.Factors != nil {
			in.factor = r.stepped(&c.Factors[0], in.x, nil)
		}
	default:
		in.wholeProduct = r.multiply(c.Input, r.masked(in.x))
		if !biasInState(c) {
			r.shift(in.wholeProduct, c.Bias)
		}
		if c.Factors != nil {
			in.wholeFactor = r.multiply(&c.Factors[0], in.x)
		}
	}
}

// fromInput returns what some rows of a cell have from the input; nil for nothing.
func (r *Replica[T]) fromInput(c *runningCell[T], first, rows int) *autodiff.Matrix[T] {
	in := &c.input
	switch {
	case in.wholeProduct != nil:
		return r.tape.Part(in.wholeProduct, first, rows)
	case !in.later:
		return nil
	}
	x := in.product.rows(r.tape, first, rows)
	if !biasInState(c.cell) {
		r.shift(x, c.cell.Bias)
	}
	return x
}

// inputFactor returns what a multiplicative cell multiplies its state with.
func (r *Replica[T]) inputFactor(in *cellInput[T], first, rows int) *autodiff.Matrix[T] {
	if in.wholeFactor != nil {
		return r.tape.Part(in.wholeFactor, first, rows)
	}
	return in.factor.rows(r.tape, first, rows)
}

// prepareState readies the product of the state, which comes from before.
func (r *Replica[T]) prepareState(c *runningCell[T], before *autodiff.Matrix[T]) {
	if c.cell.Factors != nil {
		c.factor = r.stepped(&c.cell.Factors[1], before, nil)
		before = r.tape.Room(before.Rows, before.Cols)
		c.replaced = before
	}
	if c.cell.State != nil {
		c.state = r.stepped(c.cell.State, before, r.recurrentMask(c.cell.Dim))
	}
}

// advance runs rows of a cell: a step. before and memory are the state that it begins with, x is what comes from its input.
func (r *Replica[T]) advance(c *runningCell[T], before, memory, x *autodiff.Matrix[T], first, rows int) {
	t := r.tape
	if c.replaced != nil {
		replaced := t.Part(c.replaced, first, rows)
		t.Times(replaced, r.inputFactor(&c.input, first, rows), c.factor.rows(t, first, rows))
		before = replaced
	}
	out := t.Part(c.out, first, rows)
	var u, remembered *autodiff.Matrix[T]
	if c.cell.State != nil {
		u = c.state.rows(t, first, rows)
		if biasInState(c.cell) {
			r.shift(u, c.cell.Bias)
		}
	}
	if c.memory != nil {
		remembered = t.Part(c.memory, first, rows)
	}
	switch c.cell.Kind {
	case model.SRUCell:
		t.SRUStep(out, remembered, x, memory, t.Part(c.input.x, first, rows))
	case model.SSRUCell:
		t.SSRUStep(out, remembered, x, memory)
	case model.LSTMCell, model.MultiplicativeLSTMCell:
		t.LSTM(out, remembered, x, u, memory)
	case model.TanhCell:
		t.PlainCell(out, x, u, autodiff.Tanh)
	case model.ReLUCell:
		t.PlainCell(out, x, u, autodiff.ReLU)
	default:
		t.GRU(out, x, u, before)
	}
}

// A cellChain is cells that run one after another in every step; the state of the last one goes to the first in the next step.
type cellChain[T autodiff.Float] struct {
	schedule      *Schedule
	cells         []runningCell[T]
	state, memory *autodiff.Matrix[T] // what goes into the first cell; no memory if the cells have none
	start         *autodiff.Matrix[T] // of states and memories, a row for each sentence of the schedule; nil is zeros
}

// newChain readies the replica's chain. x is what the first cell reads, and later what the second one does, which is there only when its
// step comes; nil if it reads nothing.
func (r *Replica[T]) newChain(cells []model.Cell, s *Schedule, start, x, later *autodiff.Matrix[T]) *cellChain[T] {
	c := &r.chain
	rows, dim := s.Rows(), cells[0].Dim
	*c = cellChain[T]{schedule: s, cells: c.cells[:0], start: start, state: r.tape.Room(rows, dim)}
	if cells[0].Kind.Memory() {
		c.memory = r.tape.Room(rows, dim)
	}
	before := c.state
	for i := range cells {
		cell := runningCell[T]{cell: &cells[i], out: r.tape.Room(rows, dim)}
		switch {
		case cells[i].Input == nil:
		case i == 0:
			cell.input.x = x
		default:
			cell.input.x, cell.input.later = later, true
		}
		if c.memory != nil {
			cell.memory = r.tape.Room(rows, dim)
		}
		r.prepareInput(cell.cell, &cell.input, rows)
		r.prepareState(&cell, before)
		c.cells = append(c.cells, cell)
		before = cell.out
	}
	return c
}

// begin copies the states with which a step begins.
func (c *cellChain[T]) begin(t *autodiff.Tape[T], step int) {
	last := &c.cells[len(c.cells)-1]
	c.carry(t, c.state, last.out, step)
	if c.memory != nil {
		c.carry(t, c.memory, last.memory, step)
	}
}

// carry copies the rows of the step before, or the start, to those of a step.
func (c *cellChain[T]) carry(t *autodiff.Tape[T], to, from *autodiff.Matrix[T], step int) {
	first, rows := c.schedule.Of(step)
	part := t.Part(to, first, rows)
	switch {
	case step > 0:
		before, _ := c.schedule.Of(step - 1)
		t.CopyTo(part, t.Part(from, before, rows))
	case c.start != nil:
		t.CopyTo(part, c.start)
	default:
		clear(part.Value)
	}
}

// run advances a cell by a step. The cells before it must have run.
func (c *cellChain[T]) run(r *Replica[T], cell, step int) {
	first, rows := c.schedule.Of(step)
	c.runWith(r, cell, step, r.fromInput(&c.cells[cell], first, rows))
}

// runWith is run with what comes from the cell's input.
func (c *cellChain[T]) runWith(r *Replica[T], cell, step int, x *autodiff.Matrix[T]) {
	first, rows := c.schedule.Of(step)
	state, memory := c.state, c.memory
	if cell > 0 {
		state, memory = c.cells[cell-1].out, c.cells[cell-1].memory
	}
	if memory != nil {
		memory = r.tape.Part(memory, first, rows)
	}
	r.advance(&c.cells[cell], r.tape.Part(state, first, rows), memory, x, first, rows)
}

// layer runs cells over all steps, from x, in the order of time, and returns what the last one gives.
func (r *Replica[T]) layer(cells []model.Cell, s *Schedule, start, x *autodiff.Matrix[T]) *autodiff.Matrix[T] {
	c := r.newChain(cells, s, start, x, nil)
	for step := range s.Count() {
		c.begin(r.tape, step)
		for i := range c.cells {
			c.run(r, i, step)
		}
	}
	return c.cells[len(c.cells)-1].out
}
