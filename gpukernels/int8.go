package gpukernels

import (
	"cmp"
	"strings"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// An Int8Matrix is rows of 8-bit integers on a device, Int8Stride(Columns) bytes apart, with zeros behind the last column. An integer times
// the scale of its row is the number that it stands for.
type Int8Matrix struct {
	At            cuda.Pointer
	Scales        cuda.Pointer // float32, one for each row
	Rows, Columns int
}

// Int8Stride returns the bytes from one row of k integers to the next.
func Int8Stride(k int) int { return blocks(k, 16) * 16 }

// MaxInt8Columns bounds the length of a sum: an int32 holds this many products of integers up to 127.
const MaxInt8Columns = 1 << 16

// elements is the length of a row as the kernels count it: in what is as large as two integers.
func (m Int8Matrix) elements() int { return Int8Stride(m.Columns) / 2 }

// Quantise sets rows of integers to those of fp16, with a scale for each row: the same integers and scales that kernels.QuantizeRows gives.
// What is not finite becomes a scale that is not.
func (k *Kernels) Quantise(s *cuda.Stream, to Int8Matrix, from Matrix) error {
	if from.Rows == 0 {
		return nil
	}
	if err := cmp.Or(
		need(to.Rows == from.Rows && to.Columns == from.Columns, "quantise", "%d×%d become %d×%d", from.Rows, from.Columns, to.Rows, to.Columns),
		need(from.Columns%8 == 0 && from.stride()%8 == 0, "quantise", "rows of %d elements, %d apart, must be multiples of 8",
			from.Columns, from.stride()),
	); err != nil {
		return err
	}
	return k.byName["quantise"].Launch(s, rowGrid(from.Rows), rowBlock, 0, cuda.Address(from.At), cuda.Address(to.At), cuda.Address(to.Scales),
		cuda.Int(from.Rows), cuda.Int(from.Columns), cuda.Int(from.stride()), cuda.Int(Int8Stride(from.Columns)))
}

// An Int8Product is a Product of integers, whose sums are exact: with an integer q of X and one of Weights, and a scale of each,
// Result = f(Σ q·q · (scale·scale) + Bias) + Residual, every operation in float32 and rounded by itself. Before it is stored as fp16, it has
// the bits of kernels.MulInt8.
type Int8Product struct {
	X         Int8Matrix   // m×k
	Weights   Int8Matrix   // n×k: a row for each column of the result
	Bias      cuda.Pointer // n float32; 0 for none
	Residual  Matrix       // m×n; without an address none
	Result    Matrix       // m×n; may be Residual
	Rectified bool
}

// int8 is the name of the kernel that divides a product of integers in this way.
func (t tiling) int8() string { return strings.Replace(t.name, "product", "product_int8", 1) }

// Int8Product puts a product of integers into the stream. n and the strides of Residual and Result are even.
func (k *Kernels) Int8Product(s *cuda.Stream, p Int8Product) error {
	return k.int8Product(s, p, k.choose(p.Result.Rows, p.Result.Columns))
}

func (k *Kernels) int8Product(s *cuda.Stream, p Int8Product, t tiling) error {
	m, n := p.Result.Rows, p.Result.Columns
	if m == 0 || n == 0 {
		return nil
	}
	if err := checkInt8Product(p); err != nil {
		return err
	}
	return k.byName[t.int8()].Launch(s, cuda.Shape{X: blocks(n, t.n), Y: blocks(m, t.m)}, cuda.Shape{X: t.threads}, t.shared(),
		cuda.Address(p.X.At), cuda.Address(p.X.Scales), cuda.Address(p.Weights.At), cuda.Address(p.Weights.Scales), cuda.Address(p.Bias),
		cuda.Address(p.Residual.At), cuda.Address(p.Result.At), cuda.Int(m), cuda.Int(n), cuda.Int(p.X.elements()),
		cuda.Int(p.Residual.stride()), cuda.Int(p.Result.stride()), flag(p.Rectified))
}

func checkInt8Product(p Int8Product) error {
	m, n, length := p.Result.Rows, p.Result.Columns, p.X.Columns
	return cmp.Or(
		need(p.X.Rows == m && p.Weights.Rows == n && p.Weights.Columns == length, "int8 product",
			"%d×%d times the transpose of %d×%d is not %d×%d", p.X.Rows, length, p.Weights.Rows, p.Weights.Columns, m, n),
		need(length <= MaxInt8Columns, "int8 product", "k = %d, and sums of more than %d products do not fit", length, MaxInt8Columns),
		need(p.Residual.At == 0 || p.Residual.Rows == m && p.Residual.Columns == n, "int8 product", "a residual of %d×%d for a result of %d×%d",
			p.Residual.Rows, p.Residual.Columns, m, n),
		need(n%2 == 0 && p.Result.stride()%2 == 0 && p.Residual.stride()%2 == 0, "int8 product",
			"n = %d and the strides %d and %d must be even", n, p.Result.stride(), p.Residual.stride()),
	)
}

// Int8Scores is Scores of integers.
func (k *Kernels) Int8Scores(s *cuda.Stream, x, table Int8Matrix, bias, result cuda.Pointer) error {
	if x.Rows == 0 {
		return nil
	}
	if err := need(x.Columns == table.Columns, "output", "rows of %d integers, and of %d in the table", x.Columns, table.Columns); err != nil {
		return err
	}
	return k.byName["output_int8_scores"].Launch(s, cuda.Shape{X: blocks(table.Rows, small.n), Y: blocks(x.Rows, small.m)},
		cuda.Shape{X: small.threads}, small.shared(), cuda.Address(x.At), cuda.Address(x.Scales), cuda.Address(table.At),
		cuda.Address(table.Scales), cuda.Address(bias), cuda.Address(result), cuda.Int(x.Rows), cuda.Int(table.Rows), cuda.Int(x.elements()))
}
