package autodiff

import (
	"math"

	"github.com/sluice-mt/sluice/kernels"
)

// CPU is the device that runs on package kernels, on the core of its goroutine.
type CPU struct {
	Plain[float32]
	transposed, product []float32 // during a call
}

// smallProduct is below how many multiply-adds a product is not worth packing its operand.
const smallProduct = 1 << 14

// Multiply sets y to a product, or adds it.
func (c *CPU) Multiply(y, a, b View[float32], order Order, add bool) {
	inner := productShape(y, a, b, order)
	if y.Rows*y.Cols*inner < smallProduct {
		c.Plain.Multiply(y, a, b, order, add)
		return
	}
	if order == TransposedA {
		a = c.transpose(a)
	}
	packed := c.pack(b, order == TransposedB)
	if !add {
		kernels.MulFloat32(y.Data, y.Stride, a.Data, a.Stride, y.Rows, packed, nil, kernels.None)
		return
	}
	c.product = grow(c.product, y.Rows*y.Cols)
	kernels.MulFloat32(c.product, y.Cols, a.Data, a.Stride, y.Rows, packed, nil, kernels.None)
	for i := range y.Rows {
		row := y.row(i)
		kernels.Add(row, row, c.product[i*y.Cols:(i+1)*y.Cols])
	}
}

// transpose returns the transposed of a, in the device's memory.
func (c *CPU) transpose(a View[float32]) View[float32] {
	c.transposed = grow(c.transposed, a.Rows*a.Cols)
	for i := range a.Rows {
		for j, v := range a.row(i) {
			c.transposed[j*a.Rows+i] = v
		}
	}
	return view(c.transposed, a.Cols, a.Rows)
}

// pack readies the right operand of a product.
func (c *CPU) pack(b View[float32], transposed bool) *kernels.Float32Matrix {
	rows, cols := b.Rows, b.Cols
	contiguous := make([]float32, 0, rows*cols)
	for i := range rows {
		contiguous = append(contiguous, b.row(i)...)
	}
	if !transposed {
		return kernels.PackFloat32(rows, cols, contiguous)
	}
	turned := make([]float32, rows*cols)
	for i := range rows {
		for j := range cols {
			turned[j*rows+i] = contiguous[i*cols+j]
		}
	}
	return kernels.PackFloat32(cols, rows, turned)
}

// Softmax replaces each row of x by e^x/Σe^x.
func (c *CPU) Softmax(x View[float32]) { kernels.Softmax(x.Data, x.Rows, x.Cols, x.Stride) }

// SoftmaxRow replaces x by e^x/Σe^x and returns log(Σe^x): the largest of x has the probability 1/Σe^(x-largest).
func (c *CPU) SoftmaxRow(x []float32) float64 {
	at, largest := kernels.ArgMax(x)
	kernels.Softmax(x, 1, len(x), len(x))
	return float64(largest) - math.Log(float64(x[at]))
}

// Apply sets y to f(x).
func (c *CPU) Apply(y, x []float32, f Function) {
	if len(x) == 0 {
		return
	}
	if &y[0] != &x[0] {
		copy(y, x)
	}
	switch f {
	case ReLU:
		kernels.ReLU(y)
	case Swish:
		kernels.Swish(y)
	case GELU:
		kernels.GELU(y)
	case GELUSigmoid:
		kernels.GELUSigmoid(y)
	case Sigmoid:
		kernels.Sigmoid(y)
	case Tanh:
		kernels.Tanh(y)
	}
}
