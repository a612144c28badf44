package gpukernels

import (
	"fmt"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// A Multiplication is how products of 16-bit numbers are computed.
type Multiplication int

const (
	// MeasuredProducts takes, for each kind of product and class of rows, what was found the fastest on this kind of device: the kernels of this
	// package, or an algorithm of cuBLASLt that was seen to give their bits. So what is measured decides how long products take, never what they are.
	MeasuredProducts Multiplication = iota
	// OwnProducts takes the kernels of this package, which give the same bits.
	OwnProducts
	// LibraryProducts takes cuBLASLt for each kind of product for which it has an algorithm that gives a row the same bits for every number of rows:
	// the first one that the library offers, without a measurement, and for all rows. Its bits are those of a device and a version of the library.
	LibraryProducts
)

var multiplicationNames = [...]string{MeasuredProducts: "measured", OwnProducts: "own", LibraryProducts: "cublaslt"}

func (m Multiplication) String() string { return multiplicationNames[m] }

// ParseMultiplication reads a name of String.
func ParseMultiplication(name string) (Multiplication, error) {
	for m, known := range multiplicationNames {
		if name == known {
			return Multiplication(m), nil
		}
	}
	return 0, fmt.Errorf("products are measured, own or cublaslt, not %q", name)
}

// A ProductKind is what products that are computed in the same way have in common: how wide the weights and the rows that meet them are, and
// what happens behind the sums.
type ProductKind struct {
	N, K                int
	Rectified, Residual bool

	// Of training, where TransposedA has sums over the rows of weights and of what meets them: N and K are how wide these are.
	Training bool
	Order    Order
	Unbiased bool
	Sums     bool // results are float32, and so is the residual
}

func (k ProductKind) String() string {
	s := fmt.Sprintf("%dx%d", k.N, k.K)
	if k.Training {
		s += " " + k.Order.String()
	}
	if k.Unbiased {
		s += " unbiased"
	}
	if k.Sums {
		s += " sums"
	}
	if k.Rectified {
		s += " rectified"
	}
	if k.Residual {
		s += " residual"
	}
	return s
}

// rowClasses are the numbers of rows up to which products are computed in the same way, and at which they are measured. The last class has no end.
var rowClasses = [...]int{16, 64, 256, 1024, 4096}

// classOf returns the class of a number of rows.
func classOf(rows int) int {
	for class, most := range rowClasses[:len(rowClasses)-1] {
		if rows <= most {
			return class
		}
	}
	return len(rowClasses) - 1
}

// Algorithms are those of cuBLASLt for a kind of product, one for each class of rows: none where the kernels of this package are taken.
type Algorithms [len(rowClasses)]*cuda.BLASAlgorithm

// Workspace returns the bytes that one stream needs for them.
func (a Algorithms) Workspace() int {
	bytes := 0
	for _, algorithm := range a {
		if algorithm != nil {
			bytes = max(bytes, algorithm.Workspace)
		}
	}
	return bytes
}

// A Multiplier is how products with one matrix of weights are computed. Nil stands for the kernels of this package.
type Multiplier struct {
	kind       ProductKind
	algorithms Algorithms
	product    *cuda.BLASProduct
}

// Multiplier prepares products with a matrix of weights, whose bias is stored in 16 bits: nil, where there is no algorithm.
func (a Algorithms) Multiplier(b *cuda.BLAS, kind ProductKind, stored Storage, bias cuda.Pointer) (*Multiplier, error) {
	if a == (Algorithms{}) {
		return nil, nil
	}
	product, err := b.Product(kind.shape(stored), bias)
	if err != nil {
		return nil, err
	}
	return &Multiplier{kind, a, product}, nil
}

func (k ProductKind) shape(stored Storage) cuda.BLASShape {
	return cuda.BLASShape{N: k.N, K: k.K, BFloat16: stored == BFloat16, Unbiased: k.Unbiased, Rectified: k.Rectified,
		StraightWeights: k.Training && k.Order == Straight, TransposedX: k.overRows(), Float32: k.Sums}
}

// overRows says whether sums are over rows, so that all of them change with the number of rows, and not how many results there are.
func (k ProductKind) overRows() bool { return k.Training && k.Order == TransposedA }

// results is how many rows of results there are.
func (k ProductKind) results(rows int) int {
	if k.overRows() {
		return k.K
	}
	return rows
}

// Close gives back what the library holds, when no product is under way.
func (by *Multiplier) Close() error {
	if by == nil {
		return nil
	}
	return by.product.Close()
}

// ProductBy puts a product into the stream as it is to be computed. Addresses are multiples of 16 bytes and strides of 8 elements. workspace is the
// stream's own, of the size that the algorithms need.
func (k *Kernels) ProductBy(s *cuda.Stream, by *Multiplier, p Product, workspace cuda.Pointer) error {
	algorithm := by.algorithm(p)
	if algorithm == nil {
		return k.Product(s, p)
	}
	if err := checkProduct(p); err != nil {
		return err
	}
	addresses, strides := p.X.At|p.Weights.At|p.Residual.At|p.Result.At, p.Result.stride()|p.Residual.stride()
	if err := need(addresses%cuda.BLASAlignment == 0 && strides%8 == 0, "product", "operands that cuBLASLt cannot take: %+v", p); err != nil {
		return err
	}
	return by.product.Run(s, algorithm, p.operands(workspace))
}

// algorithm is that of a product, nil for the kernels of this package.
func (by *Multiplier) algorithm(p Product) *cuda.BLASAlgorithm {
	if by == nil || p.Result.Rows == 0 || by.kind != kindOf(p) {
		return nil
	}
	return by.algorithms[classOf(p.Result.Rows)]
}

// kindOf is that of a product.
func kindOf(p Product) ProductKind {
	return ProductKind{N: p.Result.Columns, K: p.X.Columns, Rectified: p.Rectified, Residual: p.Residual.At != 0}
}

// operands are those of a product as cuBLASLt wants them.
func (p Product) operands(workspace cuda.Pointer) cuda.BLASOperands {
	return cuda.BLASOperands{X: p.X.At, Weights: p.Weights.At, Residual: p.Residual.At, Result: p.Result.At, Rows: p.Result.Rows,
		XStride: p.X.stride(), ResidualStride: p.Residual.stride(), ResultStride: p.Result.stride(), Workspace: workspace}
}
