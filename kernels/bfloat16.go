package kernels

import (
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

const bfloat16Panel = 32 // columns of a panel of BFloat16Matrix

// BFloat16Matrix is a k×n matrix of bfloat16, the upper halves of float32, packed for MulBFloat16 and AccumulateBFloat16: it takes
// half the memory, and processors with AVX512_BF16 multiply it at up to twice the speed of float32. The zero value may be packed.
//
// The columns are cut into panels of 32 (the last one padded with zeros), and k is padded to a multiple of 2, so that the
// two elements that VDPBF16PS multiplies at once lie together: panels[p][k/2][32 columns][2].
type BFloat16Matrix struct {
	K, N int

	pairs  int      // along k, padded
	panels []uint16 // 64-byte aligned
}

// Pack makes w the k×n matrix b, rounded, whose rows lie stride elements apart. It allocates only when the memory of w is
// too small.
func (w *BFloat16Matrix) Pack(k, n int, b []float32, stride int) {
	need(len(b), span(k, stride, n), "elements of a bfloat16 matrix")
	w.resize(k, n)
	for first := 0; first < n && k > 0; first += bfloat16Panel {
		packBFloat16(w.column(first), b[first:], stride, k, min(bfloat16Panel, n-first))
	}
}

// packBFloat16Generic rounds k rows of some columns to the beginnings of the rows of a panel.
func packBFloat16Generic(panel []uint16, b []float32, stride, k, columns int) {
	for i := range k {
		pair := panel[i/2*bfloat16Panel*2:][:bfloat16Panel*2]
		for j, v := range b[i*stride : i*stride+columns] {
			pair[2*j+i%2] = toBFloat16(v)
		}
	}
}

// PackTransposed makes w the k×n matrix bᵀ, rounded, where b is n×k and its rows lie stride elements apart. See Pack.
func (w *BFloat16Matrix) PackTransposed(k, n int, b []float32, stride int) {
	need(len(b), span(n, stride, k), "elements of a bfloat16 matrix")
	w.resize(k, n)
	for first := 0; first < n && k > 0; first += bfloat16Panel {
		packBFloat16Transposed(w.column(first), b[first*stride:], stride, k, min(bfloat16Panel, n-first))
	}
}

// packBFloat16TransposedGeneric rounds rows of k elements to columns of a panel.
func packBFloat16TransposedGeneric(panel []uint16, b []float32, stride, k, columns int) {
	for j := range columns {
		for i, v := range b[j*stride : j*stride+k] {
			panel[2*j+pairPlace(i)] = toBFloat16(v)
		}
	}
}

// column returns the panel of a column from its first element on; element i is at pairPlace(i).
func (w *BFloat16Matrix) column(j int) []uint16 {
	return w.panels[j/bfloat16Panel*bfloat16Panel*w.pairs*2+j%bfloat16Panel*2:]
}

func pairPlace(i int) int { return i/2*bfloat16Panel*2 + i%2 }

// resize makes w a k×n matrix of any elements, padded with zeros.
func (w *BFloat16Matrix) resize(k, n int) {
	if k < 0 || n < 0 {
		panic(fmt.Sprintf("kernels: a bfloat16 matrix of %d×%d", k, n))
	}
	w.K, w.N, w.pairs = k, n, (k+1)/2
	size := roundUp(n, bfloat16Panel) * w.pairs * 2
	if cap(w.panels) < size {
		w.panels = hugepage.Make[uint16](size)
		return
	}
	w.panels = w.panels[:size]
	panel := bfloat16Panel * w.pairs * 2
	if n%bfloat16Panel != 0 {
		clear(w.panels[size-panel:])
	}
	if k%2 == 1 {
		for end := panel; end <= size; end += panel {
			clear(w.panels[end-2*bfloat16Panel : end])
		}
	}
}

// BFloat16Stride returns the elements from one row of k bfloat16 to the next: k rounded up to a multiple of 2.
func BFloat16Stride(k int) int { return roundUp(k, 2) }

// ToBFloat16 rounds rows of k elements to bfloat16, halves to even, and pads them with zeros.
//
// dst: rows of BFloat16Stride(k). x: rows of k, xStride elements from row to row.
func ToBFloat16(dst []uint16, x []float32, xStride, rows, k int) {
	need(len(x), span(rows, xStride, k), "elements to round to bfloat16")
	stride := checkBFloat16(dst, rows, k)
	if xStride == k && stride == k {
		roundToBFloat16(dst[:rows*k], x[:rows*k])
		return
	}
	for r := range rows {
		row := dst[r*stride : (r+1)*stride]
		roundToBFloat16(row[:k], x[r*xStride:r*xStride+k])
		clear(row[k:])
	}
}

// roundToBFloat16Generic rounds as many elements as dst has.
func roundToBFloat16Generic(dst []uint16, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = toBFloat16(v)
	}
}

