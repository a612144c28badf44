package gpunetwork

import (
	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// Recurrences with something between their steps are put together of operations on parts of matrices, as in package autodiff: room makes a
// matrix, each step fills its rows, or some columns of them, and part shows them to others. Gradients of such a matrix are added to from the
// beginning, when they are zeros, so that it does not matter which step comes first.

// settle makes the gradient of a matrix zeros that can be added to, if there is nothing in it.
func (t *tape) settle(m *matrix) error {
	if m.given {
		return nil
	}
	m.given = true
	return t.stream.Zero(m.grad, 2*m.numbers())
}

// room returns a matrix that other operations are to fill.
func (t *tape) room(rows, cols int) *matrix {
	m := t.matrix(rows, cols)
	t.do(func() error { return t.settle(m) })
	return m
}

// part returns some rows of a matrix, in the same memory.
func (t *tape) part(m *matrix, first, rows int) *matrix {
	t.do(func() error { return t.settle(m) })
	return &matrix{rows: rows, cols: m.cols, at: cuda.Offset[uint16](m.at, first*m.cols), grad: cuda.Offset[uint16](m.grad, first*m.cols), given: true}
}

// columns returns some columns of the values and of the gradient of a matrix.
func (m *matrix) columns(first, width int) (values, gradient gpukernels.Matrix) {
	values = gpukernels.Matrix{At: cuda.Offset[uint16](m.at, first), Rows: m.rows, Columns: width, Stride: m.cols}
	gradient = values
	gradient.At = cuda.Offset[uint16](m.grad, first)
	return values, gradient
}

// gather returns rows of x in another order. One may be there several times.
func (t *tape) gather(x *matrix, rows []int32) *matrix {
	y := t.matrix(len(rows), x.cols)
	order, starts := rowsOfTokens(rows)
	at, readers := t.put(rows), gpukernels.TokenRows{Order: t.put(order), Starts: t.put(starts), Count: len(starts) - 1}
	t.record(func() error { return t.kernels.Gather(t.stream, y.view(), x.at, at) }, func() error {
		if err := t.settle(x); err != nil {
			return err
		}
		return t.kernels.GatherBackward(t.stream, x.grad, y.grad, at, x.cols, readers)
	})
	return y
}

// beside returns the rows of a, each followed by that of b.
func (t *tape) beside(a, b *matrix) *matrix {
	y := t.matrix(a.rows, a.cols+b.cols)
	t.besidePart(y, a, 0)
	t.besidePart(y, b, a.cols)
	return y
}

// besidePart copies x into columns of y.
func (t *tape) besidePart(y, x *matrix, first int) {
	values, gradient := y.columns(first, x.cols)
	t.record(func() error { return t.kernels.CopyColumns(t.stream, values, x.view(), false) }, func() error {
		add := x.given
		x.given = true
		return t.kernels.CopyColumns(t.stream, x.gradient(), gradient, add)
	})
}

// copyTo fills y with x, which has its shape.
func (t *tape) copyTo(y, x *matrix) {
	t.record(func() error { return t.stream.Copy(y.at, x.at, 2*x.numbers()) }, func() error { return t.pass(x, y.grad) })
}

// sentenceMean returns a row for each sentence: the mean of its rows.
func (t *tape) sentenceMean(x *matrix, s *side) *matrix {
	y := t.matrix(s.count, x.cols)
	t.record(func() error { return t.kernels.SentenceMean(t.stream, y.view(), x.at, s.sentences) }, func() error {
		return t.contribute(x, func(dx cuda.Pointer) error {
			return t.kernels.SentenceMeanBackward(t.stream, dx, y.grad, x.cols, s.sentences)
		})
	})
	return y
}

// dropColumns fills y with x without the columns that are dropped, the same in all rows. Columns come in groups; without any, they have no gaps.
func (t *tape) dropColumns(y, x *matrix, groups []group, d gpukernels.Dropout) {
	if len(groups) == 0 {
		groups = []group{{gpukernels.Spacing{Width: x.cols, Stored: x.cols}, 1}}
	}
	t.record(func() error { return t.dropGroups(y.view(), x.view(), groups, d, false) }, func() error {
		add := x.given
		x.given = true
		return t.dropGroups(x.gradient(), y.gradient(), groups, d, add)
	})
}

// dropGroups sets y to x without the columns that are dropped, or adds that.
func (t *tape) dropGroups(y, x gpukernels.Matrix, groups []group, d gpukernels.Dropout, add bool) error {
	column, first := 0, 0
	for _, g := range groups {
		of := gpukernels.Matrix{At: cuda.Offset[uint16](x.At, column), Rows: x.Rows, Columns: g.count * g.Stored, Stride: x.Columns}
		if err := t.kernels.DropColumns(t.stream, cuda.Offset[uint16](y.At, column), of, first, g.Spacing, d, add); err != nil {
			return err
		}
		column, first = column+of.Columns, first+g.count*g.Width
	}
	return nil
}

// times fills y with the products of the elements of a and b.
func (t *tape) times(y, a, b *matrix) {
	t.record(func() error { return t.kernels.Times(t.stream, y.at, a.at, b.at, y.numbers(), false) }, func() error {
		for _, factors := range [2][2]*matrix{{a, b}, {b, a}} {
			add := factors[0].given
			factors[0].given = true
			if err := t.kernels.Times(t.stream, factors[0].grad, y.grad, factors[1].at, y.numbers(), add); err != nil {
				return err
			}
		}
		return nil
	})
}

// A joint is a product whose input is filled, and whose result is asked for, some rows at a time: see autodiff.Joint. All of its rows must be
// asked for. The gradients of the parameters wait for the last of them, so that they take one product each and not one for every step.
type joint struct {
	tape       *tape
	product    *model.Product
	biases     []*marian.Tensor // side by side, added to the result
	x          *matrix
	factor     *matrix        // x, or what it is rounded to, without a gradient
	raw, y     *matrix        // before and after the norms; the same without norms
	statistics []cuda.Pointer // of the rows, for each norm
}

func (t *tape) joint(p *model.Product, biases []*marian.Tensor, x *matrix) *joint {
	j := &joint{tape: t, product: p, biases: biases, x: x, factor: x, raw: t.room(x.rows, p.Width())}
	if t.worker.quantised {
		j.factor = &matrix{rows: x.rows, cols: x.cols, at: t.take(2 * x.numbers())}
	}
	j.y = j.raw
	if len(p.Norms) > 0 {
		j.y = t.room(x.rows, j.raw.cols)
	}
	for range p.Norms {
		j.statistics = append(j.statistics, t.floats(2*x.rows))
	}
	t.record(func() error { return nil }, j.backward)
	return j
}

// multiply returns a whole product, with biases, if there are any.
func (t *tape) multiply(p *model.Product, biases []*marian.Tensor, x *matrix) *matrix {
	return t.joint(p, biases, x).rows(0, x.rows)
}

// rows computes rows of a product, whose input must be there.
func (j *joint) rows(first, rows int) *matrix {
	t := j.tape
	x, raw, y, column := t.part(j.x, first, rows), t.part(j.raw, first, rows), t.part(j.y, first, rows), 0
	factor := gpukernels.Matrix{At: cuda.Offset[uint16](j.factor.at, first*x.cols), Rows: rows, Columns: x.cols}
	if j.factor != j.x {
		t.do(func() error { return t.kernels.RoundRows(t.stream, factor.At, x.view()) })
	}
	for i := range j.product.Matrices {
		t.multiplyBy(&j.product.Matrices[i], factor, x, raw, column)
		column += j.product.Matrices[i].Out
	}
	for i := range j.product.Norms {
		n, epsilon := j.norm(i, raw, first), j.product.Epsilon
		values, gradient := y.columns(j.columnOfNorm(i), n.X.Columns)
		_, dx := raw.columns(j.columnOfNorm(i), n.X.Columns)
		t.record(func() error { return t.kernels.Norm(t.stream, values.At, n, epsilon) },
			func() error { return t.kernels.NormBackward(t.stream, dx.At, false, gradient.At, n) })
	}
	t.do(func() error {
		return j.eachBias(y, func(bias *marian.Tensor, values, _ gpukernels.Matrix) error {
			return t.kernels.Shift(t.stream, values, t.value(bias))
		})
	})
	return y
}

// multiplyBy multiplies rows of the input, which are factor, by a matrix, into columns of the result from one on.
func (t *tape) multiplyBy(a *model.Affine, factor gpukernels.Matrix, x, raw *matrix, column int) {
	w := gpukernels.Matrix{At: t.stored(a.W), Rows: a.In, Columns: a.Out}
	values, gradient := raw.columns(column, a.Out)
	t.record(func() error {
		return t.kernels.Product(t.stream, gpukernels.TrainingProduct{A: factor, B: w, Bias: t.stored(a.B), Result: values})
	}, func() error {
		return t.kernels.Product(t.stream, gpukernels.TrainingProduct{A: gradient, B: w, Order: gpukernels.TransposedB, Residual: x.grad, Result: x.gradient()})
	})
}

// norm returns one of the norms, of rows of the product from first on. One alone goes over all columns, others over those of a matrix each.
func (j *joint) norm(i int, raw *matrix, first int) gpukernels.Norm {
	n, width := &j.product.Norms[i], raw.cols
	if len(j.product.Norms) > 1 {
		width = j.product.Matrices[i].Out
	}
	values, _ := raw.columns(j.columnOfNorm(i), width)
	return gpukernels.Norm{X: values, Scale: j.tape.value(n.Scale), Bias: j.tape.value(n.Bias), Statistics: cuda.Offset[float32](j.statistics[i], 2*first),
		Spacing: j.tape.worker.layout.spacing(n.Scale)}
}

// columnOfNorm is the first of a norm's columns.
func (j *joint) columnOfNorm(i int) int {
	column := 0
	for _, a := range j.product.Matrices[:i] {
		column += a.Out
	}
	return column
}

// eachBias calls work with each bias and the columns of y that it is added to.
func (j *joint) eachBias(y *matrix, work func(bias *marian.Tensor, values, gradient gpukernels.Matrix) error) error {
	column := 0
	for _, bias := range j.biases {
		width := j.tape.worker.network.Parameter(bias).Cols
		values, gradient := y.columns(column, width)
		if err := work(bias, values, gradient); err != nil {
			return err
		}
		column += width
	}
	return nil
}

// backward adds the gradients of the parameters: of a matrix xᵀ·dy, of what is added to it Σ dy over the rows.
func (j *joint) backward() error {
	t, column := j.tape, 0
	for i := range j.product.Norms {
		n := j.norm(i, j.raw, 0)
		_, dy := j.y.columns(j.columnOfNorm(i), n.X.Columns)
		groups := t.floats(2 * gpukernels.GroupNumbers(n.X.Rows, n.X.Columns))
		if t.err != nil {
			return t.err
		}
		of := &j.product.Norms[i]
		if err := t.kernels.NormParameters(t.stream, t.slope(of.Scale), t.slope(of.Bias), dy.At, n, groups); err != nil {
			return err
		}
	}
	for i := range j.product.Matrices {
		a := &j.product.Matrices[i]
		_, dy := j.raw.columns(column, a.Out)
		column += a.Out
		dw := gpukernels.TrainingProduct{A: j.factor.view(), B: dy, Order: gpukernels.TransposedA, Sums: t.slope(a.W), Add: true,
			Result: gpukernels.Matrix{Rows: a.In, Columns: a.Out}}
		if err := t.kernels.Product(t.stream, dw); err != nil {
			return err
		}
		if a.B == nil {
			continue
		}
		if err := t.addColumns(a.B, dy); err != nil {
			return err
		}
	}
	return j.eachBias(j.y, func(bias *marian.Tensor, _, gradient gpukernels.Matrix) error { return t.addColumns(bias, gradient) })
}

// addColumns adds the sums of the columns of dy to the gradient of a bias.
func (t *tape) addColumns(bias *marian.Tensor, dy gpukernels.Matrix) error {
	groups := t.floats(gpukernels.GroupNumbers(dy.Rows, dy.Columns))
	if t.err != nil {
		return t.err
	}
	return t.kernels.AddColumns(t.stream, t.slope(bias), dy, groups)
}

// constant returns rows of biases, side by side.
func (t *tape) constant(biases []*marian.Tensor, rows, cols int) *matrix {
	y := t.room(rows, cols)
	j := joint{tape: t, biases: biases}
	t.record(func() error {
		if err := t.stream.Zero(y.at, 2*y.numbers()); err != nil {
			return err
		}
		return j.eachBias(y, func(bias *marian.Tensor, values, _ gpukernels.Matrix) error {
			return t.kernels.Shift(t.stream, values, t.value(bias))
		})
	}, func() error {
		return j.eachBias(y, func(bias *marian.Tensor, _, gradient gpukernels.Matrix) error { return t.addColumns(bias, gradient) })
	})
	return y
}
