package kernels

import "math"

// LayerNorm normalises rows of n elements: with v = x + residual,
// dst = (v - mean)/sqrt(variance + eps)·scale + bias, the variance being that of the population (divided by n).
//
// dst may be x or residual. residual and bias may be nil. scale, bias: n.
func LayerNorm(dst, x, residual, scale, bias []float32, rows, n int, eps float32) {
	checkNorm(dst, x, residual, scale, rows, n)
	if bias != nil {
		need(len(bias), n, "bias of a layer norm")
	}
	if rows == 0 || n == 0 {
		return
	}
	layerNorm(dst, x, residual, scale, bias, rows, n, eps)
}

// LayerNormQuantised is LayerNorm, and QuantizeRows of what it gives, row by row.
//
// bytes: rows of Int8Stride(n) bytes. scales: one per row.
func LayerNormQuantised(bytes []uint8, scales, dst, x, residual, scale, bias []float32, rows, n int, eps float32) {
	checkNorm(dst, x, residual, scale, rows, n)
	checkNormBytes(bytes, scales, rows, n)
	if bias != nil {
		need(len(bias), n, "bias of a layer norm")
	}
	if rows == 0 || n == 0 {
		clear(scales[:rows])
		return
	}
	layerNormQuantised(bytes, scales, dst, x, residual, scale, bias, rows, n, eps)
}

func layerNormGeneric(dst, x, residual, scale, bias []float32, rows, n int, eps float32) {
	for r := range rows {
		v := dst[r*n : (r+1)*n]
		addResidual(v, x, residual, r*n)
		var s stripes
		for i, e := range v {
			s[i%16] += e
		}
		mean := s.sum() / float32(n)
		var q stripes
		for i, e := range v {
			d := e - mean
			q[i%16] += float32(d * d)
		}
		inverse := inverseRoot(q.sum()/float32(n) + eps)
		for i, e := range v {
			e = float32(float32((e-mean)*inverse) * scale[i])
			if bias != nil {
				e += bias[i]
			}
			v[i] = e
		}
	}
}

// RMSNorm divides rows of n elements by their root mean square: with v = x + residual,
// dst = v/sqrt(mean(v²) + eps)·scale.
//
// dst may be x or residual. residual may be nil. scale: n.
func RMSNorm(dst, x, residual, scale []float32, rows, n int, eps float32) {
	checkNorm(dst, x, residual, scale, rows, n)
	if rows == 0 || n == 0 {
		return
	}
	rmsNorm(dst, x, residual, scale, rows, n, eps)
}

// RMSNormQuantised is RMSNorm, and QuantizeRows of what it gives, row by row.
//
// bytes: rows of Int8Stride(n) bytes. scales: one per row.
func RMSNormQuantised(bytes []uint8, scales, dst, x, residual, scale []float32, rows, n int, eps float32) {
	checkNorm(dst, x, residual, scale, rows, n)
	checkNormBytes(bytes, scales, rows, n)
	if rows == 0 || n == 0 {
		clear(scales[:rows])
		return
	}
	rmsNormQuantised(bytes, scales, dst, x, residual, scale, rows, n, eps)
}

func rmsNormGeneric(dst, x, residual, scale []float32, rows, n int, eps float32) {
	for r := range rows {
		v := dst[r*n : (r+1)*n]
		addResidual(v, x, residual, r*n)
		var q stripes
		for i, e := range v {
			q[i%16] += float32(e * e)
		}
		inverse := inverseRoot(q.sum()/float32(n) + eps)
		for i, e := range v {
			v[i] = float32(e*inverse) * scale[i]
		}
	}
}

func checkNorm(dst, x, residual, scale []float32, rows, n int) {
	touched := span(rows, n, n)
	need(len(dst), touched, "result of a norm")
	need(len(x), touched, "rows to normalise")
	if residual != nil {
		need(len(residual), touched, "residual of a norm")
	}
	need(len(scale), n, "scale of a norm")
}

func checkNormBytes(bytes []uint8, scales []float32, rows, n int) {
	need(len(bytes), rows*Int8Stride(n), "bytes of a norm")
	need(len(scales), rows, "scales of a norm")
}

// addResidual sets v to the row of x that starts at first, plus that of residual.
func addResidual(v, x, residual []float32, first int) {
	if residual == nil {
		copy(v, x[first:])
		return
	}
	for i, e := range residual[first : first+len(v)] {
		v[i] = x[first+i] + e
	}
}

// inverseRoot returns 1/sqrt(x). The root of a float32, taken in float64, rounds to the right float32.
func inverseRoot(x float32) float32 { return 1 / float32(math.Sqrt(float64(x))) }
