package kernels

import (
	"fmt"

	"github.com/sluice-mt/sluice/internal/cpu"
	"github.com/sluice-mt/sluice/internal/hugepage"
)

// LeastSharing returns how many of some rows of activations must want a row of a table, at least, for it to pay that all of them are
// multiplied with it, as a column of a Matrix. (Measured: with VNNI a quarter is 1.01 times as fast as an eighth or a third in greedy search, and 1.07
// times as an eighth with a beam of 4; without VNNI such a matrix, which changes too often to be packed as chains, is multiplied in words, hardly faster
// than chosen rows.)
func LeastSharing(rows int) int {
	const inProducts, inWords = 4, 2
	share := inProducts
	if level := cpu.Integer(); level == cpu.AVX2 || level == cpu.AVX512 {
		share = inWords
	}
	return max(2, rows/share)
}

// Matrix packs chosen rows of the table as the columns of a matrix, for when many rows of activations are multiplied with the
// same choice: MulInt8 with it has the bits of DotRowsInt8 with ids. w is overwritten, and its memory used again; it may be
// the zero matrix. An id outside of the table panics.
func (t *Int8Rows) Matrix(w *Int8Matrix, ids []int32) {
	checkIDs(ids, t.N)
	columns := roundUp(len(ids), int8Panel)
	w.K, w.N, w.steps, w.chains, w.sparse = t.K, len(ids), roundUp(t.K, 16)/4, nil, nil
	if size := columns * w.steps * 4; cap(w.panels) < size {
		w.panels = hugepage.Make[int8](size + size/4)[:size]
	} else {
		w.panels = w.panels[:size]
	}
	w.corrections, w.scales = resize(w.corrections, columns), resize(w.scales, columns)
	for j, id := range ids {
		w.corrections[j], w.scales[j] = t.corrections[id], t.scales[id]
	}
	clear(w.corrections[len(ids):])
	clear(w.scales[len(ids):])
	gatherPanels(w, t, ids)
}

// Whole packs all rows of the table as the columns of a matrix, as PackInt8 does.
func (t *Int8Rows) Whole() *Int8Matrix {
	columns := make([]int8, t.K*t.N)
	Transpose(columns, t.rows, t.N, t.K, t.stride)
	return PackInt8(t.K, t.N, columns, t.scales)
}

// Columns returns the columns of the matrix from first, which must be a multiple of 64, to end. They share its memory.
func (w *Int8Matrix) Columns(first, end int) Int8Matrix {
	checkColumns(first, end, w.N)
	part, columns := *w, roundUp(end-first, int8Panel)
	part.N = end - first
	if w.chains != nil {
		part.chains = w.chains.columns(first/chainColumns, roundUp(end, chainColumns)/chainColumns)
	} else {
		part.panels = w.panels[first*w.steps*4:][:columns*w.steps*4]
	}
	if w.sparse != nil {
		part.sparse = w.sparse.columns(first, end)
	}
	part.corrections, part.scales = w.corrections[first:][:columns], w.scales[first:][:columns]
	return part
}

// Columns is Int8Matrix.Columns for 16 bits.
func (w *Int16Matrix) Columns(first, end int) Int16Matrix {
	checkColumns(first, end, w.N)
	part, columns := *w, roundUp(end-first, int16Panel)
	part.N = end - first
	part.panels, part.scales = w.panels[first*w.steps*2:][:columns*w.steps*2], w.scales[first:][:columns]
	return part
}

// Columns is Int8Matrix.Columns for float32.
func (w *Float32Matrix) Columns(first, end int) Float32Matrix {
	checkColumns(first, end, w.N)
	part, columns := *w, roundUp(end-first, float32Panel)
	part.N = end - first
	part.panels = w.panels[first*w.K:][:columns*w.K]
	return part
}

// checkColumns panics if columns from first to end cannot be cut out of n columns.
func checkColumns(first, end, n int) {
	if first < 0 || first%64 != 0 || end < first || end > n {
		panic(fmt.Sprintf("kernels: columns %d to %d of a matrix of %d", first, end, n))
	}
}

// resize returns a slice of n elements, b if it is long enough; the content does not matter.
func resize[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n, n+n/4)
	}
	return b[:n]
}

// gatherColumns fills panels from column first on, which is a multiple of the panel, and leaves zeros after the last column.
func gatherColumns(w *Int8Matrix, t *Int8Rows, ids []int32, first int) {
	if w.steps == 0 {
		return
	}
	rest := w.panels[first*w.steps*4:]
	if len(ids)%int8Panel > 0 {
		clear(rest[len(ids)/int8Panel*int8Panel*w.steps*4:])
	}
	for j, id := range ids {
		row := t.rows[int(id)*t.stride:][:4*w.steps]
		to := w.panels[w.at(0, first+j):]
		for len(row) > 4 {
			copy(to[:4], row[:4])
			row, to = row[4:], to[4*int8Panel:]
		}
		copy(to[:4], row)
	}
}

// Pick sets dst[i] to src[places[i]]. A place outside of src panics.
func Pick(dst, src []float32, places []int32) {
	need(len(dst), len(places), "picked elements")
	if bad := pick(dst[:len(places)], src, places); bad {
		panic(fmt.Sprintf("kernels: picking from %d elements, a place beyond them", len(src)))
	}
}

// pickGeneric reports whether a place is outside of src.
func pickGeneric(dst, src []float32, places []int32) (bad bool) {
	for i, place := range places {
		if uint(place) >= uint(len(src)) {
			return true
		}
		dst[i] = src[place]
	}
	return false
}
