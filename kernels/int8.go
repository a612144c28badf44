package kernels

import (
	"fmt"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

// Activation is the function that a product applies to its result.
type Activation uint8

// The activations of a product.
const (
	None      Activation = iota
	Rectified            // max(0, y)
)

const (
	int8Panel = 32 // columns of a panel of Int8Matrix
	int8Align = 64 // rows of quantised activations start at multiples of this
	int8Zero  = 128
	// MaxInt8K bounds the inner dimension: 2^16 products of at most 255·128 fit an int32.
	MaxInt8K = 1 << 16
)

// Int8Matrix is a k×n matrix of int8 weights with a scale for each column, packed for MulInt8.
//
// The columns are cut into panels of 32 (the last one padded with zeros), and k is padded to a multiple of 16. In a
// panel, the four weights that VPDPBUSD multiplies at once lie together: panels[p][k/4][32 columns][4].
type Int8Matrix struct {
	K, N int

	steps       int         // groups of 4 along k, padded
	panels      []int8      // 64-byte aligned
	chains      *int8Chains // if not nil, the weights are here, not in panels
	sparse      *int8Sparse // if not nil, the weights are here, too, for activations of which many are zeros
	corrections []int32     // -128·(sum of the column), one per padded column: undoes the zero point of the activations; zeros if the chains do that
	scales      []float32   // one per padded column

	doubleFrom int  // see doublePays
	unfetched  bool // products of one or two rows leave it to the processor to fetch weights: see Tuning
	lowBlocks  bool // blocks of two panels at a time are of lowRows rows: see Tuning
}

// Int8Stride returns the bytes from one quantised row of k activations to the next. What lies between k and the stride
// is read, but does not change any result.
func Int8Stride(k int) int { return roundUp(k, int8Align) }

// PackInt8 packs k×n row-major weights, in [-127, 127], with one scale per column (weight ≈ q·scale).
// It panics if k exceeds MaxInt8K.
func PackInt8(k, n int, weights []int8, scales []float32) *Int8Matrix {
	return packInt8(k, n, weights, scales, false)
}

// PackInt8Rectified is PackInt8 for a matrix that is multiplied with results of a ReLU alone: no activation may be negative, that is,
// have a byte below 128. Activations that are zeros are left out where that is faster, and some processors multiply the others faster, too;
// on those, MulInt8 panics if one is negative.
func PackInt8Rectified(k, n int, weights []int8, scales []float32) *Int8Matrix {
	return packInt8(k, n, weights, scales, true)
}

func packInt8(k, n int, weights []int8, scales []float32, rectified bool) *Int8Matrix {
	if k < 0 || k > MaxInt8K || n < 0 {
		panic(fmt.Sprintf("kernels: an int8 matrix of %d×%d", k, n))
	}
	need(len(weights), k*n, "weights of an int8 matrix")
	need(len(scales), n, "scales of an int8 matrix")
	steps, columns := roundUp(k, 16)/4, roundUp(n, int8Panel)
	w := &Int8Matrix{
		K: k, N: n, steps: steps,
		corrections: make([]int32, columns),
		scales:      make([]float32, columns),
	}
	copy(w.scales, scales[:n])
	for i := range k {
		for j, q := range weights[i*n : (i+1)*n] {
			w.corrections[j] -= int8Zero * int32(q)
		}
	}
	if packsChains(k) {
		// What lies behind a row would be seen as negative activations.
		w.chains = packInt8Chains(k, n, weights, rectified && k%16 == 0)
	}
	if rectified && packsSparse() {
		w.sparse = packInt8Sparse(k, n, weights)
	}
	switch {
	case w.chains == nil:
		w.packPanels(weights)
	case w.chains.rectified:
		clear(w.corrections)
	}
	return w
}

// packPanels packs row-major weights as panels.
func (w *Int8Matrix) packPanels(weights []int8) {
	w.panels = hugepage.Make[int8](roundUp(w.N, int8Panel) * w.steps * 4)
	for i := range w.K {
		for j, q := range weights[i*w.N : (i+1)*w.N] {
			w.panels[w.at(i, j)] = q
		}
	}
}

// weights returns where the packed weights are.
func (w *Int8Matrix) weights() *[]int8 {
	if w.chains != nil {
		return &w.chains.weights
	}
	return &w.panels
}

// at returns the place of the weight in row i and column j.
func (w *Int8Matrix) at(i, j int) int {
	return ((j/int8Panel*w.steps+i/4)*int8Panel+j%int8Panel)*4 + i%4
}

// MulInt8 computes y = act((a-128)·w·aScale·wScale + bias) for rows of quantised activations.
//
// y: rows × w.N, yStride elements from row to row. a: rows quantised by QuantizeRows or QuantizeRowsFixed, Int8Stride(w.K)
// bytes apart. aScales: one per row. bias: w.N, or nil.
//
// leftOut is how many of the rows·w.K·w.N multiply-accumulates were not done, since their activations are zeros.
func MulInt8(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) (leftOut int) {
	need(len(y), span(rows, yStride, w.N), "result of an int8 product")
	w.needOperands(a, aScales, rows, bias)
	if rows == 0 || w.N == 0 {
		return 0
	}
	if w.sparse != nil {
		if leftOut, done := mulInt8Sparse(y, yStride, a, aScales, rows, w, bias, act); done {
			return leftOut
		}
	}
	mulInt8(y, yStride, a, aScales, rows, w, bias, act)
	return 0
}

// needOperands panics if an operand of a product with rows of activations is too short.
func (w *Int8Matrix) needOperands(a []uint8, aScales []float32, rows int, bias []float32) {
	need(len(a), rows*Int8Stride(w.K), "activations of an int8 product")
	need(len(aScales), rows, "scales of an int8 product")
	if bias != nil {
		need(len(bias), w.N, "bias of an int8 product")
	}
}

// MulInt8Quantised computes what QuantizeRowsFixed makes of the results of MulInt8, the activations of a product that follows, and stores
// nothing in float32 where the processor has a kernel for it.
//
// dst: rows of Int8Stride(w.N) bytes. multiplier: that of QuantizeRowsFixed. y: rows × w.N, which may be overwritten. The others are those
// of MulInt8.
func MulInt8Quantised(dst []uint8, multiplier float32, y []float32, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) {
	stride := Int8Stride(w.N)
	need(len(dst), rows*stride, "quantised result of an int8 product")
	need(len(y), rows*w.N, "result of an int8 product")
	w.needOperands(a, aScales, rows, bias)
	if rows == 0 || w.N == 0 {
		return
	}
	done := mulInt8Quantised(dst, multiplier, a, aScales, rows, w, bias, act)
	if done == w.N {
		return
	}
	if done == 0 {
		mulInt8(y, w.N, a, aScales, rows, w, bias, act)
		quantizeRowsFixed(dst, y, rows, w.N, multiplier)
		return
	}
	rest := w.Columns(done, w.N)
	if bias != nil {
		bias = bias[done:]
	}
	mulInt8(y, rest.N, a, aScales, rows, &rest, bias, act)
	for r := range rows {
		quantizeRowsFixed(dst[r*stride+done:(r+1)*stride], y[r*rest.N:(r+1)*rest.N], 1, rest.N, multiplier)
	}
}

func mulInt8Generic(y []float32, yStride int, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) {
	stride := Int8Stride(w.K)
	for r := range rows {
		row, out := a[r*stride:(r+1)*stride], y[r*yStride:r*yStride+w.N]
		for p := 0; p*int8Panel < w.N; p++ {
			var sums [int8Panel]int32
			w.mulPanel(&sums, row, p)
			w.finish(out, &sums, aScales[r], p, bias, act)
		}
	}
}

// finish makes results of the exact sums of one row and one panel.
func (w *Int8Matrix) finish(out []float32, sums *[int8Panel]int32, aScale float32, panel int, bias []float32, act Activation) {
	first := panel * int8Panel
	for j := range min(int8Panel, w.N-first) {
		v := float32(float32(sums[j]) * float32(aScale*w.scales[first+j]))
		out[first+j] = activate(v+biasAt(bias, first+j), act)
	}
}

// mulPanel computes the exact sums of one row and one panel.
func (w *Int8Matrix) mulPanel(sums *[int8Panel]int32, row []uint8, panel int) {
	copy(sums[:], w.corrections[panel*int8Panel:])
	if w.chains != nil {
		w.chains.addPanel(sums, row, panel)
		return
	}
	b := w.panels[panel*w.steps*int8Panel*4:][:w.steps*int8Panel*4]
	for i := 0; i < w.steps; i++ {
		q, step := row[4*i:4*i+4], b[:int8Panel*4]
		b = b[int8Panel*4:]
		a0, a1, a2, a3 := int32(q[0]), int32(q[1]), int32(q[2]), int32(q[3])
		for j := range sums {
			s := step[4*j : 4*j+4]
			sums[j] += a0*int32(s[0]) + a1*int32(s[1]) + a2*int32(s[2]) + a3*int32(s[3])
		}
	}
}

// biasAt returns bias[i]; no bias is a bias of zeros (which matters to a result of -0).
func biasAt(bias []float32, i int) float32 {
	if bias == nil {
		return 0
	}
	return bias[i]
}

func activate(v float32, act Activation) float32 {
	if act == Rectified {
		return floor0(v)
	}
	return v
}

// int8BurstGeneric multiplies one row and one panel again and again, n multiply-accumulates in all, rounded up.
func int8BurstGeneric(n int) int {
	const k = 64
	var w Int8Matrix
	var panel [k * int8Panel]int8
	var corrections [int8Panel]int32
	w.K, w.N, w.steps, w.panels, w.corrections = k, int8Panel, k/4, panel[:], corrections[:]
	var row [k]uint8
	var sums [int8Panel]int32
	done := 0
	for ; done < n; done += k * int8Panel {
		w.mulPanel(&sums, row[:], 0)
	}
	return done
}
