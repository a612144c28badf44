package autodiff

import (
	"github.com/sluice-mt/sluice/internal/hugepage"
	"github.com/sluice-mt/sluice/kernels"
)

// BFloat16CPU is a CPU whose products round both operands to bfloat16. Their sums are float32, and so is all else. Products that are not worth
// packing an operand are left as they are.
type BFloat16CPU struct {
	CPU
	operands operands[kernels.BFloat16Matrix, *kernels.BFloat16Matrix]
	rounded  []uint16 // the left operand
}

// Reset says that all operands may have changed.
func (c *BFloat16CPU) Reset() {
	c.CPU.Reset()
	c.operands.reset()
}

// Multiply sets y to a product, or adds it.
func (c *BFloat16CPU) Multiply(y, a, b View[float32], order Order, add bool) {
	inner := productShape(y, a, b, order)
	if y.Rows*y.Cols*inner < smallProduct {
		c.Plain.Multiply(y, a, b, order, add)
		return
	}
	x, w := c.round(a, order), c.operands.pack(b, order)
	if add {
		kernels.AccumulateBFloat16(y.Data, y.Stride, x, y.Rows, w)
		return
	}
	kernels.MulBFloat16(y.Data, y.Stride, x, y.Rows, w, nil, kernels.None)
}

// Affine sets y to f(x·w + bias).
func (c *BFloat16CPU) Affine(y, x, w View[float32], order Order, bias []float32, f Function) {
	if inner := productShape(y, x, w, order); y.Rows*y.Cols*inner < smallProduct {
		c.Plain.Affine(y, x, w, order, bias, f)
		return
	}
	kernels.MulBFloat16(y.Data, y.Stride, c.round(x, order), y.Rows, c.operands.pack(w, order), bias, fused(f))
}

// round readies the left operand of a product.
func (c *BFloat16CPU) round(a View[float32], order Order) []uint16 {
	rows, k := a.Rows, a.Cols
	if order == TransposedA {
		rows, k = k, rows
	}
	if size := rows * kernels.BFloat16Stride(k); size > len(c.rounded) {
		c.rounded = hugepage.Make[uint16](size)
	}
	if order == TransposedA {
		kernels.ToBFloat16Transposed(c.rounded, a.Data, a.Stride, rows, k)
	} else {
		kernels.ToBFloat16(c.rounded, a.Data, a.Stride, rows, k)
	}
	return c.rounded
}
