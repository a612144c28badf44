package quantise

import (
	"math"

	"github.com/sluice-mt/sluice/translator/marian"
)

// Compensate is Round for a matrix of which it is known what it meets: moments is the sum of xᵀ·x over the inputs x of its
// products, a row of numbers each. It does not round every number to the nearest, but one input after the other, and lets later
// numbers make up for the errors e of those before. With H the moments, damped, and H = (U+I)·D·(U+I)ᵀ, U strictly upper
// triangular and D diagonal, the squared error of the products is
//
//	e·H·eᵀ = Σ_k D_k·(e_k + Σ_{j<k} e_j·U_jk)²
//
// so number k is rounded to what is nearest to w_k + Σ_{j<k} e_j·U_jk (OPTQ, Frantar et al. 2023, in the form of LDLQ, Chee et
// al. 2023). Damping is what is added to the diagonal of H, as a share of its mean: the larger, the closer to plain rounding.
//
// Config must have Log and Blocks. A matrix whose blocks are not parts of its rows is rounded plainly.
func (c *Config) Compensate(dst, src []float32, m Matrix, moments []float32, damping float64) {
	inputs := m.Rows
	if m.Outputs == Rows {
		inputs = m.Cols
	}
	u := feedback(moments, inputs, damping)
	switch {
	case u == nil || m.Cols%marian.LogBlock != 0:
		c.Round(dst, src, m)
	case m.Outputs == Rows:
		c.compensateRows(dst, src, m, u)
	default:
		c.compensateColumns(dst, src, m, u)
	}
}

// compensateColumns takes the rows of the matrix, which are its inputs, one after the other. The scales of a row are those that
// fit it best when its turn comes.
func (c *Config) compensateColumns(dst, src []float32, m Matrix, u []float32) {
	errors, row := make([]float32, len(src)), make([]float32, m.Cols)
	for k := range m.Rows {
		at := k * m.Cols
		copy(row, src[at:])
		for j := range k {
			add(row, errors[j*m.Cols:], u[k*m.Rows+j])
		}
		if k < m.Eight {
			marian.RoundRow8(dst[at:at+m.Cols], row)
		} else {
			marian.RoundLogBlocks(dst[at:at+m.Cols], row, c.Bits, c.Steps)
		}
		for i, v := range src[at : at+m.Cols] {
			errors[at+i] = v - dst[at+i]
		}
	}
}

// compensateRows takes every row, which is an output, on its own. Its scales are those of plain rounding. Rows in 8 bits need no
// compensation.
func (c *Config) compensateRows(dst, src []float32, m Matrix, u []float32) {
	errors := make([]float32, m.Cols)
	var grid marian.LogGrid
	roundRows8(dst, src, m)
	for at := m.Eight * m.Cols; at < len(src); at += m.Cols {
		for k, v := range src[at : at+m.Cols] {
			if k%marian.LogBlock == 0 {
				grid = marian.FitLogBlock(src[at+k:at+k+marian.LogBlock], c.Bits, c.Steps)
			}
			one := dst[at+k : at+k+1]
			one[0] = v + dot(errors[:k], u[k*m.Cols:])
			grid.Round(one, one)
			errors[k] = v - one[0]
		}
	}
}

// feedback returns the transpose of U: row k holds U_jk for all j < k. It is nil if the moments are not those of finite inputs.
func feedback(moments []float32, n int, damping float64) []float32 {
	mean := 0.0
	for i := range n {
		mean += float64(moments[i*n+i]) / float64(n)
	}
	h := make([]float64, n*n) // becomes M, upper triangular, with H = M·Mᵀ
	for i, v := range moments {
		h[i] = float64(v)
	}
	for i := range n {
		h[i*n+i] += damping * mean
	}
	u := make([]float32, n*n)
	for k := n - 1; k >= 0; k-- {
		below := h[k*n+k+1 : (k+1)*n]
		pivot := h[k*n+k] - dot(below, below)
		if !(pivot > 0) || math.IsInf(pivot, 0) {
			return nil
		}
		pivot = math.Sqrt(pivot)
		h[k*n+k] = pivot
		for j := range k {
			v := (h[j*n+k] - dot(below, h[j*n+k+1:(j+1)*n])) / pivot
			h[j*n+k] = v
			u[k*n+j] = float32(v / pivot)
		}
	}
	return u
}

// dot returns Σ a·b over the length of a, in four sums.
func dot[T float32 | float64](a, b []T) T {
	b = b[:len(a)]
	var s [4]T
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s[0] += a[i] * b[i]
		s[1] += a[i+1] * b[i+1]
		s[2] += a[i+2] * b[i+2]
		s[3] += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s[0] += a[i] * b[i]
	}
	return s[0] + s[1] + (s[2] + s[3])
}

// add adds factor·x to y.
func add(y, x []float32, factor float32) {
	x = x[:len(y)]
	for i, v := range x {
		y[i] += factor * v
	}
}
