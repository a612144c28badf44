package kernels

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// Products two columns at a time have the bits of those one weight at a time, the largest sums among them.
func TestMulInt8Scalar(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		for i, c := range []struct{ rows, k, n int }{
			{scalarFewest - 1, 64, 64}, {scalarFewest, 1, 1}, {scalarFewest, 64, 64}, {5, 36, 70}, {scalarRows, scalarK, 32}, {scalarRows + 1, scalarK + 1, 33},
			{2*scalarRows + 3, 2*scalarK - 1, 31}, {7, 1536, 96}, {scalarFewest, 0, 40}, {scalarFewest, MaxInt8K, 3},
		} {
			r := source(uint64(i))
			for _, weights := range [][]int8{int8s(r, c.k*c.n), slices.Repeat([]int8{-127}, c.k*c.n), slices.Repeat([]int8{127, -127, 1}, c.k*c.n)[:c.k*c.n]} {
				w := PackInt8(c.k, c.n, weights, normals(r, c.n))
				stride, yStride := Int8Stride(c.k), c.n+i%3
				for _, a := range [][]uint8{uint8s(r, c.rows*stride), slices.Repeat([]uint8{255}, c.rows*stride), slices.Repeat([]uint8{0, 255}, c.rows*stride)[:c.rows*stride]} {
					aScales, bias := normals(r, c.rows), normals(r, c.n)
					got := normals(r, span(c.rows, yStride, c.n))
					want := slices.Clone(got)
					mulInt8Scalar(got, yStride, a, aScales, c.rows, w, bias, Rectified)
					mulInt8Generic(want, yStride, a, aScales, c.rows, w, bias, Rectified)
					sameBits(t, fmt.Sprintf("%d×%d×%d", c.rows, c.k, c.n), got, want)
				}
			}
		}
	})
}
