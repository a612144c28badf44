package autodiff

import "fmt"

// Recurrences with something between their steps, such as attention, are put together of operations on parts of matrices: Room
// makes a matrix, each step fills its rows, or some columns of them, and Part shows them to others. All of a matrix must be
// filled before Backward.

// Room returns a matrix that other operations are to fill. Its numbers are whatever lies in the memory.
func (t *Tape[T]) Room(rows, cols int) *Matrix[T] { return t.matrix(rows, cols) }

// Zeros returns a matrix of zeros.
func (t *Tape[T]) Zeros(rows, cols int) *Matrix[T] {
	m := t.matrix(rows, cols)
	clear(m.Value)
	return m
}

// Part returns some rows of a matrix, in the same memory.
func (t *Tape[T]) Part(m *Matrix[T], first, rows int) *Matrix[T] {
	part := t.matrices.next()
	*part = Matrix[T]{Rows: rows, Cols: m.Cols, Value: m.Value[first*m.Cols : (first+rows)*m.Cols]}
	if m.Grad != nil {
		part.Grad = m.Grad[first*m.Cols : (first+rows)*m.Cols]
	}
	return part
}

// gathering is y[i] = x[rows[i]].
type gathering[T Float] struct {
	y, x *Matrix[T]
	rows []int32
}

// Gather returns rows of x in another order. rows must stay as they are until Backward.
func (t *Tape[T]) Gather(x *Matrix[T], rows []int32) *Matrix[T] {
	y := t.matrix(len(rows), x.Cols)
	for i, row := range rows {
		copy(y.Row(i), x.Row(int(row)))
	}
	o := t.gatherings.next()
	*o = gathering[T]{y, x, rows}
	t.record(o)
	return y
}

func (o *gathering[T]) backward(t *Tape[T]) {
	if o.x.Grad == nil {
		return
	}
	d := o.x.Cols
	for i, row := range o.rows {
		t.device.Add(o.x.Grad[int(row)*d:(int(row)+1)*d], o.y.Grad[i*d:(i+1)*d])
	}
}

// CopyTo fills y with x.
func (t *Tape[T]) CopyTo(y, x *Matrix[T]) {
	checkShape(x, y.Rows, y.Cols, "what is copied")
	copy(y.Value, x.Value)
	o := t.additions.next()
	*o = addition[T]{y, x, nil}
	t.record(o)
}

// besides is y = a with b beside it.
type besides[T Float] struct{ y, a, b *Matrix[T] }

// Beside returns a matrix whose rows are those of a followed by those of b.
func (t *Tape[T]) Beside(a, b *Matrix[T]) *Matrix[T] {
	checkShape(b, a.Rows, b.Cols, "what is put beside")
	y := t.matrix(a.Rows, a.Cols+b.Cols)
	for i := range y.Rows {
		row := y.Row(i)
		copy(row, a.Row(i))
		copy(row[a.Cols:], b.Row(i))
	}
	o := t.besides.next()
	*o = besides[T]{y, a, b}
	t.record(o)
	return y
}

func (o *besides[T]) backward(*Tape[T]) {
	for i := range o.y.Rows {
		row := o.y.gradRow(i)
		addTo(o.a.gradRow(i), row[:o.a.Cols])
		addTo(o.b.gradRow(i), row[o.a.Cols:])
	}
}

// gradRow returns a row of the gradient.
func (m *Matrix[T]) gradRow(i int) []T { return m.Grad[i*m.Cols : (i+1)*m.Cols] }

// sentenceMean is the mean of the rows of each sentence.
type sentenceMean[T Float] struct {
	y, x      *Matrix[T]
	sentences Segments
}

// SentenceMean returns a row for each sentence: the mean of its rows.
func (t *Tape[T]) SentenceMean(x *Matrix[T], sentences Segments) *Matrix[T] {
	checkSegments(sentences, x.Rows, "a mean")
	y := t.Zeros(sentences.Sentences(), x.Cols)
	for s := range y.Rows {
		mean := y.Row(s)
		for i := sentences[s]; i < sentences[s+1]; i++ {
			addTo(mean, x.Row(i))
		}
		scaleBy(mean, 1/T(max(1, sentences.Len(s))))
	}
	o := t.sentenceMeans.next()
	*o = sentenceMean[T]{y, x, sentences}
	t.record(o)
	return y
}

