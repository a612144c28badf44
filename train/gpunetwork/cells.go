package gpunetwork

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// Memories are what cells remember, in float32, and the gradient of that.
type memories struct{ at, grad cuda.Pointer }

// memories returns room for n numbers.
func (t *tape) memories(n int) memories {
	m := memories{t.floats(n), t.floats(n)}
	t.do(func() error { return t.stream.Zero(m.grad, 4*n) })
	return m
}

// from returns the numbers from one on.
func (m memories) from(n int) memories {
	return memories{cuda.Offset[float32](m.at, n), cuda.Offset[float32](m.grad, n)}
}

// widened returns x as memories.
func (t *tape) widened(x *matrix) memories {
	m := t.memories(x.numbers())
	t.record(func() error { return t.kernels.Widen(t.stream, m.at, x.at, x.numbers()) }, func() error {
		return t.contribute(x, func(dx cuda.Pointer) error { return t.kernels.Store(t.stream, dx, m.grad, x.numbers()) })
	})
	return m
}

// A cellStep is a step of a cell: matrices may be nil, and memories zero, where its kind has none.
type cellStep struct {
	kind           model.CellKind
	x, u           *matrix // what comes from the input and from the state
	state          *matrix // what a GRU gave last
	input          *matrix // that an SRU reads
	before, memory memories
	out            *matrix
}

// run advances the cell.
func (s *cellStep) run(t *tape) {
	c := gpukernels.TrainingCell{Kind: gpukernels.CellKind(s.kind), Before: s.before.at, Out: s.out.at, Memory: s.memory.at, Rows: s.out.rows,
		Columns: s.out.cols}
	d := gpukernels.TrainingCell{Before: s.before.grad, Out: s.out.grad, Memory: s.memory.grad}
	for _, read := range []struct {
		m          *matrix
		at, ofGrad *cuda.Pointer
	}{{s.x, &c.X, &d.X}, {s.u, &c.U, &d.U}, {s.state, &c.State, &d.State}, {s.input, &c.Input, &d.Input}} {
		if read.m != nil {
			t.do(func() error { return t.settle(read.m) })
			*read.at, *read.ofGrad = read.m.at, read.m.grad
		}
	}
	t.record(func() error { return t.kernels.Cell(t.stream, c) }, func() error { return t.kernels.CellBackward(t.stream, d, c) })
}

// recurrentMask draws which columns of an input or a state recurrent dropout drops: the same in all steps and sentences of a batch.
func (f *forward) recurrentMask() gpukernels.Dropout { return f.tape.draw(f.options.DropoutRNN) }

// masked returns x, which is to meet a matrix of weights, after recurrent dropout.
func (f *forward) masked(x *matrix, weights *marian.Tensor) *matrix {
	mask := f.recurrentMask()
	if mask == (gpukernels.Dropout{}) {
		return x
	}
	y := f.tape.matrix(x.rows, x.cols)
	f.tape.dropColumns(y, x, f.worker.layout.rowsOf(weights), mask)
	return y
}

// A steppedProduct is the product of an input that is filled step by step, after dropout.
type steppedProduct struct {
	x, dropped *matrix // the same without dropout
	mask       gpukernels.Dropout
	groups     []group // of the columns of the input
	joint      *joint
}

func (f *forward) stepped(p *model.Product, biases []*marian.Tensor, x *matrix, mask gpukernels.Dropout) steppedProduct {
	s := steppedProduct{x: x, dropped: x, mask: mask}
	if mask != (gpukernels.Dropout{}) {
		s.dropped = f.tape.room(x.rows, x.cols)
		s.groups = f.worker.layout.rowsOf(p.Matrices[0].W)
	}
	s.joint = f.tape.joint(p, biases, s.dropped)
	return s
}

// rows returns the product of some rows of the input.
func (s *steppedProduct) rows(t *tape, first, rows int) *matrix {
	if s.dropped != s.x {
		t.dropColumns(t.part(s.dropped, first, rows), t.part(s.x, first, rows), s.groups, s.mask)
	}
	return s.joint.rows(first, rows)
}

