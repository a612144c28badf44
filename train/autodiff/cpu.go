package autodiff

import (
	"math"

	"github.com/sluice-mt/sluice/kernels"
)

// CPU is the device that runs on package kernels, on the core of its goroutine.
type CPU struct {
	Plain[float32]
	operands operands[kernels.Float32Matrix, *kernels.Float32Matrix]
	chunk    [functionChunk]float32 // of ApplyBackward
}

// functionChunk is how many elements a function is computed of at a time in gradients.
const functionChunk = 1024

// smallProduct is below how many multiply-adds a product is not worth packing its operand.
const smallProduct = 1 << 9

// Reset says that all operands may have changed.
func (c *CPU) Reset() { c.operands.reset() }

// Multiply sets y to a product, or adds it.
func (c *CPU) Multiply(y, a, b View[float32], order Order, add bool) {
	inner := productShape(y, a, b, order)
	if y.Rows*y.Cols*inner < smallProduct {
		c.Plain.Multiply(y, a, b, order, add)
		return
	}
	w := c.operands.pack(b, order)
	switch {
	case order == TransposedA:
		if !add {
			y.clear()
		}
		kernels.AccumulateFloat32Transposed(y.Data, y.Stride, a.Data, a.Stride, y.Rows, w)
	case add:
		kernels.AccumulateFloat32(y.Data, y.Stride, a.Data, a.Stride, y.Rows, w)
	default:
		kernels.MulFloat32(y.Data, y.Stride, a.Data, a.Stride, y.Rows, w, nil, kernels.None)
	}
}

// Affine sets y to f(x·w + bias).
func (c *CPU) Affine(y, x, w View[float32], order Order, bias []float32, f Function) {
	if inner := productShape(y, x, w, order); y.Rows*y.Cols*inner < smallProduct {
		c.Plain.Affine(y, x, w, order, bias, f)
		return
	}
	kernels.MulFloat32(y.Data, y.Stride, x.Data, x.Stride, y.Rows, c.operands.pack(w, order), bias, fused(f))
}

// fused is what kernels apply to the results of a product.
func fused(f Function) kernels.Activation {
	if f == ReLU {
		return kernels.Rectified
	}
	return kernels.None
}

// Mask sets dy to zero where y is not positive, without branches.
func (c *CPU) Mask(dy, y []float32) {
	dy = dy[:len(y)]
	for i, v := range y {
		dy[i] = positivePart(dy[i], v)
	}
}

// positivePart returns g if v is positive, else zero. Nothing could predict a branch here.
func positivePart(g, v float32) float32 {
	bits := int32(math.Float32bits(v))
	negative := (bits | (bits - 1)) >> 31 // all ones for a negative number and for zeros
	return math.Float32frombits(math.Float32bits(g) &^ uint32(negative))
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

// Add adds x to y.
func (c *CPU) Add(y, x []float32) { kernels.Add(y, y, x) }

// ApplyBackward adds dy·f'(x) to dx.
func (c *CPU) ApplyBackward(dx, dy, x []float32, f Function) {
	if f == ReLU {
		reluBackward(dx, dy, x)
		return
	}
	for len(x) > 0 {
		n := min(functionChunk, len(x))
		c.chunkBackward(dx[:n], dy[:n], x[:n], f)
		dx, dy, x = dx[n:], dy[n:], x[n:]
	}
}

// reluBackward adds dy where x is positive.
func reluBackward(dx, dy, x []float32) {
	dx, dy = dx[:len(x)], dy[:len(x)]
	for i, v := range x {
		dx[i] += positivePart(dy[i], v)
	}
}

// chunkBackward adds the gradients of a chunk. The exact GELU is left to the reference.
func (c *CPU) chunkBackward(dx, dy, x []float32, f Function) {
	s := c.chunk[:len(x)]
	switch f {
	case Swish:
		c.Apply(s, x, Sigmoid)
		for i, v := range x {
			dx[i] += dy[i] * swishDerivative(v, s[i], 1)
		}
	case GELUSigmoid:
		kernels.Scale(s, x, geluSlope)
		kernels.Sigmoid(s)
		for i, v := range x {
			dx[i] += dy[i] * swishDerivative(v, s[i], geluSlope)
		}
	case Sigmoid:
		c.Apply(s, x, Sigmoid)
		for i, g := range s {
			dx[i] += dy[i] * g * (1 - g)
		}
	case Tanh:
		c.Apply(s, x, Tanh)
		for i, h := range s {
			dx[i] += dy[i] * (1 - h*h)
		}
	default:
		c.Plain.ApplyBackward(dx, dy, x, f)
	}
}