// ToBFloat16Transposed rounds the columns of x to rows of bfloat16: for products xᵀ·w.
//
// dst: rows of BFloat16Stride(k). x: k rows of as many elements as dst has rows, xStride elements from row to row.
func ToBFloat16Transposed(dst []uint16, x []float32, xStride, rows, k int) {
	need(len(x), span(k, xStride, rows), "elements to round to bfloat16")
	stride := checkBFloat16(dst, rows, k)
	if rows > 0 && k > 0 {
		toBFloat16Transposed(dst, stride, x, xStride, rows, k)
	}
}

// toBFloat16TransposedGeneric rounds columns of k elements to rows, whose odd element it sets to zero.
func toBFloat16TransposedGeneric(dst []uint16, stride int, x []float32, xStride, rows, k int) {
	for i := range k {
		for r, v := range x[i*xStride : i*xStride+rows] {
			dst[r*stride+i] = toBFloat16(v)
		}
	}
	if k%2 == 1 {
		for r := range rows {
			dst[r*stride+k] = 0
		}
	}
}

func checkBFloat16(dst []uint16, rows, k int) (stride int) {
	need(len(dst), rows*BFloat16Stride(k), "rows of bfloat16")
	return BFloat16Stride(k)
}

// toBFloat16 rounds to the nearest, halves to even. NaN stays NaN.
func toBFloat16(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16 | 1<<6)
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// AccumulateBFloat16 computes y += x·w in float32. Each element of y is one chain of fused multiply-adds that starts at what
// y contains and takes the elements two by two, the odd one of them first: 1, 0, 3, 2, …; denormals, in operands and
// results, are zero. (That is what VDPBF16PS does.) So a row does not depend on the number of rows, and a product may be
// added in parts along k, if all but the last are even.
//
// y: rows × w.N, yStride elements from row to row. x: rows of bfloat16 as ToBFloat16 writes them for w.K.
func AccumulateBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	need(len(y), span(rows, yStride, w.N), "result of a bfloat16 product")
	need(len(x), rows*BFloat16Stride(w.K), "activations of a bfloat16 product")
	if rows == 0 || w.N == 0 || w.K == 0 {
		return
	}
	accumulateBFloat16(y, yStride, x, rows, w)
}

// MulBFloat16 computes y = act(bias + x·w) in float32. Each element of y is the chain of AccumulateBFloat16, begun at its bias, zero
// without one. So an element depends on its row and its column alone.
//
// y: rows × w.N, yStride elements from row to row. x: rows of bfloat16 as ToBFloat16 writes them for w.K. bias: w.N, or nil.
func MulBFloat16(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix, bias []float32, act Activation) {
	need(len(y), span(rows, yStride, w.N), "result of a bfloat16 product")
	need(len(x), rows*BFloat16Stride(w.K), "activations of a bfloat16 product")
	if bias != nil {
		need(len(bias), w.N, "bias of a bfloat16 product")
	}
	if rows == 0 || w.N == 0 {
		return
	}
	mulBFloat16(y, yStride, x, rows, w, bias, act)
}

func mulBFloat16Generic(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix, bias []float32, act Activation) {
	for r := range rows {
		out := y[r*yStride : r*yStride+w.N]
		for j := range out {
			out[j] = flush(biasAt(bias, j))
		}
	}
	accumulateBFloat16Generic(y, yStride, x, rows, w)
	for r := range rows {
		out := y[r*yStride : r*yStride+w.N]
		for j, v := range out {
			out[j] = activate(v, act)
		}
	}
}

// BFloat16Rows is a table of n rows of k bfloat16: the output layer, of which a decoder step needs only the rows on its shortlist.
type BFloat16Rows struct {
	N, K int

	stride int      // elements from row to row: K rounded up to bfloat16Lanes, padded with zeros
	rows   []uint16 // 64-byte aligned
}

const bfloat16Lanes = 16 // elements of a row that are multiplied at a time

