package kernels

import (
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

const (
	int16Panel = 32 // columns of a panel of Int16Matrix
	int16Align = 32 // rows of quantised activations start at multiples of this many words
)

// Int16Matrix is a k×n matrix of int16 weights with a scale for each column, packed for MulInt16: for models that need
// more than 8 bits, or were trained for 16.
//
// The columns are cut into panels of 32 (the last one padded with zeros), and k is padded to a multiple of 8. In a panel,
// the two weights that VPDPWSSD multiplies at once lie together: panels[p][k/2][32 columns][2].
type Int16Matrix struct {
	K, N int
	// Limit is the largest magnitude of activations with which no sum can leave the range of int32: 2^31-1 divided by the
	// largest sum of the magnitudes of a column's weights, and no more than 32767. Activations quantised with it use as
	// many bits as there are for an exact product.
	Limit int

	steps  int       // pairs along k, padded
	panels []int16   // 64-byte aligned
	scales []float32 // one per padded column

	doubleFrom int // see doublePays
}

// Int16Stride returns the words from one quantised row of k activations to the next. What lies between k and the stride is
// read, but does not change any result.
func Int16Stride(k int) int { return roundUp(k, int16Align) }

// PackInt16 packs k×n row-major weights with one scale per column (weight ≈ q·scale). It panics if a column is so heavy
// that not even activations of magnitude 1 could be multiplied with it exactly.
func PackInt16(k, n int, weights []int16, scales []float32) *Int16Matrix {
	if k < 0 || n < 0 {
		panic(fmt.Sprintf("kernels: an int16 matrix of %d×%d", k, n))
	}
	need(len(weights), k*n, "weights of an int16 matrix")
	need(len(scales), n, "scales of an int16 matrix")
	columns := roundUp(n, int16Panel)
	w := &Int16Matrix{K: k, N: n, steps: roundUp(k, 8) / 2, scales: make([]float32, columns)}
	w.panels = hugepage.Make[int16](columns * w.steps * 2)
	copy(w.scales, scales[:n])
	magnitudes := make([]int64, columns)
	for i := range k {
		for j, q := range weights[i*n : (i+1)*n] {
			w.panels[((j/int16Panel*w.steps+i/2)*int16Panel+j%int16Panel)*2+i%2] = q
			magnitudes[j] += max(int64(q), -int64(q))
		}
	}
	heaviest := int64(1)
	for _, m := range magnitudes {
		heaviest = max(heaviest, m)
	}
	if heaviest > math.MaxInt32 {
		panic(fmt.Sprintf("kernels: the weights of a column of an int16 matrix sum up to %d", heaviest))
	}
	w.Limit = int(min(math.MaxInt16, math.MaxInt32/heaviest))
	return w
}

// QuantizeRowsInt16 quantises rows of k activations, each with its own scale = max|x|/limit, to
// q = round_half_even(x·(limit/max|x|)). limit is that of the matrix they are to be multiplied with, 1 to 32767.
//
// dst: rows of Int16Stride(k) words; the words after the k-th of a row may be written too. scales: one per row. Rows of
// zeros, of tiny numbers, and with NaN or infinities are treated as by QuantizeRows.
func QuantizeRowsInt16(dst []int16, scales []float32, x []float32, rows, k, limit int) {
	checkQuantizeInt16(dst, x, rows, k, limit)
	need(len(scales), rows, "scales of quantised activations")
	for r := range rows {
		row := x[r*k : (r+1)*k]
		scale, multiplier := quantizerTo(float32(limit), absMax(row))
		scales[r] = scale
		quantizeInt16(dst[r*Int16Stride(k):][:Int16Stride(k)], row, multiplier, float32(limit))
	}
}

// QuantizeRowsInt16Fixed quantises rows of k activations with one multiplier for all (a model's own):
// q = clamp(round_half_even(x·multiplier), -limit, limit). NaN becomes zero.
func QuantizeRowsInt16Fixed(dst []int16, x []float32, rows, k int, multiplier float32, limit int) {
	checkQuantizeInt16(dst, x, rows, k, limit)
	for r := range rows {
		quantizeInt16(dst[r*Int16Stride(k):][:Int16Stride(k)], x[r*k:(r+1)*k], multiplier, float32(limit))
	}
}

func checkQuantizeInt16(dst []int16, x []float32, rows, k, limit int) {
	need(len(dst), rows*Int16Stride(k), "quantised activations")
	need(len(x), span(rows, k, k), "activations to quantise")
	if limit < 1 || limit > math.MaxInt16 {
		panic(fmt.Sprintf("kernels: %d as the limit of int16 activations", limit))
	}
}

// quantizeInt16Generic writes clamp(round(x·multiplier), -limit, limit); a zero multiplier gives 0 whatever x is.
func quantizeInt16Generic(dst []int16, x []float32, multiplier, limit float32) {
	for i, v := range x {
		q := float32(v * multiplier)
		if multiplier == 0 || q != q {
			q = 0
		}
		dst[i] = int16(roundEven(max(-limit, min(limit, q))))
	}
}

// MulInt16 computes y = act(a·w·aScale·wScale + bias) for rows of quantised activations. Sums are int32: exact as long as
// no activation exceeds w.Limit, and else modulo 2^32.
//
// y: rows × w.N, yStride elements from row to row. a: rows quantised by QuantizeRowsInt16 or QuantizeRowsInt16Fixed,
// Int16Stride(w.K) words apart. aScales: one per row. bias: w.N, or nil.
func MulInt16(y []float32, yStride int, a []int16, aScales []float32, rows int, w *Int16Matrix, bias []float32, act Activation) {
	need(len(y), span(rows, yStride, w.N), "result of an int16 product")
	need(len(a), rows*Int16Stride(w.K), "activations of an int16 product")
	need(len(aScales), rows, "scales of an int16 product")
	if bias != nil {
		need(len(bias), w.N, "bias of an int16 product")
	}
	if rows == 0 || w.N == 0 {
		return
	}
	mulInt16(y, yStride, a, aScales, rows, w, bias, act)
}

func mulInt16Generic(y []float32, yStride int, a []int16, aScales []float32, rows int, w *Int16Matrix, bias []float32, act Activation) {
	stride := Int16Stride(w.K)
	for r := range rows {
		row, out := a[r*stride:(r+1)*stride], y[r*yStride:r*yStride+w.N]
		for p := 0; p*int16Panel < w.N; p++ {
			var sums [int16Panel]int32
			b := w.panels[p*w.steps*int16Panel*2:]
			for i := range w.steps {
				a0, a1 := int32(row[2*i]), int32(row[2*i+1])
				step := b[i*int16Panel*2:][:int16Panel*2]
				for j := range sums {
					sums[j] += a0*int32(step[2*j]) + a1*int32(step[2*j+1])
				}
			}
			first := p * int16Panel
			for j := range min(int16Panel, w.N-first) {
				v := float32(float32(sums[j]) * float32(aScales[r]*w.scales[first+j]))
				out[first+j] = activate(v+biasAt(bias, first+j), act)
			}
		}
	}
}
