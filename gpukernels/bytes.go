package gpukernels

import (
	"cmp"
	"math"
	"strings"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A ByteMatrix is rows of bytes on a device, 8-bit integers or Float8 as the kernels' arithmetic says, ByteStride(Columns) apart, with zeros
// behind the last column. What is in a byte times the scale of its row is the number that it stands for.
type ByteMatrix struct {
	At            cuda.Pointer
	Scales        cuda.Pointer // float32, one for each row
	Rows, Columns int
}

// ByteStride returns the bytes from one row of k numbers to the next.
func ByteStride(k int) int { return blocks(k, 16) * 16 }

// MaxByteColumns bounds the length of a sum: an int32 holds this many products of integers up to 127.
const MaxByteColumns = 1 << 16

// elements is the length of a row as the kernels count it: in what is as large as two bytes.
func (m ByteMatrix) elements() int { return ByteStride(m.Columns) / 2 }

// Quantise sets rows of bytes to those of fp16, with a scale for each row: integers and scales are those that kernels.QuantizeRows gives, and
// of Float8 the largest of a row becomes ±448. What is not finite becomes a scale that is not.
func (k *Kernels) Quantise(s *cuda.Stream, to ByteMatrix, from Matrix) error {
	return k.quantise(s, to, from, 0)
}

// QuantiseFixed is Quantise with one multiplier for all rows, a model's own: finite rows become the integers that kernels.QuantizeRowsFixed gives.
func (k *Kernels) QuantiseFixed(s *cuda.Stream, to ByteMatrix, from Matrix, multiplier float32) error {
	if err := need(multiplier > 0 && multiplier <= math.MaxFloat32, "quantise", "a multiplier of %v", multiplier); err != nil {
		return err
	}
	return k.quantise(s, to, from, multiplier)
}

// quantise takes a multiplier for each row where fixed is 0.
func (k *Kernels) quantise(s *cuda.Stream, to ByteMatrix, from Matrix, fixed float32) error {
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
	return k.byName["quantise_"+k.bytes].Launch(s, rowGrid(from.Rows), rowBlock, 0, cuda.Address(from.At), cuda.Address(to.At), cuda.Address(to.Scales),
		cuda.Int(from.Rows), cuda.Int(from.Columns), cuda.Int(from.stride()), cuda.Int(ByteStride(from.Columns)), cuda.Float(fixed))
}

// A ByteProduct is a Product of bytes: with a number q of X and one of Weights, and a scale of each,
// Result = f(Σ q·q · (scale·scale) + Bias) + Residual, every operation in float32 and rounded by itself. Sums of integers are exact, and before
// it is stored as fp16, their Result has the bits of kernels.MulInt8.
type ByteProduct struct {
	X         ByteMatrix   // m×k
	Weights   ByteMatrix   // n×k: a row for each column of the result
	Bias      cuda.Pointer // n float32; 0 for none
	Residual  Matrix       // m×n; without an address none
	Result    Matrix       // m×n; may be Residual
	Rectified bool
}

// ofBytes is the name of a kernel for bytes in place of fp16.
func (k *Kernels) ofBytes(name string) string {
	what, rest, _ := strings.Cut(name, "_")
	return what + "_" + k.bytes + "_" + rest
}

// ByteProduct puts a product of bytes into the stream. n and the strides of Residual and Result are even.
func (k *Kernels) ByteProduct(s *cuda.Stream, p ByteProduct) error {
	return k.byteProduct(s, p, k.choose(p.Result.Rows, p.Result.Columns))
}

func (k *Kernels) byteProduct(s *cuda.Stream, p ByteProduct, t tiling) error {
	m, n := p.Result.Rows, p.Result.Columns
	if m == 0 || n == 0 {
		return nil
	}
	if err := checkByteProduct(p); err != nil {
		return err
	}
	return k.byName[k.ofBytes(t.name)].Launch(s, cuda.Shape{X: blocks(n, t.n), Y: blocks(m, t.m)}, cuda.Shape{X: t.threads}, t.shared(),
		cuda.Address(p.X.At), cuda.Address(p.X.Scales), cuda.Address(p.Weights.At), cuda.Address(p.Weights.Scales), cuda.Address(p.Bias),
		cuda.Address(p.Residual.At), cuda.Address(p.Result.At), cuda.Int(m), cuda.Int(n), cuda.Int(p.X.elements()),
		cuda.Int(p.Residual.stride()), cuda.Int(p.Result.stride()), flag(p.Rectified))
}

func checkByteProduct(p ByteProduct) error {
	m, n, length := p.Result.Rows, p.Result.Columns, p.X.Columns
	return cmp.Or(
		need(p.X.Rows == m && p.Weights.Rows == n && p.Weights.Columns == length, "product of bytes",
			"%d×%d times the transpose of %d×%d is not %d×%d", p.X.Rows, length, p.Weights.Rows, p.Weights.Columns, m, n),
		need(length <= MaxByteColumns, "product of bytes", "k = %d, and sums of more than %d products do not fit", length, MaxByteColumns),
		need(p.Residual.At == 0 || p.Residual.Rows == m && p.Residual.Columns == n, "product of bytes", "a residual of %d×%d for a result of %d×%d",
			p.Residual.Rows, p.Residual.Columns, m, n),
		need(n%2 == 0 && p.Result.stride()%2 == 0 && p.Residual.stride()%2 == 0, "product of bytes",
			"n = %d and the strides %d and %d must be even", n, p.Result.stride(), p.Residual.stride()),
	)
}

// ByteScores is Scores of bytes.
func (k *Kernels) ByteScores(s *cuda.Stream, x, table ByteMatrix, bias, result cuda.Pointer) error {
	if x.Rows == 0 {
		return nil
	}
	if err := need(x.Columns == table.Columns, "output", "rows of %d bytes, and of %d in the table", x.Columns, table.Columns); err != nil {
		return err
	}
	return k.byName[k.ofBytes("output_scores")].Launch(s, cuda.Shape{X: blocks(table.Rows, small.n), Y: blocks(x.Rows, small.m)},
		cuda.Shape{X: small.threads}, small.shared(), cuda.Address(x.At), cuda.Address(x.Scales), cuda.Address(table.At),
		cuda.Address(table.Scales), cuda.Address(bias), cuda.Address(result), cuda.Int(x.Rows), cuda.Int(table.Rows), cuda.Int(x.elements()))
}
