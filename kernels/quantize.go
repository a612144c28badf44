package kernels

import "math"

// QuantizeRows quantises rows of k activations, each with its own scale = max|x|/127, to q + 128 where
// q = round_half_even(x·(127/max|x|)).
//
// dst: rows of Int8Stride(k) bytes; the bytes after the k-th of a row may be written too. scales: one per row. A row of zeros, or of numbers so
// small (below 4e-37) that 127/max|x| overflows, becomes scale 0. A row that contains NaN or an infinity becomes zeros
// with that scale, so that every product with it is NaN.
func QuantizeRows(dst []uint8, scales []float32, x []float32, rows, k int) {
	need(len(dst), rows*Int8Stride(k), "quantised activations")
	need(len(scales), rows, "scales of quantised activations")
	need(len(x), span(rows, k, k), "activations to quantise")
	quantizeRows(dst, scales, x, rows, k)
}

func quantizeRowsGeneric(dst []uint8, scales []float32, x []float32, rows, k int) {
	stride := Int8Stride(k)
	for r := range rows {
		row := x[r*k : (r+1)*k]
		scale, multiplier := quantizer(absMaxGeneric(row))
		scales[r] = scale
		quantizeGeneric(dst[r*stride:], row, multiplier)
	}
}

// quantizer returns the scale of a row whose largest magnitude is given, and what to multiply its elements by (zero if
// all become zero).
func quantizer(largest float32) (scale, multiplier float32) { return quantizerTo(127, largest) }

// quantizerTo is quantizer where the largest magnitude becomes limit.
func quantizerTo(limit, largest float32) (scale, multiplier float32) {
	multiplier = limit / largest
	switch {
	case largest != largest || largest > math.MaxFloat32:
		return largest, 0
	case multiplier > math.MaxFloat32:
		return 0, 0
	}
	return largest / limit, multiplier
}

// quantizeGeneric writes clamp(round(x·multiplier), -127, 127) + 128; a zero multiplier gives 128 whatever x is.
func quantizeGeneric(dst []uint8, x []float32, multiplier float32) {
	for i, v := range x {
		q := float32(v * multiplier)
		if multiplier == 0 || q != q {
			q = 0
		}
		dst[i] = uint8(int32(roundEven(max(-127, min(127, q)))) + int8Zero)
	}
}

// QuantizeRowsFixed quantises rows of k activations with one multiplier for all (a model's own):
// q = clamp(round_half_even(x·multiplier), -127, 127), stored as q + 128. NaN becomes zero.
func QuantizeRowsFixed(dst []uint8, x []float32, rows, k int, multiplier float32) {
	need(len(dst), rows*Int8Stride(k), "quantised activations")
	need(len(x), span(rows, k, k), "activations to quantise")
	quantizeRowsFixed(dst, x, rows, k, multiplier)
}

func quantizeRowsFixedGeneric(dst []uint8, x []float32, rows, k int, multiplier float32) {
	stride := Int8Stride(k)
	for r := range rows {
		quantizeGeneric(dst[r*stride:], x[r*k:(r+1)*k], multiplier)
	}
}

// AbsMax returns the largest magnitude in x, zero if x is empty, NaN if it contains one.
func AbsMax(x []float32) float32 { return absMax(x) }

// absMaxGeneric compares magnitudes as integers, where infinity and then NaN are the largest.
func absMaxGeneric(x []float32) float32 {
	var largest uint32
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&^signBit)
	}
	return math.Float32frombits(largest)
}
