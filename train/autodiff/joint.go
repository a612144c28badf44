package autodiff

// A Product says how one input is multiplied by matrices whose results stand side by side, and are normalised.
type Product[T Float] struct {
	Factors []Factor[T]
	Norms   []NormParameters[T] // none, one over the whole result, or one over what each factor gives
	Epsilon float64             // of the norms
}

// A Factor is x·W + B. W: in × out, B: 1 × out, or nil.
type Factor[T Float] struct{ W, B *Matrix[T] }

// NormParameters are those of a layer norm. Of a Scale that is too wide, the beginning counts. Bias may be nil.
type NormParameters[T Float] struct{ Scale, Bias *Matrix[T] }

// width is the number of columns of the result.
func (p *Product[T]) width() int {
	width := 0
	for i := range p.Factors {
		width += p.Factors[i].W.Cols
	}
	return width
}

// A Joint is a product whose input is filled, and whose result is asked for, some rows at a time. All of its rows must be asked
// for. The matrices' gradients wait for the last of them, so that they take one product each and not one for every step.
type Joint[T Float] struct {
	product *Product[T]
	x       *Matrix[T]
	factor  *Matrix[T] // x, or what it is rounded to
	raw, y  *Matrix[T] // before and after the norms; the same without norms
}

// Joint returns a product of x, a matrix that need not be filled yet. If rounded, the matrices are multiplied by what QuantiseRows
// makes of x.
func (t *Tape[T]) Joint(p *Product[T], x *Matrix[T], rounded bool) *Joint[T] {
	j := t.joints.next()
	*j = Joint[T]{product: p, x: x, factor: x}
	if rounded {
		j.factor = t.matrices.next()
		*j.factor = Matrix[T]{Rows: x.Rows, Cols: x.Cols, Value: t.arena.take(len(x.Value))}
	}
	j.raw = t.matrix(x.Rows, p.width())
	j.y = j.raw
	if len(p.Norms) > 0 {
		j.y = t.matrix(x.Rows, j.raw.Cols)
	}
	t.record(j)
	return j
}

// Product returns the whole product of x.
func (t *Tape[T]) Product(p *Product[T], x *Matrix[T], rounded bool) *Matrix[T] {
	return t.Rows(t.Joint(p, x, rounded), 0, x.Rows)
}

// columns returns the view of some columns of some rows.
func columns[T Float](data []T, stride, firstRow, rows, first, width int) View[T] {
	if rows == 0 {
		return View[T]{Cols: width, Stride: stride}
	}
	return View[T]{Data: data[firstRow*stride+first : (firstRow+rows-1)*stride+first+width], Rows: rows, Cols: width, Stride: stride}
}

// jointRows is some rows of a Joint.
type jointRows[T Float] struct {
	joint       *Joint[T]
	first, rows int
}

// Rows computes rows of a product, whose input must be there.
func (t *Tape[T]) Rows(j *Joint[T], first, rows int) *Matrix[T] {
	if j.factor != j.x {
		for i := first; i < first+rows; i++ {
			quantiseRow(j.factor.Row(i), j.x.Row(i))
		}
	}
	x := j.factor.rows(j.factor.Value, first, rows)
	column := 0
	for i := range j.product.Factors {
		f := &j.product.Factors[i]
		checkShape(f.W, j.x.Cols, f.W.Cols, "a factor")
		var bias []T
		if f.B != nil {
			checkShape(f.B, 1, f.W.Cols, "the bias of a factor")
			bias = f.B.Value
		}
		t.device.Affine(columns(j.raw.Value, j.raw.Cols, first, rows, column, f.W.Cols), x, kept(f.W), Straight, bias, Identity)
		column += f.W.Cols
	}
	o := t.jointRows.next()
	*o = jointRows[T]{j, first, rows}
	t.record(o)
	t.normaliseColumns(j, first, rows)
	return t.Part(j.y, first, rows)
}

// normaliseColumns runs the norms of a product.
func (t *Tape[T]) normaliseColumns(j *Joint[T], first, rows int) {
	p := j.product
	if len(p.Norms) == 0 {
		return
	}
	raw, y, column := t.Part(j.raw, first, rows), t.Part(j.y, first, rows), 0
	for i := range p.Norms {
		width := y.Cols
		if len(p.Norms) > 1 {
			width = p.Factors[i].W.Cols
		}
		t.normaliseInto(norm[T]{y: y, x: raw, scale: p.Norms[i].Scale, bias: p.Norms[i].Bias, first: column, width: width}, p.Epsilon)
		column += width
	}
}

// dx = dy·wᵀ. See affine.
func (o *jointRows[T]) backward(t *Tape[T]) {
	j := o.joint
	if j.x.Grad == nil {
		return
	}
	dx, column := j.x.rows(j.x.Grad, o.first, o.rows), 0
	for i := range j.product.Factors {
		w := j.product.Factors[i].W
		t.device.Multiply(dx, columns(j.raw.Grad, j.raw.Cols, o.first, o.rows, column, w.Cols), kept(w), TransposedB, true)
		column += w.Cols
	}
}

// dw = xᵀ·dy, db = Σ dy over the rows.
func (j *Joint[T]) backward(t *Tape[T]) {
	x, column := view(j.factor.Value, j.x.Rows, j.x.Cols), 0
	for i := range j.product.Factors {
		w, b := j.product.Factors[i].W, j.product.Factors[i].B
		dy := columns(j.raw.Grad, j.raw.Cols, 0, j.raw.Rows, column, w.Cols)
		if w.Grad != nil {
			t.device.Multiply(view(w.Grad, w.Rows, w.Cols), x, dy, TransposedA, true)
		}
		if b != nil && b.Grad != nil {
			for i := range dy.Rows {
				t.device.Add(b.Grad, dy.row(i))
			}
		}
		column += w.Cols
	}
}