func (o *sentenceMean[T]) backward(*Tape[T]) {
	for s := range o.y.Rows {
		share := 1 / T(max(1, o.sentences.Len(s)))
		for i := o.sentences[s]; i < o.sentences[s+1]; i++ {
			addScaled(o.x.gradRow(i), o.y.gradRow(s), share)
		}
	}
}

func scaleBy[T Float](x []T, factor T) {
	for i := range x {
		x[i] *= factor
	}
}

// shift adds a bias to some columns of y.
type shift[T Float] struct {
	y, bias *Matrix[T]
	first   int
}

// Shift adds a bias to the columns of y from the first one on, in place: as with Dropout, whoever used y before must not need it
// any more.
func (t *Tape[T]) Shift(y *Matrix[T], first int, bias *Matrix[T]) {
	if bias.Rows != 1 || first+bias.Cols > y.Cols {
		panic(fmt.Sprintf("autodiff: a bias of %d×%d does not fit to column %d of %d", bias.Rows, bias.Cols, first, y.Cols))
	}
	for i := range y.Rows {
		t.device.Add(y.Row(i)[first:first+bias.Cols], bias.Value)
	}
	if bias.Grad == nil {
		return
	}
	o := t.shifts.next()
	*o = shift[T]{y, bias, first}
	t.record(o)
}

func (o *shift[T]) backward(t *Tape[T]) {
	for i := range o.y.Rows {
		t.device.Add(o.bias.Grad, o.y.gradRow(i)[o.first:o.first+o.bias.Cols])
	}
}

// masking is y = x, each column multiplied by a number.
type masking[T Float] struct {
	y, x *Matrix[T]
	mask []T
}

// ColumnMask draws for each of some columns zero, with probability p, or 1/(1-p), for Mask: dropout that is the same in every row,
// as over time in Gal and Ghahramani, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks", 2016. It is nil
// if nothing is dropped.
func (t *Tape[T]) ColumnMask(p float64, cols int) []T {
	if !t.recording || p <= 0 {
		return nil
	}
	mask := t.arena.take(cols)
	for i := range mask {
		mask[i] = 1
	}
	applyMask(t.newMask(p, 1), mask)
	return mask
}

// Mask fills y with x, each column multiplied by its number of the mask.
func (t *Tape[T]) Mask(y, x *Matrix[T], mask []T) {
	checkShape(x, y.Rows, len(mask), "what is masked")
	for i := range y.Rows {
		multiply(y.Row(i), x.Row(i), mask)
	}
	o := t.maskings.next()
	*o = masking[T]{y, x, mask}
	t.record(o)
}

func (o *masking[T]) backward(*Tape[T]) {
	for i := range o.y.Rows {
		addProduct(o.x.gradRow(i), o.y.gradRow(i), o.mask)
	}
}

// elementProduct is y = a·b, element by element.
type elementProduct[T Float] struct{ y, a, b *Matrix[T] }

// Times fills y with the products of the elements of a and b.
func (t *Tape[T]) Times(y, a, b *Matrix[T]) {
	checkShape(a, y.Rows, y.Cols, "a factor")
	checkShape(b, y.Rows, y.Cols, "a factor")
	multiply(y.Value, a.Value, b.Value)
	o := t.elementProducts.next()
	*o = elementProduct[T]{y, a, b}
	t.record(o)
}

func (o *elementProduct[T]) backward(*Tape[T]) {
	addProduct(o.a.Grad, o.y.Grad, o.b.Value)
	addProduct(o.b.Grad, o.y.Grad, o.a.Value)
}

// multiply sets y to a·b, element by element.
func multiply[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = a[i] * b[i]
	}
}

// addProduct adds a·b to y, element by element.
func addProduct[T Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] += a[i] * b[i]
	}
}
