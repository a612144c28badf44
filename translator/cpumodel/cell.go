package cpumodel

import (
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A product is a packed model.Product.
type product struct {
	linear  *linear
	norms   []productNorm
	epsilon float32
}

// A productNorm is a layer norm of width columns of a product, from the column first on.
type productNorm struct {
	first, width int
	scale, bias  []float32
}

func (p *packer) product(from *model.Product) *product {
	to := &product{linear: p.linear(from.Matrices...), epsilon: from.Epsilon}
	first := 0
	for i := range from.Norms {
		width := from.Width()
		if len(from.Norms) > 1 {
			width = from.Matrices[i].Out
		}
		to.norms = append(to.norms, productNorm{first, width, p.vector(from.Norms[i].Scale), p.vector(from.Norms[i].Bias)})
		first += width
	}
	return to
}

// add makes a bias part of the product: of its norm if it has one.
func (p *product) add(bias []float32) {
	if len(p.norms) == 0 {
		p.linear.add(bias)
		return
	}
	for i := range p.norms {
		n := &p.norms[i]
		n.bias = sum(n.bias, bias[n.first:n.first+n.width])
	}
}

// sum adds two biases, of which the first may be nil.
func sum(a, b []float32) []float32 {
	total := append([]float32(nil), b...)
	for i := range a {
		total[i] += a[i]
	}
	return total
}

// extend puts the columns of another product of the same input beside the product's own.
func (p *packer) extend(to *product, own, more *model.Product) {
	extended := p.product(&model.Product{Matrices: append(append([]model.Affine(nil), own.Matrices...), more.Matrices...)})
	to.linear = extended.linear
	for i := range more.Norms {
		to.norms = append(to.norms, productNorm{own.Width(), more.Width(), p.vector(more.Norms[i].Scale), p.vector(more.Norms[i].Bias)})
	}
}

// product computes y = norm(x·p) for rows of x, contiguous in both.
func (s *Stepper) product(y []float32, p *product, x []float32, rows int) {
	n := p.linear.n
	s.operand.set(x, rows, p.linear.k)
	s.mul(y, n, p.linear, kernels.None)
	for i := range p.norms {
		norm := &p.norms[i]
		if norm.width == n {
			kernels.LayerNorm(y[:rows*n], y, nil, norm.scale, norm.bias, rows, n, p.epsilon)
			continue
		}
		for row := range rows {
			part := y[row*n+norm.first:][:norm.width]
			kernels.LayerNorm(part, part, nil, norm.scale, norm.bias, 1, norm.width, p.epsilon)
		}
	}
}

// A cell is a packed recurrent cell. Its bias is part of a product where that gives the same; only a GRU without input that has it
// outside of the reset gate keeps it, in the place of an input.
type cell struct {
	kind   model.CellKind
	dim    int
	input  *product // nil if the cell has no input
	state  *product // nil for SRU and SSRU
	bias   []float32
	known  *known   // what input makes of embeddings, if it reads them
	plain  bool     // without VectorGates
	factor *product // of multiplicative cells, from the state; the one from the input is the last columns of input
}

func (p *packer) cell(from *model.Cell) *cell {
	c := &cell{kind: from.Kind, dim: from.Dim, plain: p.plain}
	if from.Input != nil {
		c.input = p.product(from.Input)
	}
	if from.State != nil {
		c.state = p.product(from.State)
	}
	if from.Factors != nil {
		c.factor = p.product(&from.Factors[1])
		p.extend(c.input, from.Input, &from.Factors[0])
	}
	var bias []float32
	for _, t := range from.Bias {
		bias = append(bias, p.vector(t)...)
	}
	if len(bias) > 0 {
		c.place(bias, from.Final)
	}
	return c
}

// place puts the bias where it belongs: to what comes from the state if it is inside of the reset gate of a GRU, else to what
// comes from the input.
func (c *cell) place(bias []float32, final bool) {
	switch {
	case c.input != nil && !final:
		if extra := c.input.linear.n - len(bias); extra > 0 {
			bias = append(bias, make([]float32, extra)...)
		}
		c.input.add(bias)
	case final || !c.kind.Gated():
		c.state.add(bias)
	default:
		c.bias = bias
	}
}

// cellRows are rows that go through a cell.
type cellRows struct {
	count    int
	outputs  []float32   // count × dim: what the cell gave last, replaced by what it gives now
	memories []float32   // count × dim, of cells with a memory
	x        [][]float32 // what the cell's product of the input gave, row by row
	input    []float32   // the input itself, which only SRUs look at
	at       []int32     // which row of x and input belongs to each row
	shared   bool        // whether the rows are those of a step, with the states before it
}

// run advances the rows by the cell. x and input are not looked at if the cell has no input.
func (s *Stepper) run(c *cell, r *cellRows) {
	dim, b := c.dim, &s.cells
	if c.factor != nil {
		s.multiply(c, r)
	}
	width := 0
	if c.state != nil {
		width = c.state.linear.n
		s.fromStates(c, r)
	}
	for i := range r.count {
		x, input := c.bias, []float32(nil)
		if c.input != nil {
			k, at := c.input.linear.k, int(r.at[i])
			x = r.x[at]
			if r.input != nil {
				input = r.input[at*k : (at+1)*k]
			}
		}
		var memory []float32
		if c.kind.Memory() {
			memory = r.memories[i*dim : (i+1)*dim]
		}
		c.advance(r.outputs[i*dim:(i+1)*dim], memory, x, b.fromState[i*width:(i+1)*width], input)
	}
}

// multiply replaces the outputs by their products with the cell's factors.
func (s *Stepper) multiply(c *cell, r *cellRows) {
	dim, b := c.dim, &s.cells
	b.factors = grow(b.factors, r.count*dim)
	s.product(b.factors, c.factor, r.outputs[:r.count*dim], r.count)
	n := c.input.linear.n
	for i := range r.count {
		factor := r.x[r.at[i]][n-dim:]
		out := r.outputs[i*dim : (i+1)*dim]
		for j := range out {
			out[j] = factor[j] * b.factors[i*dim+j]
		}
	}
}

// advance advances a row: out is what the cell gave last, and becomes what it gives now. u, which may be overwritten, came
// from the state, and x, which may be nil, from the input.
func (c *cell) advance(out, memory, x, u, input []float32) {
	dim := c.dim
	switch c.kind {
	case model.SRUCell:
		kernels.SRU(memory, out, x[dim:2*dim], x[2*dim:], x[:dim], input)
	case model.SSRUCell:
		kernels.SSRU(memory, out, x[dim:], x[:dim])
	case model.LSTMCell, model.MultiplicativeLSTMCell:
		kernels.LSTM(out, memory, x, u)
	case model.TanhCell, model.ReLUCell:
		if x != nil {
			kernels.Add(u, u, x)
		}
		if c.kind == model.TanhCell {
			kernels.Tanh(u)
		} else {
			kernels.ReLU(u)
		}
		copy(out, u)
	default:
		if c.plain {
			kernels.GRUOneByOne(out, x, u)
		} else {
			kernels.GRU(out, x, u)
		}
	}
}

// cellBuffers are buffers of recurrent cells, valid during a call.
type cellBuffers struct {
	fromState, factors []float32
	states, fromStates []float32 // different states, and what becomes of them
	outputs, memories  []float32
	fromInput          []float32
	inputRows          [][]float32 // of fromInput, or of what is known of embeddings
	places             []int32
	rows               []int32
}

// counting returns the numbers of n rows.
func (b *cellBuffers) counting(n int) []int32 {
	for len(b.rows) < n {
		b.rows = add(b.rows, int32(len(b.rows)))
	}
	return b.rows[:n]
}

// rowsOf returns rows of width elements one by one.
func (b *cellBuffers) rowsOf(x []float32, width, rows int) [][]float32 {
	b.inputRows = b.inputRows[:0]
	for i := range rows {
		b.inputRows = add(b.inputRows, x[i*width:(i+1)*width])
	}
	return b.inputRows
}

// fromInputs computes what a cell's product makes of inputs, row by row.
func (s *Stepper) fromInputs(c *cell, x []float32, rows int) [][]float32 {
	b, width := &s.cells, c.input.linear.n
	b.fromInput = grow(b.fromInput, rows*width)
	s.product(b.fromInput, c.input, x, rows)
	return b.rowsOf(b.fromInput, width, rows)
}

// cellSublayer runs a recurrent sublayer of a transformer whose unit is a cell: from input into attended.
func (s *Stepper) cellSublayer(c *cell, input []float32, slots []search.Slot, layer int) {
	n, b := len(slots), &s.cells
	s.gather(slots, layer, c.dim)
	x := s.fromInputs(c, input, n)
	s.run(c, &cellRows{count: n, outputs: b.outputs, memories: b.memories, x: x, input: input, at: b.counting(n), shared: true})
	s.scatter(slots, layer, c.dim)
	copy(s.attended, b.outputs[:n*c.dim])
}

// gather copies the states of slots in a layer into outputs and memories.
func (s *Stepper) gather(slots []search.Slot, layer, dim int) {
	b := &s.cells
	b.outputs, b.memories = grow(b.outputs, len(slots)*dim), grow(b.memories, len(slots)*dim)
	for i, slot := range slots {
		state := s.state(slot, layer)
		copy(b.outputs[i*dim:(i+1)*dim], state)
		if len(state) > dim {
			copy(b.memories[i*dim:(i+1)*dim], state[dim:])
		}
	}
}

// scatter is the reverse of gather.
func (s *Stepper) scatter(slots []search.Slot, layer, dim int) {
	b := &s.cells
	for i, slot := range slots {
		state := s.state(slot, layer)
		copy(state, b.outputs[i*dim:(i+1)*dim])
		if len(state) > dim {
			copy(state[dim:], b.memories[i*dim:(i+1)*dim])
		}
	}
}
