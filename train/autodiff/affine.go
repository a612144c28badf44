package autodiff

// affine is y = f(x·w + b).
type affine[T Float] struct {
	y, x, w, b *Matrix[T]
	f          Function // Identity or ReLU
}

// Affine returns x·w + b. x: rows × in, w: in × out, b: 1 × out, or nil.
func (t *Tape[T]) Affine(x, w, b *Matrix[T]) *Matrix[T] { return t.affine(x, w, b, Identity) }

// AffineReLU returns max(0, x·w + b), without keeping what ReLU was applied to.
func (t *Tape[T]) AffineReLU(x, w, b *Matrix[T]) *Matrix[T] { return t.affine(x, w, b, ReLU) }

func (t *Tape[T]) affine(x, w, b *Matrix[T], f Function) *Matrix[T] {
	checkShape(x, x.Rows, w.Rows, "the input of an affine function")
	y := t.matrix(x.Rows, w.Cols)
	var bias []T
	if b != nil {
		checkShape(b, 1, w.Cols, "the bias of an affine function")
		bias = b.Value
	}
	t.device.Affine(view(y.Value, y.Rows, y.Cols), view(x.Value, x.Rows, x.Cols), view(w.Value, w.Rows, w.Cols), Straight, bias, f)
	o := t.affines.next()
	*o = affine[T]{y, x, w, b, f}
	t.record(o)
	return y
}

// dx = dy·wᵀ, dw = xᵀ·dy, db = Σ dy over the rows, where ReLU lets dy through: where y is positive. Dropout may have changed
// y, but where it made a zero, dy is zero too.
func (o *affine[T]) backward(t *Tape[T]) {
	y, x, w := o.y, o.x, o.w
	if o.f == ReLU {
		t.device.Mask(y.Grad, y.Value)
	}
	dy := view(y.Grad, y.Rows, y.Cols)
	if x.Grad != nil {
		t.device.Multiply(view(x.Grad, x.Rows, x.Cols), dy, view(w.Value, w.Rows, w.Cols), TransposedB, true)
	}
	if w.Grad != nil {
		t.device.Multiply(view(w.Grad, w.Rows, w.Cols), view(x.Value, x.Rows, x.Cols), dy, TransposedA, true)
	}
	if o.b != nil && o.b.Grad != nil {
		for i := range y.Rows {
			t.device.Add(o.b.Grad, dy.row(i))
		}
	}
}

// addition is y = a + b, or a copy of a if b is nil.
type addition[T Float] struct{ y, a, b *Matrix[T] }

// Add returns a + b.
func (t *Tape[T]) Add(a, b *Matrix[T]) *Matrix[T] {
	checkShape(b, a.Rows, a.Cols, "a summand")
	y := t.matrix(a.Rows, a.Cols)
	copy(y.Value, a.Value)
	t.device.Add(y.Value, b.Value)
	o := t.additions.next()
	*o = addition[T]{y, a, b}
	t.record(o)
	return y
}

// Copy returns a matrix of the same values, which may be changed in place.
func (t *Tape[T]) Copy(a *Matrix[T]) *Matrix[T] {
	y := t.matrix(a.Rows, a.Cols)
	copy(y.Value, a.Value)
	o := t.additions.next()
	*o = addition[T]{y, a, nil}
	t.record(o)
	return y
}

func (o *addition[T]) backward(t *Tape[T]) {
	if o.a.Grad != nil {
		t.device.Add(o.a.Grad, o.y.Grad)
	}
	if o.b != nil && o.b.Grad != nil {
		t.device.Add(o.b.Grad, o.y.Grad)
	}
}

// activation is y = f(x).
type activation[T Float] struct {
	y, x *Matrix[T]
	f    Function
}

// Apply returns f(x), element by element.
func (t *Tape[T]) Apply(x *Matrix[T], f Function) *Matrix[T] {
	if f == Identity {
		return x
	}
	y := t.matrix(x.Rows, x.Cols)
	t.device.Apply(y.Value, x.Value, f)
	o := t.activations.next()
	*o = activation[T]{y, x, f}
	t.record(o)
	return y
}

// backward does not look at the values of y: dropout may have been there.
func (o *activation[T]) backward(t *Tape[T]) {
	if o.x.Grad != nil {
		t.device.ApplyBackward(o.x.Grad, o.y.Grad, o.x.Value, o.f)
	}
}
