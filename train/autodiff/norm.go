package autodiff

import "math"

// norm is y = (x - mean)/σ·scale + bias, or y = x/rms·scale, row by row, for some columns of x and y.
type norm[T Float] struct {
	y, x, scale, bias *Matrix[T] // scale may be wider than needed, bias may be nil
	first, width      int        // the columns
	rms               bool
	mean, inverse     []T // of the rows; inverse is 1/σ or 1/rms
}

// LayerNorm returns the rows of x less their mean, divided by their standard deviation (biased, epsilon under the root),
// times scale, plus bias. scale, bias: 1 × cols.
func (t *Tape[T]) LayerNorm(x, scale, bias *Matrix[T], epsilon float64) *Matrix[T] {
	checkShape(bias, 1, x.Cols, "the bias of a norm")
	return t.normalise(norm[T]{x: x, scale: scale, bias: bias}, epsilon)
}

// RMSNorm returns the rows of x, divided by the root of their mean square plus epsilon, times scale.
func (t *Tape[T]) RMSNorm(x, scale *Matrix[T], epsilon float64) *Matrix[T] {
	return t.normalise(norm[T]{x: x, scale: scale, rms: true}, epsilon)
}

// normalise runs a norm over all columns into a new matrix.
func (t *Tape[T]) normalise(n norm[T], epsilon float64) *Matrix[T] {
	checkShape(n.scale, 1, n.x.Cols, "the scale of a norm")
	n.y, n.width = t.matrix(n.x.Rows, n.x.Cols), n.x.Cols
	t.normaliseInto(n, epsilon)
	return n.y
}

// normaliseInto runs a norm, of which everything is set but means and inverses.
func (t *Tape[T]) normaliseInto(n norm[T], epsilon float64) {
	o := t.norms.next()
	*o = n
	o.mean, o.inverse = t.arena.take(n.x.Rows), t.arena.take(n.x.Rows)
	for i := range n.x.Rows {
		row := o.columns(n.x.Value, i)
		if o.rms {
			o.mean[i] = 0
		} else {
			o.mean[i] = sum(row) / T(n.width)
		}
		variance := squares(row, o.mean[i])/T(n.width) + T(epsilon)
		o.inverse[i] = T(1 / math.Sqrt(float64(variance)))
		o.forwardRow(i)
	}
	t.record(o)
}

// columns returns the norm's columns of a row of values or gradients of x or y.
func (o *norm[T]) columns(data []T, row int) []T {
	return data[row*o.x.Cols+o.first:][:o.width:o.width]
}

func (o *norm[T]) forwardRow(i int) {
	y, scale := o.columns(o.y.Value, i), o.scale.Value
	mean, inverse := o.mean[i], o.inverse[i]
	scale = scale[:len(y)]
	for j, v := range o.columns(o.x.Value, i)[:len(y)] {
		y[j] = (v - mean) * inverse * scale[j]
	}
	if o.bias != nil {
		addTo(y, o.bias.Value)
	}
}

// With n = (x-mean)/σ and g = dy·scale: dx = (g - mean(g) - n·mean(g·n))/σ; without the mean in RMS norm. dscale = Σ dy·n
// and dbias = Σ dy, over the rows.
func (o *norm[T]) backward(*Tape[T]) {
	d := o.width
	scale, dscale := o.scale.Value[:d], o.scale.Grad
	for i := range o.x.Rows {
		x, dy := o.columns(o.x.Value, i)[:d], o.columns(o.y.Grad, i)[:d]
		mean, inverse := o.mean[i], o.inverse[i]
		var sumG, sumGN T
		for j, v := range x {
			g := dy[j] * scale[j]
			sumG += g
			sumGN += g * ((v - mean) * inverse)
		}
		sumG /= T(d)
		sumGN /= T(d)
		if o.rms {
			sumG = 0
		}
		if o.x.Grad != nil {
			dx := o.columns(o.x.Grad, i)[:d]
			for j, v := range x {
				dx[j] += (dy[j]*scale[j] - sumG - (v-mean)*inverse*sumGN) * inverse
			}
		}
		if dscale != nil {
			for j, v := range x {
				dscale[j] += dy[j] * ((v - mean) * inverse)
			}
		}
		if o.bias != nil && o.bias.Grad != nil {
			addTo(o.bias.Grad, dy)
		}
	}
}

// sum returns Σ x, in four partial sums.
func sum[T Float](x []T) T {
	var s [4]T
	i := 0
	for ; i+4 <= len(x); i += 4 {
		s[0] += x[i]
		s[1] += x[i+1]
		s[2] += x[i+2]
		s[3] += x[i+3]
	}
	for ; i < len(x); i++ {
		s[0] += x[i]
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// squares returns Σ (x-mean)².
func squares[T Float](x []T, mean T) T {
	var s0, s1 T
	i := 0
	for ; i+2 <= len(x); i += 2 {
		a, b := x[i]-mean, x[i+1]-mean
		s0 += a * a
		s1 += b * b
	}
	if i < len(x) {
		a := x[i] - mean
		s0 += a * a
	}
	return s0 + s1
}