// PackBFloat16Rows rounds an n×k row-major table.
func PackBFloat16Rows(n, k int, table []float32) *BFloat16Rows {
	if k < 0 || n < 0 {
		panic(fmt.Sprintf("kernels: %d rows of %d bfloat16", n, k))
	}
	need(len(table), n*k, "elements of bfloat16 rows")
	t := &BFloat16Rows{N: n, K: k, stride: roundUp(k, bfloat16Lanes)}
	t.rows = hugepage.Make[uint16](n * t.stride)
	for i := range n {
		roundToBFloat16(t.row(i), table[i*k:(i+1)*k])
	}
	return t
}

func (t *BFloat16Rows) row(i int) []uint16 { return t.rows[i*t.stride:][:t.K] }

// Whole returns the matrix whose columns are the rows of the table.
func (t *BFloat16Rows) Whole() *BFloat16Matrix {
	w := new(BFloat16Matrix)
	w.resize(t.K, t.N)
	for j := range t.N {
		column := w.column(j)
		for i, b := range t.row(j) {
			column[pairPlace(i)] = b
		}
	}
	return w
}

// DotRowsBFloat16 multiplies one row of activations in float32 with chosen rows of a table: y[i] = x·row(ids[i]) + bias[ids[i]].
//
// y: len(ids). x: t.K. bias: t.N, or nil. An id outside of the table panics. The sum is that of DotRowsFloat32, so that a result differs from
// MulBFloat16 on the same weights: a model uses one of the two for a given purpose, always.
func DotRowsBFloat16(y []float32, x []float32, t *BFloat16Rows, ids []int32, bias []float32) {
	need(len(y), len(ids), "result of chosen rows")
	need(len(x), t.K, "activations for chosen rows")
	if bias != nil {
		need(len(bias), t.N, "bias of chosen rows")
	}
	checkIDs(ids, t.N)
	dotRowsBFloat16(y[:len(ids)], x[:t.K], t, ids, bias)
}

func dotRowsBFloat16Generic(y []float32, x []float32, t *BFloat16Rows, ids []int32, bias []float32) {
	for i, id := range ids {
		y[i] = dotBFloat16Generic(x, t.row(int(id))) + biasAt(bias, int(id))
	}
}

// Columns is Int8Matrix.Columns for bfloat16.
func (w *BFloat16Matrix) Columns(first, end int) BFloat16Matrix {
	checkColumns(first, end, w.N)
	part, columns := *w, roundUp(end-first, bfloat16Panel)
	part.N = end - first
	part.panels = w.panels[first*w.pairs*2:][:columns*w.pairs*2]
	return part
}

func accumulateBFloat16Generic(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	stride := BFloat16Stride(w.K)
	for r := range rows {
		row := x[r*stride : (r+1)*stride]
		for first := 0; first < w.N; first += bfloat16Panel {
			out := y[r*yStride+first:][:min(bfloat16Panel, w.N-first)]
			panel := w.panels[first*w.pairs*2:]
			for j := range out {
				out[j] = flush(out[j])
			}
			for i := range w.pairs {
				b := panel[i*bfloat16Panel*2:]
				addScaledFlushed(out, fromBFloat16(row[2*i+1]), b[1:])
				addScaledFlushed(out, fromBFloat16(row[2*i]), b)
			}
		}
	}
}

// fromBFloat16 returns the number, or zero if it is denormal.
func fromBFloat16(b uint16) float32 { return flush(math.Float32frombits(uint32(b) << 16)) }

// flush returns zero, of the same sign, in place of a denormal number.
func flush(x float32) float32 {
	if x < minNormal && x > -minNormal {
		return math.Float32frombits(math.Float32bits(x) & signBit)
	}
	return x
}

// What a Matrix tells a Tuning: products of bfloat16 do one panel at a time, in one way.

func (w *BFloat16Matrix) size() (k, n int)      { return w.K, w.N }
func (w *BFloat16Matrix) shape() string         { return fmt.Sprintf("bfloat16 %dx%d", w.K, w.N) }
func (w *BFloat16Matrix) hasDouble() bool       { return false }
func (w *BFloat16Matrix) from() *int            { return nil }
func (w *BFloat16Matrix) leaves() *bool         { return nil }
func (w *BFloat16Matrix) low() *bool            { return nil }
func (w *BFloat16Matrix) listed() *nonzeroShare { return nil }

func (w *BFloat16Matrix) part(first, end int) Matrix {
	part := w.Columns(first, end)
	return &part
}

func (w *BFloat16Matrix) multiply(in *tuningInput, rows, yStride int) {
	MulBFloat16(in.y, yStride, in.halves, rows, w, nil, None)
}
