package autodiff

import "math"

// Plain is the reference of all devices, in simple loops.
type Plain[T Float] struct{}

// Reset does nothing: nothing is kept.
func (Plain[T]) Reset() {}

// Multiply sets y to a product, or adds it.
func (Plain[T]) Multiply(y, a, b View[T], order Order, add bool) {
	productShape(y, a, b, order)
	if !add {
		y.clear()
	}
	switch order {
	case Straight:
		for i := range y.Rows {
			for k, v := range a.row(i) {
				addScaled(y.row(i), b.row(k), v)
			}
		}
	case TransposedB:
		for i := range y.Rows {
			row := y.row(i)
			for j := range row {
				row[j] += dot(a.row(i), b.row(j))
			}
		}
	case TransposedA:
		for k := range a.Rows {
			for i, v := range a.row(k) {
				addScaled(y.row(i), b.row(k), v)
			}
		}
	}
}

// Affine sets y to f(x·w + bias).
func (p Plain[T]) Affine(y, x, w View[T], order Order, bias []T, f Function) {
	p.Multiply(y, x, w, order, false)
	for i := range y.Rows {
		row := y.row(i)
		if bias != nil {
			addTo(row, bias)
		}
		if f != Identity {
			p.Apply(row, row, f)
		}
	}
}

// Mask sets dy to zero where y is not positive.
func (Plain[T]) Mask(dy, y []T) {
	for i, v := range y {
		if !(v > 0) {
			dy[i] = 0
		}
	}
}

// Softmax replaces each row of x by e^x/Σe^x.
func (p Plain[T]) Softmax(x View[T]) {
	for i := range x.Rows {
		p.SoftmaxRow(x.row(i))
	}
}

// SoftmaxRow replaces x by e^x/Σe^x and returns log(Σe^x).
func (Plain[T]) SoftmaxRow(x []T) float64 {
	largest := maximum(x)
	sum := 0.0
	for i, v := range x {
		x[i] = exp(v - largest)
		sum += float64(x[i])
	}
	for i := range x {
		x[i] = T(float64(x[i]) / sum)
	}
	return float64(largest) + math.Log(sum)
}

// Apply sets y to f(x).
func (Plain[T]) Apply(y, x []T, f Function) {
	for i, v := range x {
		y[i] = apply(f, v)
	}
}

func apply[T Float](f Function, v T) T {
	switch f {
	case ReLU:
		return max(v, 0)
	case Swish:
		return v * sigmoid(v)
	case GELU:
		return v * normalCDF(v)
	case GELUSigmoid:
		return v * sigmoid(geluSlope*v)
	case Sigmoid:
		return sigmoid(v)
	case Tanh:
		return T(math.Tanh(float64(v)))
	}
	return v
}

// ApplyBackward adds dy·f'(x) to dx.
func (Plain[T]) ApplyBackward(dx, dy, x []T, f Function) {
	for i, v := range x {
		dx[i] += dy[i] * derivative(f, v)
	}
}

func derivative[T Float](f Function, v T) T {
	switch f {
	case ReLU:
		if v > 0 {
			return 1
		}
		return 0
	case Swish:
		return swishDerivative(v, sigmoid(v), 1)
	case GELUSigmoid:
		return swishDerivative(v, sigmoid(geluSlope*v), geluSlope)
	case GELU:
		return normalCDF(v) + v*normalDensity(v)
	case Sigmoid:
		s := sigmoid(v)
		return s * (1 - s)
	case Tanh:
		h := T(math.Tanh(float64(v)))
		return 1 - h*h
	}
	return 1
}

// swishDerivative returns the derivative of v·σ(a·v), where s is σ(a·v).
func swishDerivative[T Float](v, s, a T) T { return s + a*v*s*(1-s) }

// Add adds x to y.
func (Plain[T]) Add(y, x []T) { addTo(y, x) }

// geluSlope is the slope in Marian's approximation of GELU by a sigmoid.
const geluSlope = 1.702

func exp[T Float](x T) T       { return T(math.Exp(float64(x))) }
func sigmoid[T Float](x T) T   { return 1 / (1 + exp(-x)) }
func normalCDF[T Float](x T) T { return T(0.5 * math.Erfc(-float64(x)/math.Sqrt2)) }

// normalDensity returns φ(x).
func normalDensity[T Float](x T) T {
	return T(math.Exp(-0.5*float64(x)*float64(x)) / math.Sqrt(2*math.Pi))
}

func maximum[T Float](x []T) T {
	largest := x[0]
	for _, v := range x[1:] {
		largest = max(largest, v)
	}
	return largest
}

// addScaled adds s·x to y, which has its length.
func addScaled[T Float](y, x []T, s T) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += s * v
	}
}

// addTo adds x to y, which has its length.
func addTo[T Float](y, x []T) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += v
	}
}

// dot returns Σ a·b, in four partial sums.
func dot[T Float](a, b []T) T {
	b = b[:len(a)]
	var s0, s1, s2, s3 T
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}
