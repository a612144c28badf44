package kernels

import (
	"fmt"
	"math"

	"github.com/sluice-mt/sluice/internal/hugepage"
)

const bfloat16Panel = 32 // columns of a panel of BFloat16Matrix

// BFloat16Matrix is a k×n matrix of bfloat16, the upper halves of float32, packed for AccumulateBFloat16: it takes half the
// memory, and processors with AVX512_BF16 multiply it at twice the speed of float32. The zero value may be packed.
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
	for first := 0; first < n; first += bfloat16Panel {
		panel := w.panels[first*w.pairs*2:]
		for i := range k {
			pair := panel[i/2*bfloat16Panel*2:][:bfloat16Panel*2]
			for j, v := range b[i*stride+first : i*stride+min(first+bfloat16Panel, n)] {
				pair[2*j+i%2] = toBFloat16(v)
			}
		}
	}
}

// PackTransposed makes w the k×n matrix bᵀ, rounded, where b is n×k and its rows lie stride elements apart. See Pack.
func (w *BFloat16Matrix) PackTransposed(k, n int, b []float32, stride int) {
	need(len(b), span(n, stride, k), "elements of a bfloat16 matrix")
	w.resize(k, n)
	for j := range n {
		column := w.panels[j/bfloat16Panel*bfloat16Panel*w.pairs*2+j%bfloat16Panel*2:]
		for i, v := range b[j*stride : j*stride+k] {
			column[i/2*bfloat16Panel*2+i%2] = toBFloat16(v)
		}
	}
}

// resize makes w a k×n matrix of zeros.
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
	clear(w.panels)
}

// BFloat16Stride returns the elements from one row of k bfloat16 to the next: k rounded up to a multiple of 2.
func BFloat16Stride(k int) int { return roundUp(k, 2) }

// ToBFloat16 rounds rows of k elements to bfloat16, halves to even, and pads them with zeros.
//
// dst: rows of BFloat16Stride(k). x: rows of k, xStride elements from row to row.
func ToBFloat16(dst []uint16, x []float32, xStride, rows, k int) {
	need(len(x), span(rows, xStride, k), "elements to round to bfloat16")
	stride := checkBFloat16(dst, rows, k)
	for r := range rows {
		row := dst[r*stride : (r+1)*stride]
		for i, v := range x[r*xStride : r*xStride+k] {
			row[i] = toBFloat16(v)
		}
		clear(row[k:])
	}
}

// ToBFloat16Transposed rounds the columns of x to rows of bfloat16: for products xᵀ·w.
//
// dst: rows of BFloat16Stride(k). x: k rows of as many elements as dst has rows, xStride elements from row to row.
func ToBFloat16Transposed(dst []uint16, x []float32, xStride, rows, k int) {
	need(len(x), span(k, xStride, rows), "elements to round to bfloat16")
	stride := checkBFloat16(dst, rows, k)
	clear(dst[:rows*stride])
	for i := range k {
		for r, v := range x[i*xStride : i*xStride+rows] {
			dst[r*stride+i] = toBFloat16(v)
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

func accumulateBFloat16Generic(y []float32, yStride int, x []uint16, rows int, w *BFloat16Matrix) {
	stride := BFloat16Stride(w.K)
	for r := range rows {
		row := x[r*stride : (r+1)*stride]
		for first := 0; first < w.N; first += bfloat16Panel {
			out := y[r*yStride+first:][:min(bfloat16Panel, w.N-first)]
			panel := w.panels[first*w.pairs*2:]
			for j := range out {
				s := flush(out[j])
				for i := range w.pairs {
					b := panel[(i*bfloat16Panel+j)*2:][:2]
					s = fma32Flushed(fromBFloat16(row[2*i+1]), fromBFloat16(b[1]), s)
					s = fma32Flushed(fromBFloat16(row[2*i]), fromBFloat16(b[0]), s)
				}
				out[j] = s
			}
		}
	}
}

// fromBFloat16 returns the number, or zero if it is denormal.
func fromBFloat16(b uint16) float32 { return flush(math.Float32frombits(uint32(b) << 16)) }

// flush returns zero, of the same sign, in place of a denormal number.
func flush(x float32) float32 {
	const minNormal = 0x1p-126
	if x < minNormal && x > -minNormal {
		return math.Float32frombits(math.Float32bits(x) & signBit)
	}
	return x
}