// A cellInput is what a cell reads, in the order of time. Products of what is there before the first step are computed at once.
type cellInput struct {
	x     *matrix // nil for none
	later bool    // it is filled step by step

	product, factor           steppedProduct // of what comes later; factor is that of multiplicative cells
	wholeProduct, wholeFactor *matrix        // of what is there; without an input, wholeProduct is biases in its place, or nil
}

// A runningCell is a cell on its way through the steps of a batch.
type runningCell struct {
	cell     *model.Cell
	out      *matrix  // what it gives, in the order of time
	memory   memories // what it remembers, likewise
	input    cellInput
	state    steppedProduct
	factor   steppedProduct // of the state, of multiplicative cells
	replaced *matrix        // the state of these
}

// biases returns those of a cell that belong to what comes from the input, and those that belong to what comes from the state: inside of the
// reset gate of a GRU, or where there is no input.
func biases(c *model.Cell) (ofInput, ofState []*marian.Tensor) {
	if c.Final || c.Input == nil && !c.Kind.Gated() {
		return nil, c.Bias
	}
	return c.Bias, nil
}

// prepareInput readies what a cell reads in so many steps of sentences, all in all.
func (f *forward) prepareInput(c *model.Cell, in *cellInput, rows int) {
	ofInput, _ := biases(c)
	switch {
	case c.Input == nil:
		if len(ofInput) > 0 {
			in.wholeProduct = f.tape.constant(ofInput, rows, c.State.Width())
		}
	case in.later:
		in.product = f.stepped(c.Input, ofInput, in.x, f.recurrentMask())
		if c.Factors != nil {
			in.factor = f.stepped(&c.Factors[0], nil, in.x, gpukernels.Dropout{})
		}
	default:
		in.wholeProduct = f.tape.multiply(c.Input, ofInput, f.masked(in.x, c.Input.Matrices[0].W))
		if c.Factors != nil {
			in.wholeFactor = f.tape.multiply(&c.Factors[0], nil, in.x)
		}
	}
}

// fromInput returns what some rows of a cell have from the input; nil for nothing.
func (f *forward) fromInput(c *runningCell, first, rows int) *matrix {
	in := &c.input
	switch {
	case in.wholeProduct != nil:
		return f.tape.part(in.wholeProduct, first, rows)
	case !in.later:
		return nil
	}
	return in.product.rows(f.tape, first, rows)
}

// inputFactor returns what a multiplicative cell multiplies its state with.
func (f *forward) inputFactor(in *cellInput, first, rows int) *matrix {
	if in.wholeFactor != nil {
		return f.tape.part(in.wholeFactor, first, rows)
	}
	return in.factor.rows(f.tape, first, rows)
}

// prepareState readies the product of the state, which comes from before.
func (f *forward) prepareState(c *runningCell, before *matrix) {
	if c.cell.Factors != nil {
		c.factor = f.stepped(&c.cell.Factors[1], nil, before, gpukernels.Dropout{})
		before = f.tape.room(before.rows, before.cols)
		c.replaced = before
	}
	if c.cell.State != nil {
		_, ofState := biases(c.cell)
		c.state = f.stepped(c.cell.State, ofState, before, f.recurrentMask())
	}
}

// advance runs rows of a cell: a step. before and memory are the state that it begins with, x is what comes from its input.
func (f *forward) advance(c *runningCell, before *matrix, memory memories, x *matrix, first, rows int) {
	t := f.tape
	if c.replaced != nil {
		replaced := t.part(c.replaced, first, rows)
		t.times(replaced, f.inputFactor(&c.input, first, rows), c.factor.rows(t, first, rows))
		before = replaced
	}
	s := cellStep{kind: c.cell.Kind, x: x, out: t.part(c.out, first, rows), before: memory}
	if c.cell.State != nil {
		s.u = c.state.rows(t, first, rows)
	}
	switch {
	case c.cell.Kind.Memory():
		s.memory = c.memory.from(first * c.out.cols)
	case c.cell.Kind.Gated():
		s.state = before
	}
	if c.cell.Kind == model.SRUCell {
		s.input = t.part(c.input.x, first, rows)
	}
	s.run(t)
}

