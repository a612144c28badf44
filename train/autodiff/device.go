package autodiff

import "fmt"

// A View is a matrix inside other memory: Rows × Cols numbers, whose rows are Stride numbers apart.
type View[T Float] struct {
	Data               []T
	Rows, Cols, Stride int
	Kept               bool // the numbers stay as they are until the tape's Reset, and are used in several products
}

func view[T Float](data []T, rows, cols int) View[T] { return View[T]{data, rows, cols, cols, false} }

func (v View[T]) clear() {
	for i := range v.Rows {
		clear(v.row(i))
	}
}

// row returns a row of the view.
func (v View[T]) row(i int) []T { return v.Data[i*v.Stride : i*v.Stride+v.Cols] }

// An Order says which operand of a product is transposed.
type Order uint8

// The orders of a product of a and b.
const (
	Straight    Order = iota // a·b
	TransposedB              // a·bᵀ
	TransposedA              // aᵀ·b
)

// A Function is a function of one number.
type Function uint8

// The functions that layers apply to each element.
const (
	Identity Function = iota
	ReLU
	Swish       // x·σ(x)
	GELU        // x·Φ(x)
	GELUSigmoid // x·σ(1.702·x)
	Sigmoid
	Tanh
)

// A Device does the arithmetic that is worth a kernel. It belongs to one tape.
//
// Sums have an order that depends on the shapes alone, so that the same call gives the same bits.
type Device[T Float] interface {
	// Reset says that what was Kept may have changed.
	Reset()

	// Multiply sets y to the product of a and b, or adds the product to y. The sum of one element goes over ascending
	// rows or columns.
	Multiply(y, a, b View[T], order Order, add bool)

	// Affine sets y to f(x·w + bias), or f(x·wᵀ + bias), with bias, if it is not nil, in every row. f is Identity or ReLU.
	Affine(y, x, w View[T], order Order, bias []T, f Function)

	// Mask sets dy to zero where y is not positive.
	Mask(dy, y []T)

	// Softmax replaces each row of x by e^x/Σe^x.
	Softmax(x View[T])

	// SoftmaxRow replaces x by e^x/Σe^x and returns log(Σe^x).
	SoftmaxRow(x []T) float64

	// Apply sets y to f(x), element by element. y may be x.
	Apply(y, x []T, f Function)

	// ApplyBackward adds dy·f'(x) to dx, element by element. The derivative of ReLU at 0 is 0.
	ApplyBackward(dx, dy, x []T, f Function)

	// Add adds x to y, element by element.
	Add(y, x []T)
}

// productShape checks the shapes of a product and returns the length of its sums.
func productShape[T Float](y, a, b View[T], order Order) int {
	rows, inner, inner2, cols := a.Rows, a.Cols, b.Rows, b.Cols
	switch order {
	case TransposedA:
		rows, inner = a.Cols, a.Rows
	case TransposedB:
		inner2, cols = b.Cols, b.Rows
	}
	if inner != inner2 || y.Rows != rows || y.Cols != cols {
		panic(fmt.Sprintf("autodiff: a product of %d×%d and %d×%d (order %d) does not give %d×%d",
			a.Rows, a.Cols, b.Rows, b.Cols, order, y.Rows, y.Cols))
	}
	return inner
}
