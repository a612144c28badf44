package kernels

import "github.com/sluice-mt/sluice/internal/hugepage"

// Training multiplies float32 matrices that change from call to call, also transposed, and adds the products up. With the
// packed operand refilled by Pack or PackTransposed, and y cleared first where nothing is to be added to:
//
//	forward:    y += x·w      w.Pack,            AccumulateFloat32
//	inputs:     dx += dy·wᵀ   w.PackTransposed,  AccumulateFloat32
//	weights:    dw += xᵀ·dy   dy packed by Pack, AccumulateFloat32Transposed

// Pack makes w the k×n matrix b, whose rows lie stride elements apart. It allocates only when the memory of w, which may
// be a zero Float32Matrix, is too small.
func (w *Float32Matrix) Pack(k, n int, b []float32, stride int) {
	need(len(b), span(k, stride, n), "elements of a float32 matrix")
	w.resize(k, n)
	for first := 0; first < n; first += float32Panel {
		width := min(float32Panel, n-first)
		panel := w.panels[first*k:][:k*float32Panel]
		for i := range k {
			row := panel[i*float32Panel:][:float32Panel]
			clear(row[copy(row, b[i*stride+first:][:width]):])
		}
	}
}

// PackTransposed makes w the k×n matrix bᵀ, where b is n×k and its rows lie stride elements apart. See Pack.
func (w *Float32Matrix) PackTransposed(k, n int, b []float32, stride int) {
	need(len(b), span(n, stride, k), "elements of a float32 matrix")
	w.resize(k, n)
	if k == 0 {
		return
	}
	for first := 0; first < n; first += float32Panel {
		width := min(float32Panel, n-first)
		panel := w.panels[first*k:][:k*float32Panel]
		if width < float32Panel {
			clear(panel)
		}
		transpose(panel, b[first*stride:], stride, width, k)
	}
}

// transpose writes rows of k elements to the columns of a panel, eight rows at a time, to fill lines of the cache.
func transpose(panel, b []float32, stride, rows, k int) {
	j := 0
	for ; j+8 <= rows; j += 8 {
		var row [8][]float32
		for i := range row {
			row[i] = b[(j+i)*stride:][:k]
		}
		transposeEight(panel[j:], &row)
	}
	for ; j < rows; j++ {
		at := j
		for _, v := range b[j*stride : j*stride+k] {
			panel[at] = v
			at += float32Panel
		}
	}
}

// transposeEight writes eight rows to the first eight columns of a panel.
func transposeEight(panel []float32, row *[8][]float32) {
	r0, n := row[0], len(row[0])
	r1, r2, r3, r4, r5, r6, r7 := row[1][:n], row[2][:n], row[3][:n], row[4][:n], row[5][:n], row[6][:n], row[7][:n]
	for i, v := range r0 {
		to := panel[i*float32Panel:][:8]
		to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7] = v, r1[i], r2[i], r3[i], r4[i], r5[i], r6[i], r7[i]
	}
}

// resize makes w a k×n matrix with elements of any value.
func (w *Float32Matrix) resize(k, n int) {
	w.K, w.N = k, n
	size := roundUp(n, float32Panel) * k
	if cap(w.panels) < size {
		w.panels = hugepage.Make[float32](size)
	}
	w.panels = w.panels[:size]
}

// AccumulateFloat32 computes y += x·w. Each element of y is one chain of fused multiply-adds, in ascending k, that starts
// at what y contains. So a row does not depend on the number of rows, nor a product on being added in parts along k, and
// callers may share the rows out.
//
// y: rows × w.N, yStride elements from row to row. x: rows × w.K, xStride elements from row to row.
func AccumulateFloat32(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix) {
	need(len(x), span(rows, xStride, w.K), "activations of a float32 product")
	accumulateChecked(y, yStride, x, xStride, 1, rows, w)
}

// AccumulateFloat32Transposed computes y += xᵀ·w, like AccumulateFloat32.
//
// y: rows × w.N, yStride elements from row to row. x: w.K × rows, xStride elements from row to row: a part of the rows of
// y is a part of the columns of x.
func AccumulateFloat32Transposed(y []float32, yStride int, x []float32, xStride, rows int, w *Float32Matrix) {
	need(len(x), span(w.K, xStride, rows), "activations of a transposed float32 product")
	accumulateChecked(y, yStride, x, 1, xStride, rows, w)
}

func accumulateChecked(y []float32, yStride int, x []float32, rowStep, kStep, rows int, w *Float32Matrix) {
	need(len(y), span(rows, yStride, w.N), "result of a float32 product")
	if rows == 0 || w.N == 0 || w.K == 0 {
		return
	}
	accumulateFloat32(y, yStride, x, rowStep, kStep, rows, w)
}

// accumulateFloat32Generic adds to y the product of w with rows whose elements are x[r·rowStep + i·kStep].
func accumulateFloat32Generic(y []float32, yStride int, x []float32, rowStep, kStep, rows int, w *Float32Matrix) {
	for r := range rows {
		for first := 0; first < w.N; first += float32Panel {
			out := y[r*yStride+first:][:min(float32Panel, w.N-first)]
			panel := w.panels[first*w.K:]
			for i := range w.K {
				v := x[r*rowStep+i*kStep]
				addScaled(out, v, panel[i*float32Panel:])
			}
		}
	}
}
