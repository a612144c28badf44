package gpukernels

import (
	"cmp"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A Matrix is rows of fp16 on a device, each Stride elements behind the one before; Stride 0 means that they lie one after another.
type Matrix struct {
	At            cuda.Pointer
	Rows, Columns int
	Stride        int
}

func (m Matrix) stride() int { return cmp.Or(m.Stride, m.Columns) }

// A Product is Result = f(X·Weightsᵀ + Bias) + Residual, where f is max(0, ·) if Rectified.
type Product struct {
	X         Matrix       // m×k
	Weights   Matrix       // n×k without a stride: a row for each column of the result
	Bias      cuda.Pointer // n float32; 0 for none
	Residual  Matrix       // m×n; without an address none
	Result    Matrix       // m×n; may be Residual
	Rectified bool
}

// A tiling is how a kernel of src/product.cu divides its result.
type tiling struct {
	name            string
	m, n            int // of a tile
	threads, stages int
}

var (
	large  = tiling{"product_128x128", 128, 128, 256, 3}
	middle = tiling{"product_64x64", 64, 64, 128, 3}
	small  = tiling{"product_16x64", 16, 64, 128, 4}
	narrow = tiling{"product_16x16", 16, 16, 32, 8} // with little to do for a block, more slices are under way
)

// shared returns the dynamic shared memory of a block: stages of slices of 32 elements and 8 that keep rows apart, in fp16.
func (t tiling) shared() int { return t.stages * (t.m + t.n) * (32 + 8) * 2 }

// choose returns the tiling with the largest tiles that are enough to give every multiprocessor one; of few rows, no tiles may be enough, and
// the smallest come nearest. The result's bits do not depend on it.
func (k *Kernels) choose(m, n int) tiling {
	for _, t := range []tiling{large, middle} {
		if m > t.m/2 && blocks(m, t.m)*blocks(n, t.n) >= k.multiprocessors {
			return t
		}
	}
	if m > 2*small.m {
		return middle
	}
	if blocks(m, small.m)*blocks(n, small.n) < k.multiprocessors {
		return narrow
	}
	return small
}

// Product puts a product into the stream. k and the strides are multiples of 8, n is even.
func (k *Kernels) Product(s *cuda.Stream, p Product) error {
	return k.product(s, p, k.choose(p.Result.Rows, p.Result.Columns))
}

func (k *Kernels) product(s *cuda.Stream, p Product, t tiling) error {
	m, n, length := p.Result.Rows, p.Result.Columns, p.X.Columns
	if m == 0 || n == 0 {
		return nil
	}
	if err := checkProduct(p); err != nil {
		return err
	}
	return k.byName[t.name].Launch(s, cuda.Shape{X: blocks(n, t.n), Y: blocks(m, t.m)}, cuda.Shape{X: t.threads}, t.shared(),
		cuda.Address(p.X.At), cuda.Address(p.Weights.At), cuda.Address(p.Bias), cuda.Address(p.Residual.At), cuda.Address(p.Result.At),
		cuda.Int(m), cuda.Int(n), cuda.Int(length), cuda.Int(p.X.stride()), cuda.Int(p.Residual.stride()), cuda.Int(p.Result.stride()),
		flag(p.Rectified))
}

func checkProduct(p Product) error {
	m, n, length := p.Result.Rows, p.Result.Columns, p.X.Columns
	return cmp.Or(
		need(p.X.Rows == m && p.Weights.Rows == n && p.Weights.Columns == length, "product", "%d×%d times the transpose of %d×%d is not %d×%d",
			p.X.Rows, length, p.Weights.Rows, p.Weights.Columns, m, n),
		need(p.Weights.stride() == length, "product", "the weights are %d elements apart, not %d", p.Weights.stride(), length),
		need(p.Residual.At == 0 || p.Residual.Rows == m && p.Residual.Columns == n, "product", "a residual of %d×%d for a result of %d×%d",
			p.Residual.Rows, p.Residual.Columns, m, n),
		need(length%8 == 0 && p.X.stride()%8 == 0, "product", "k = %d and the stride %d must be multiples of 8", length, p.X.stride()),
		need(n%2 == 0 && p.Result.stride()%2 == 0 && p.Residual.stride()%2 == 0, "product", "n = %d and the strides %d and %d must be even",
			n, p.Result.stride(), p.Residual.stride()),
	)
}
