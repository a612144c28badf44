package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// thinned returns quantised activations that are not negative, of which a share in thousandths is something.
func thinned(r *rand.Rand, n, share int) []uint8 {
	a := make([]uint8, n)
	for i := range a {
		a[i] = int8Zero
		if r.IntN(1000) < share {
			a[i] = uint8(int8Zero + 1 + r.IntN(127))
		}
	}
	return a
}

// alwaysList has products of more than a few rows go by lists, where there are any.
func alwaysList(w *Int8Matrix) {
	if share := w.listed(); share != nil {
		*share = alwaysListed
	}
}

// Products with activations of which many are zeros have the bits of the reference, however many there are, and however large.
func TestMulInt8SparseAgrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		taken := 0
		check := func(seed uint64, rows, k, n, share int, largest bool) {
			t.Helper()
			r := source(seed)
			weights, scales := trained(r, k*n, 10+float64(seed%4)*10), awkward(r, n, seed%3 == 0)
			a := thinned(r, rows*Int8Stride(k), share)
			if largest { // sums leave 16 bits after two products
				for i := range a {
					if a[i] != int8Zero {
						a[i] = 255
					}
				}
				for i := range weights {
					weights[i] = [2]int8{127, -127}[seed%2]
				}
			}
			aScales, bias := awkward(r, rows, seed%3 == 0), awkward(r, n, seed%3 == 0)
			yStride := n + int(seed%2)*3
			y := normals(r, span(rows, yStride, n))
			for _, act := range []Activation{None, Rectified} {
				for _, b := range [][]float32{bias, nil} {
					agree(t, fmt.Sprintf("MulInt8 of %d in a thousand, %d×%d×%d", share, rows, k, n), func(g *arena) []float32 {
						w := PackInt8Rectified(k, n, weights, scales)
						if seed%2 == 0 { // otherwise when the rule says so
							alwaysList(w)
						}
						out := guard(g, y)
						if MulInt8(out, yStride, guard(g, a), guard(g, aScales), rows, w, guardOrNil(g, b), act) > 0 {
							taken++
						}
						return out
					})
				}
			}
		}
		seed := uint64(0)
		for _, share := range []int{0, 1, 20, 130, 250, 350, 1000} {
			for _, k := range []int{64, 192, 1536, 2048, 2112, maxSparseK} {
				for _, n := range []int{64, 128, 256, 448, 640} {
					if k*n <= 1<<20 {
						seed++
						check(seed, []int{1, 2, 5, 17, 3}[seed%5], k, n, share, seed%7 < 2)
					}
				}
			}
		}
		if packsSparse() && taken == 0 {
			t.Error("no product went by lists")
		}
	})
}

// Lists are taken up to the share of activations that a tuning says, of 1 or 2 rows up to one of their own, and what they leave out is counted.
func TestWhenListsAreUsed(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k, n = 256, 128
		r := source(1)
		w := PackInt8Rectified(k, n, trained(r, k*n, 20), normals(r, n))
		share := w.listed()
		if share == nil {
			t.Skip("this kind of processor has no lists")
		}
		few, many := int(fewRowsShare)*k/1000, int(manyRowsShare)*k/1000
		for _, c := range []struct {
			rows, something int // of 256 activations of a row
			tuned           nonzeroShare
			lists           bool
		}{
			{5, many, 0, true}, {5, many + 1, 0, false}, {5, 0, 0, true}, {5, 102, 400, true}, {5, 103, 400, false}, {5, 1, 1, false},
			{1, few, 0, true}, {2, few, 1, true}, {1, few + 1, 0, false},
		} {
			a := slices.Repeat([]uint8{int8Zero}, c.rows*k)
			for row := range c.rows {
				for i := range c.something {
					a[row*k+(i*7+row)%k]++
				}
			}
			*share = c.tuned
			want := 0
			if c.lists {
				want = c.rows * (k - c.something) * n
			}
			if got := MulInt8(make([]float32, c.rows*n), n, a, make([]float32, c.rows), c.rows, w, nil, None); got != want {
				t.Errorf("%d rows, %d activations of %d, tuned to %d: %d multiply-accumulates are left out, want %d", c.rows, c.something, k, c.tuned, got, want)
			}
		}
	})
}

// A negative activation, which no list can hold, is multiplied as ever, or refused.
func TestNegativeActivationsAreNotListed(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k, n, rows = 64, 128, 3
		r := source(1)
		weights, scales := trained(r, k*n, 20), normals(r, n)
		w, plain := PackInt8Rectified(k, n, weights, scales), PackInt8(k, n, weights, scales)
		if w.chains != nil {
			t.Skip("this kind of processor refuses them")
		}
		for place := range rows * k {
			a := slices.Repeat([]uint8{int8Zero}, rows*k)
			a[place]--
			got, want := make([]float32, rows*n), make([]float32, rows*n)
			if left := MulInt8(got, n, a, []float32{1, 1, 1}, rows, w, nil, None); left != 0 {
				t.Fatalf("%d multiply-accumulates are left out", left)
			}
			MulInt8(want, n, a, []float32{1, 1, 1}, rows, plain, nil, None)
			sameBits(t, fmt.Sprintf("a negative activation at %d", place), got, want)
		}
	})
}