// A cellChain is cells that run one after another in every step; the state of the last one goes to the first in the next step.
type cellChain struct {
	schedule *network.Schedule
	cells    []runningCell
	state    *matrix  // what goes into the first cell
	start    *matrix  // of states, a row for each sentence of the schedule; nil is zeros
	memory   memories // with which cells begin that have any; none are zeros
}

// newChain makes a chain. x is what the first cell reads, and later what the second one does, which is there only when its step comes; nil if
// it reads nothing.
func (f *forward) newChain(cells []model.Cell, s *network.Schedule, start, x, later *matrix) *cellChain {
	rows, dim := s.Rows(), cells[0].Dim
	c := &cellChain{schedule: s, start: start, state: f.tape.room(rows, dim)}
	if start != nil && cells[0].Kind.Memory() {
		c.memory = f.tape.widened(start)
	}
	before := c.state
	for i := range cells {
		cell := runningCell{cell: &cells[i], out: f.tape.room(rows, dim)}
		switch {
		case cells[i].Input == nil:
		case i == 0:
			cell.input.x = x
		default:
			cell.input.x, cell.input.later = later, true
		}
		if cells[0].Kind.Memory() {
			cell.memory = f.tape.memories(rows * dim)
		}
		f.prepareInput(cell.cell, &cell.input, rows)
		f.prepareState(&cell, before)
		c.cells = append(c.cells, cell)
		before = cell.out
	}
	return c
}

// begin copies the states with which a step begins: those after the step before, or the start.
func (c *cellChain) begin(t *tape, step int) {
	first, rows := c.schedule.Of(step)
	part := t.part(c.state, first, rows)
	switch {
	case step > 0:
		before, _ := c.schedule.Of(step - 1)
		t.copyTo(part, t.part(c.cells[len(c.cells)-1].out, before, rows))
	case c.start != nil:
		t.copyTo(part, c.start)
	default:
		t.do(func() error { return t.stream.Zero(part.at, 2*part.numbers()) })
	}
}

// run advances a cell by a step. The cells before it must have run.
func (c *cellChain) run(f *forward, cell, step int) {
	first, rows := c.schedule.Of(step)
	c.runWith(f, cell, step, f.fromInput(&c.cells[cell], first, rows))
}

// runWith is run with what comes from the cell's input.
func (c *cellChain) runWith(f *forward, cell, step int, x *matrix) {
	first, rows := c.schedule.Of(step)
	state := c.state
	if cell > 0 {
		state = c.cells[cell-1].out
	}
	f.advance(&c.cells[cell], f.tape.part(state, first, rows), c.before(cell, step), x, first, rows)
}

// before returns what a cell remembers when its step begins: from the cell before it, or from the last one in the step before.
func (c *cellChain) before(cell, step int) memories {
	last := &c.cells[len(c.cells)-1]
	switch {
	case !last.cell.Kind.Memory():
		return memories{}
	case cell > 0:
		first, _ := c.schedule.Of(step)
		return c.cells[cell-1].memory.from(first * last.out.cols)
	case step > 0:
		first, _ := c.schedule.Of(step - 1)
		return last.memory.from(first * last.out.cols)
	}
	return c.memory
}

// layer runs cells over all steps, from x, in the order of time, and returns what the last one gives.
func (f *forward) layer(cells []model.Cell, s *network.Schedule, start, x *matrix) *matrix {
	c := f.newChain(cells, s, start, x, nil)
	for step := range s.Count() {
		c.begin(f.tape, step)
		for i := range c.cells {
			c.run(f, i, step)
		}
	}
	return c.cells[len(c.cells)-1].out
}

// cellSublayer runs the cell of a layer of a transformer's decoder over x, in the order of words.
func (f *forward) cellSublayer(cell *model.Cell, x *matrix) *matrix {
	order := f.schedule.Order(false)
	return f.tape.gather(f.layer([]model.Cell{*cell}, &f.schedule, nil, f.tape.gather(x, order.Words)), order.Times)
}
