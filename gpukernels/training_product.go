package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// An Order says which operand of a product is transposed.
type Order int

// The orders of a product of A and B.
const (
	Straight    Order = iota // A·B
	TransposedB              // A·Bᵀ
	TransposedA              // Aᵀ·B
)

func (o Order) String() string { return [...]string{"straight", "transposed b", "transposed a"}[o] }

func (o Order) kernel(tile string) string {
	return "training_product" + [...]string{"", "_transposed_b", "_transposed_a"}[o] + "_" + tile
}

// A TrainingProduct is Result = f(A·B + Bias) + Residual, or Sums = A·B + Bias, in float32.
type TrainingProduct struct {
	A, B      Matrix
	Order     Order
	Bias      cuda.Pointer // a number for each column, an element or, for Sums, a float32; 0 for none
	Rectified bool         // f is max(0, ·)
	Residual  cuda.Pointer // as the result; 0 for none
	Result    Matrix       // its shape is that of Sums, too

	Sums cuda.Pointer // float32 in place of elements; 0 for elements
	Add  bool         // to what is in Sums
}

// Product puts a product into the stream. Strides of A and B are multiples of 8, and so is what their rows can be read up to; n may be odd
// for Sums only. The bits of an element depend on its row and column alone.
func (t *Training) Product(s *cuda.Stream, p TrainingProduct) error {
	if done, err := t.library.multiply(s, p); done || err != nil {
		return err
	}
	return t.ownProduct(s, p)
}

// ownProduct is Product by the kernels of this package.
func (t *Training) ownProduct(s *cuda.Stream, p TrainingProduct) error {
	tile := middle
	if blocks(p.Result.Rows, large.m)*blocks(p.Result.Columns, large.n) >= t.kernels.multiprocessors {
		tile = large
	}
	return t.product(s, p, tile)
}

func (t *Training) product(s *cuda.Stream, p TrainingProduct, tile tiling) error {
	m, n := p.Result.Rows, p.Result.Columns
	length, err := p.check()
	if err != nil || m == 0 || n == 0 {
		return err
	}
	name := p.Order.kernel("64x64")
	if tile == large {
		name = p.Order.kernel("128x128")
	}
	return t.kernels.byName[name].Launch(s, cuda.Shape{X: blocks(n, tile.n), Y: blocks(m, tile.m)}, cuda.Shape{X: tile.threads}, tile.shared(),
		cuda.Address(p.A.At), cuda.Address(p.B.At), cuda.Address(p.Bias), cuda.Address(p.Residual), cuda.Address(p.Result.At), cuda.Address(p.Sums),
		cuda.Int(m), cuda.Int(n), cuda.Int(length), cuda.Int(p.A.stride()), cuda.Int(p.B.stride()), cuda.Int(p.Result.stride()),
		flag(p.Rectified), flag(p.Add))
}

// check returns the length of the sums.
func (p *TrainingProduct) check() (int, error) {
	rows, inner, inner2, columns := p.A.Rows, p.A.Columns, p.B.Rows, p.B.Columns
	switch p.Order {
	case TransposedA:
		rows, inner = inner, rows
	case TransposedB:
		inner2, columns = columns, inner2
	}
	m, n := p.Result.Rows, p.Result.Columns
	return inner, cmp.Or(
		need(rows == m && inner == inner2 && columns == n, "training product", "%d×%d and %d×%d, in order %d, do not give %d×%d",
			p.A.Rows, p.A.Columns, p.B.Rows, p.B.Columns, p.Order, m, n),
		need(p.A.stride()%8 == 0 && p.B.stride()%8 == 0, "training product", "the strides %d and %d must be multiples of 8",
			p.A.stride(), p.B.stride()),
		need(p.Sums != 0 || n%2 == 0 && p.Result.stride()%2 == 0, "training product", "n = %d and the stride %d must be even", n, p.Result.stride()),
		need(p.Sums == 0 || p.Residual == 0, "training product", "sums have no residual"),
	)
}