// Columns of a matrix that is packed for lists are multiplied by lists too, if there are kernels for so many.
func TestListedColumns(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k, n, rows = 128, 512, 4
		r := source(2)
		weights, scales, a, aScales := trained(r, k*n, 20), normals(r, n), thinned(r, rows*k, 100), normals(r, rows)
		w := PackInt8Rectified(k, n, weights, scales)
		alwaysList(w)
		want := make([]float32, rows*n)
		mulInt8Generic(want, n, a, aScales, rows, w, nil, None)
		for _, cut := range [][2]int{{0, 512}, {128, 512}, {128, 256}, {448, 512}, {64, 192}, {128, 160}, {256, 256}} {
			part := w.Columns(cut[0], cut[1])
			width := cut[1] - cut[0]
			got := make([]float32, rows*n)
			left := MulInt8(got[cut[0]:], n, a, aScales, rows, &part, nil, None)
			if lists := w.sparse != nil && width%64 == 0 && width > 0; left > 0 != lists {
				t.Errorf("columns %v: %d are left out", cut, left)
			}
			for row := range rows {
				at := row*n + cut[0]
				sameBits(t, fmt.Sprintf("columns %v, row %d", cut, row), got[at:at+width], want[at:at+width])
			}
		}
	})
}

func TestListsAreComplete(t *testing.T) { eachListed(t, listInt8Generic) }

// eachListed checks that lists have the places and values of all activations that are something, and four zeros behind them.
func eachListed(t *testing.T, list func(ks []uint16, values, a []uint8) int) {
	t.Helper()
	r := source(6)
	for _, k := range []int{64, 128, 1536, maxSparseK} {
		for _, share := range []int{0, 5, 200, 700, 1000} {
			a := thinned(r, k, share)
			ks, values := slices.Repeat([]uint16{1}, k+sparsePad), slices.Repeat([]uint8{1}, k+sparsePad)
			n := list(ks, values, a)
			at := 0
			for i, v := range a {
				if v == int8Zero {
					continue
				}
				if at >= n || int(ks[at]) != i || values[at] != v-int8Zero {
					t.Fatalf("%d in a thousand of %d: entry %d of %d is not activation %d", share, k, at, n, i)
				}
				at++
			}
			if at != n || !slices.Equal(ks[n:n+4], make([]uint16, 4)) || !slices.Equal(values[n:n+4], make([]uint8, 4)) {
				t.Fatalf("%d in a thousand of %d: %d entries, want %d and four zeros", share, k, n, at)
			}
		}
	}
}

// A list that ends with the row, and not with four, does not go on with what is left of the one before.
func TestListsEnd(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const rows, k, n = fewRows + 1, 256, 128
		r := source(3)
		w := PackInt8Rectified(k, n, trained(r, k*n, 20), normals(r, n))
		alwaysList(w)
		for extra := range 5 {
			a := slices.Repeat([]uint8{int8Zero}, rows*k)
			for i := range 128 {
				a[i]++
			}
			for i := range 64 + extra {
				a[2*k-1-i-i/64*100]++
			}
			got, want, aScales := make([]float32, rows*n), make([]float32, rows*n), slices.Repeat([]float32{1}, rows)
			if left := MulInt8(got, n, a, aScales, rows, w, nil, None); (left > 0) != (w.sparse != nil) {
				t.Errorf("%d are left out", left)
			}
			mulInt8Generic(want, n, a, aScales, rows, w, nil, None)
			sameBits(t, fmt.Sprintf("64 activations at the end, %d elsewhere", extra), got, want)
		}
	})
}

// sameBits compares results with what they should be.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// FuzzMulInt8Sparse compares products with many zeros to the reference.
func FuzzMulInt8Sparse(f *testing.F) {
	f.Add([]byte{0, 0, 3, 0, 0, 0, 127, 0, 0}, uint8(3), uint8(2), uint8(1))
	f.Add([]byte{127, 129, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0}, uint8(19), uint8(24), uint8(3))
	f.Add([]byte{0}, uint8(1), uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, rows, ks, ns uint8) {
		k, n := sparseMultipleK*(1+int(ks%36)), sparseStrip*(1+int(ns%7))
		weights, a := make([]int8, k*n), make([]uint8, int(rows%20)*Int8Stride(k))
		for i := range weights {
			weights[i] = int8(fuzzByte(data, i, 1)) >> (i % 4)
		}
		for i := range a {
			a[i] = fuzzByte(data, i, 0) | int8Zero
		}
		scales, aScales := fuzzFloats(data, n), fuzzFloats(data, int(rows%20))
		agreeEverywhere(t, "MulInt8 with zeros", func(g *arena) []float32 {
			y := guard(g, make([]float32, int(rows%20)*n))
			w := PackInt8Rectified(k, n, weights, scales)
			alwaysList(w)
			MulInt8(y, n, guard(g, a), guard(g, aScales), int(rows%20), w, guard(g, scales), None)
			return y
		})
	})
}
