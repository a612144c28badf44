package kernels

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
	for first := 0; first < n; first += float32Panel {
		width := min(float32Panel, n-first)
		panel := w.panels[first*k:][:k*float32Panel]
		if width < float32Panel {
			clear(panel)
		}
		transpose(panel, b[first*stride:], stride, width, k)
	}
}

// transposedTile is the columns of a row that transpose takes in a run: with all rows of a panel they stay in the first
// level cache until the lines of the panel are complete.
const transposedTile = 16

// transpose writes rows of k elements to the columns of a panel.
func transpose(panel, b []float32, stride, rows, k int) {
	for first := 0; first < k; first += transposedTile {
		end := min(first+transposedTile, k)
		for j := range rows {
			at := first*float32Panel + j
			for _, v := range b[j*stride+first : j*stride+end] {
				panel[at] = v
				at += float32Panel
			}
		}
	}
}

// resize makes w a k×n matrix with elements of any value.
func (w *Float32Matrix) resize(k, n int) {
	w.K, w.N = k, n
	size := roundUp(n, float32Panel) * k
	if cap(w.panels) < size {
		w.panels = alignedFloat32(size)
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
				b := panel[i*float32Panel:][:len(out)]
				for j := range out {
					out[j] = fma32(v, b[j], out[j])
				}
			}
		}
	}
}
