package kernels

import (
	"fmt"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

const float32Panel = 32 // columns of a panel of Float32Matrix

// Float32Matrix is a k×n float32 matrix packed for MulFloat32: panels of 32 columns (the last one padded with zeros),
// panels[p][k][32 columns].
type Float32Matrix struct {
	K, N int

	panels []float32 // 64-byte aligned

	doubleFrom int // see doublePays
}

// PackFloat32 packs a k×n row-major matrix.
func PackFloat32(k, n int, w []float32) *Float32Matrix {
	if k < 0 || n < 0 {
		panic(fmt.Sprintf("kernels: a float32 matrix of %d×%d", k, n))
	}
	need(len(w), k*n, "weights of a float32 matrix")
	m := &Float32Matrix{K: k, N: n, panels: hugepage.Make[float32](roundUp(n, float32Panel) * k)}
	for i := range k {
		for j, v := range w[i*n : (i+1)*n] {
			m.panels[(j/float32Panel*k+i)*float32Panel+j%float32Panel] = v
		}
	}
	return m
}

// MulFloat32 computes y = act(x·w + bias).
//
// y: rows × w.N, yStride elements from row to row. x: rows × w.K, xStride elements from row to row. bias: w.N, or nil.
func MulFloat32(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix, bias []float32, act Activation) {
	need(len(y), span(rows, yStride, w.N), "result of a float32 product")
	need(len(x), span(rows, xStride, w.K), "activations of a float32 product")
	if bias != nil {
		need(len(bias), w.N, "bias of a float32 product")
	}
	if rows == 0 || w.N == 0 {
		return
	}
	if w.K == 0 {
		xStride = 0
	}
	mulFloat32(y, yStride, x, xStride, rows, w, bias, act)
}

func mulFloat32Generic(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix, bias []float32, act Activation) {
	for r := range rows {
		row, out := x[r*xStride:r*xStride+w.K], y[r*yStride:r*yStride+w.N]
		for first := 0; first < w.N; first += float32Panel {
			var sums [float32Panel]float32
			panel := w.panels[first*w.K:]
			for i, v := range row {
				addScaled(sums[:], v, panel[i*float32Panel:(i+1)*float32Panel])
			}
			for j := range min(float32Panel, w.N-first) {
				out[first+j] = activate(sums[j]+biasAt(bias, first+j), act)
			}
		}
	}
}
