package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

func TestAccumulateBFloat16Agrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		check := func(seed uint64, rows, k, n int) {
			t.Helper()
			r := source(seed)
			wild := seed%3 == 0
			var w BFloat16Matrix
			w.Pack(k, n, awkward(r, k*n, wild), n)
			x, yStride := make([]uint16, rows*BFloat16Stride(k)), n+int(seed%2)*3
			ToBFloat16(x, awkward(r, rows*k, wild), k, rows, k)
			y := awkward(r, span(rows, yStride, n), wild)
			agree(t, fmt.Sprintf("AccumulateBFloat16 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
				out := guard(g, y)
				AccumulateBFloat16(out, yStride, guard(g, x), rows, &w)
				return out
			})
		}
		for rows := range 30 {
			check(uint64(rows), rows, 13, 40)
		}
		for i, k := range lengths {
			check(uint64(i), 1+i%14, k, 33+i)
			check(uint64(i), 13, 5, lengths[i])
		}
		check(4, 2, 0, 5)
		check(5, 14, 2*accumulateKForTest+3, 33)
	})
}

func TestMulBFloat16Agrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		check := func(seed uint64, rows, k, n int) {
			t.Helper()
			r := source(seed)
			wild := seed%3 == 0
			var w BFloat16Matrix
			w.Pack(k, n, awkward(r, k*n, wild), n)
			x, bias, yStride := make([]uint16, rows*BFloat16Stride(k)), awkward(r, n, wild), n+int(seed%2)*3
			ToBFloat16(x, awkward(r, rows*k, wild), k, rows, k)
			y := awkward(r, span(rows, yStride, n), wild) // what was there does not matter
			for _, act := range []Activation{None, Rectified} {
				for _, b := range [][]float32{bias, nil} {
					agree(t, fmt.Sprintf("MulBFloat16 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
						out := guard(g, y)
						MulBFloat16(out, yStride, guard(g, x), rows, &w, guardOrNil(g, b), act)
						return out
					})
				}
			}
		}
		for rows := range 30 {
			check(uint64(rows), rows, 13, 70)
		}
		for i, k := range lengths {
			check(uint64(i), 1+i%14, k, 33+i)
			check(uint64(i), 13, 5, lengths[i])
		}
		check(4, 2, 0, 5)
		check(5, 14, 2*accumulateKForTest+3, 33)
	})
}

// A product begins at its bias, and is otherwise what is added to a result.
func TestMulBFloat16BeginsAtTheBias(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(11)
		const rows, k, n = 15, 70, 75
		var w BFloat16Matrix
		w.Pack(k, n, normals(r, k*n), n)
		x, bias := make([]uint16, rows*k), normals(r, n)
		ToBFloat16(x, normals(r, rows*k), k, rows, k)
		want, got, rectified := make([]float32, rows*n), normals(r, rows*n), normals(r, rows*n)
		for row := range rows {
			copy(want[row*n:], bias)
		}
		AccumulateBFloat16(want, n, x, rows, &w)
		MulBFloat16(got, n, x, rows, &w, bias, None)
		MulBFloat16(rectified, n, x, rows, &w, bias, Rectified)
		for i, v := range want {
			if got[i] != v || rectified[i] != max(0, v) {
				t.Fatalf("element %d is %v, rectified %v, want %v", i, got[i], rectified[i], v)
			}
		}
	})
}

func TestToBFloat16Agrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		for seed, k := range lengths {
			r := source(uint64(seed))
			const rows = 3
			xStride := k + seed%2*5
			x := anyBits(r, span(rows, xStride, k), seed%3 == 0)
			agree(t, fmt.Sprintf("ToBFloat16 of %d", k), func(g *arena) []float32 {
				dst := guard(g, make([]uint16, rows*BFloat16Stride(k)))
				ToBFloat16(dst, guard(g, x), xStride, rows, k)
				return bitsOf(dst)
			})
		}
	})
}

// anyBits are awkward numbers, with denormals, NaN and halves between two of bfloat16 among them.
func anyBits(r *rand.Rand, n int, wild bool) []float32 {
	x := awkward(r, n, wild)
	for i := range x {
		if i%3 == 0 {
			x[i] = math.Float32frombits(r.Uint32() &^ (r.Uint32() & 1 * 0x7fff))
		}
	}
	return x
}

// Rows and columns are whole blocks of what is transposed at a time, tiles, panels, and what is left of each.
func eachShapeToPack(check func(seed uint64, k, n int)) {
	for i, k := range lengths {
		check(uint64(i), k, 33+i)
		check(uint64(i), 18+i, k)
	}
	for i, k := range []int{112, 143, 496, 512, 529} { // around the length of tiles
		check(uint64(i), k, 64)
	}
	check(1, 1031, 33) // several calls for a panel
	check(2, 0, 5)
	check(3, 5, 0)
}

func TestPackBFloat16Agrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		eachShapeToPack(func(seed uint64, k, n int) {
			t.Helper()
			r, gap := source(seed), int(seed%2)*5
			straight, transposed := anyBits(r, span(k, n+gap, n), seed%3 == 0), anyBits(r, span(n, k+gap, k), seed%3 == 0)
			agree(t, fmt.Sprintf("Pack %d×%d", k, n), func(g *arena) []float32 {
				w := BFloat16Matrix{panels: guard(g, packedBefore(k, n))}
				w.Pack(k, n, guard(g, straight), n+gap)
				return bitsOf(w.panels)
			})
			agree(t, fmt.Sprintf("PackTransposed %d×%d", k, n), func(g *arena) []float32 {
				w := BFloat16Matrix{panels: guard(g, packedBefore(k, n))}
				w.PackTransposed(k, n, guard(g, transposed), k+gap)
				return bitsOf(w.panels)
			})
		})
	})
}

// packedBefore is memory for a k×n matrix in which another one was.
func packedBefore(k, n int) []uint16 { return usedBefore(roundUp(n, bfloat16Panel) * roundUp(k, 2)) }

// usedBefore is memory that has to be written, zeros too.
func usedBefore(n int) []uint16 {
	words := make([]uint16, n)
	for i := range words {
		words[i] = 0x4049
	}
	return words
}

// Each element is at its place, rounded, and what pads panels is zero, whatever was there.
func TestBFloat16MatrixHasItsElements(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		eachShapeToPack(func(seed uint64, k, n int) {
			t.Helper()
			b := normals(source(seed), k*n)
			straight, transposed := BFloat16Matrix{panels: packedBefore(k, n)}, BFloat16Matrix{panels: packedBefore(k, n)}
			straight.Pack(k, n, b, n)
			transposed.PackTransposed(k, n, transposedOf(b, k, n), k)
			for at, got := range straight.panels {
				i := at/2/bfloat16Panel%((k+1)/2)*2 + at%2
				j := at/2/bfloat16Panel/((k+1)/2)*bfloat16Panel + at/2%bfloat16Panel
				want := uint16(0)
				if i < k && j < n {
					want = toBFloat16(b[i*n+j])
				}
				if got != want || transposed.panels[at] != want {
					t.Fatalf("element %d, %d of a matrix of %d×%d is %x, transposed %x, want %x", i, j, k, n, got, transposed.panels[at], want)
				}
			}
		})
	})
}

func TestToBFloat16TransposedAgrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		eachShapeToPack(func(seed uint64, k, rows int) {
			t.Helper()
			xStride := rows + int(seed%2)*5
			x := anyBits(source(seed), span(k, xStride, rows), seed%3 == 0)
			agree(t, fmt.Sprintf("ToBFloat16Transposed of %d×%d", k, rows), func(g *arena) []float32 {
				dst := guard(g, usedBefore(rows*BFloat16Stride(k)))
				ToBFloat16Transposed(dst, guard(g, x), xStride, rows, k)
				return bitsOf(dst)
			})
		})
	})
}

// What is transposed and rounded is what is rounded of the transposed.
func TestToBFloat16TransposedIsToBFloat16OfColumns(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		eachShapeToPack(func(seed uint64, k, rows int) {
			t.Helper()
			x := normals(source(seed), k*rows)
			got, want := usedBefore(rows*BFloat16Stride(k)), make([]uint16, rows*BFloat16Stride(k))
			ToBFloat16Transposed(got, x, rows, rows, k)
			ToBFloat16(want, transposedOf(x, k, rows), k, rows, k)
			if !slices.Equal(got, want) {
				t.Fatalf("%d×%d: rows and columns differ", k, rows)
			}
		})
	})
}

// bitsOf makes numbers of words, which may be compared.
func bitsOf(words []uint16) []float32 {
	numbers := make([]float32, len(words))
	for i, w := range words {
		numbers[i] = float32(w)
	}
	return numbers
}

func TestDotRowsBFloat16Agrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		for seed, k := range lengths {
			r := source(uint64(seed))
			const n = 70
			ids := randomIDs(r.IntN, seed*2+1, n)
			wild := seed%3 == 0
			x, bias, table := awkward(r, k, wild), awkward(r, n, wild), PackBFloat16Rows(n, k, awkward(r, n*k, wild))
			for _, b := range [][]float32{bias, nil} {
				agree(t, fmt.Sprintf("DotRowsBFloat16 %d of %d", len(ids), k), func(g *arena) []float32 {
					y, guarded := guard(g, make([]float32, len(ids))), *table
					guarded.rows = guard(g, table.rows)
					DotRowsBFloat16(y, guard(g, x), &guarded, guard(g, ids), guardOrNil(g, b))
					return y
				})
			}
		}
	})
}

func randomIDs(intN func(int) int, count, n int) []int32 {
	ids := make([]int32, count)
	for i := range ids {
		ids[i] = int32(intN(n))
	}
	return ids
}

// What pads a row is not added: it would make 0 of -0.
func TestDotRowsBFloat16LeavesOutWhatPadsRows(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k = 17
		x, weights := make([]float32, k), make([]float32, k)
		for i := range x {
			x[i], weights[i] = -1e-30, 1e-30 // their product is rounded to -0
		}
		y, bias := make([]float32, 1), []float32{float32(math.Copysign(0, -1))}
		DotRowsBFloat16(y, x, PackBFloat16Rows(1, k, weights), []int32{0}, bias)
		if y[0] != 0 || !math.Signbit(float64(y[0])) {
			t.Errorf("the sum of numbers that are -0 is %v", y[0])
		}
	})
}

// Chosen rows of bfloat16 are those that a table of what they stand for has in float32, and columns of the whole matrix.
func TestDotRowsBFloat16AreThoseOfFloat32(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(12)
		const n, k = 70, 100
		values, x, bias := normals(r, n*k), normals(r, k), normals(r, n)
		table, widened := PackBFloat16Rows(n, k, values), make([]float32, n*k)
		for i, v := range values {
			widened[i] = fromBFloat16(toBFloat16(v))
		}
		ids := randomIDs(r.IntN, 37, n)
		got, want, all := make([]float32, len(ids)), make([]float32, len(ids)), make([]float32, n)
		DotRowsBFloat16(got, x, table, ids, bias)
		DotRowsFloat32(want, x, widened, k, ids, bias)
		halves := make([]uint16, k)
		ToBFloat16(halves, x, k, 1, k)
		MulBFloat16(all, n, halves, 1, table.Whole(), bias, None)
		for i, id := range ids {
			if got[i] != want[i] {
				t.Errorf("row %d gives %v, in float32 %v", id, got[i], want[i])
			}
			near(t, "column of the whole matrix", all[id], float64(got[i]), 0, 0.3) // the activations are rounded
		}
	})
}

func TestBFloat16RejectsWhatDoesNotFit(t *testing.T) {
	x, halves, table := make([]float32, 640), make([]uint16, 640), PackBFloat16Rows(10, 64, make([]float32, 640))
	w := table.Whole()
	for name, kernel := range map[string]func(){
		"weights":        func() { w.Pack(10, 10, x[:99], 10) },
		"table":          func() { PackBFloat16Rows(10, 64, x[:639]) },
		"negative table": func() { PackBFloat16Rows(-1, 64, x) },
		"rounded":        func() { ToBFloat16(halves[:127], x, 64, 2, 64) },
		"to be rounded":  func() { ToBFloat16(halves, x[:127], 64, 2, 64) },
		"activations":    func() { MulBFloat16(x, 10, halves[:127], 2, w, nil, None) },
		"result":         func() { MulBFloat16(x[:19], 10, halves, 2, w, nil, None) },
		"bias":           func() { MulBFloat16(x, 10, halves, 2, w, x[:9], None) },
		"sums":           func() { AccumulateBFloat16(x[:19], 10, halves, 2, w) },
		"columns":        func() { w.Columns(0, 11) },
		"chosen":         func() { DotRowsBFloat16(x, x, table, []int32{10}, nil) },
		"below":          func() { DotRowsBFloat16(x, x, table, []int32{-1}, nil) },
		"of the choice":  func() { DotRowsBFloat16(x[:1], x, table, []int32{1, 2}, nil) },
		"of a row":       func() { DotRowsBFloat16(x, x[:63], table, []int32{1}, nil) },
		"chosen bias":    func() { DotRowsBFloat16(x, x, table, []int32{1}, x[:9]) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			kernel()
		}()
	}
}

// Denormals are zero, as operands, as sums and as what is added to.
func TestAccumulateBFloat16FlushesDenormals(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		var w BFloat16Matrix
		product := func(y, x0, x1, w0, w1 float32) float32 {
			x, out := make([]uint16, 2), []float32{y}
			ToBFloat16(x, []float32{x0, x1}, 2, 1, 2)
			w.Pack(2, 1, []float32{w0, w1}, 1)
			AccumulateBFloat16(out, 1, x, 1, &w)
			return out[0]
		}
		for _, c := range []struct{ y, x0, x1, w0, w1, want float32 }{
			{0x1p-127, 0, 0, 0, 0, 0},
			{0, 0x1p-127, 0, 0x1p100, 0, 0},
			{0, 0x1p-70, 0, 0x1p-70, 0, 0},
			{0x1p-126, 0x1p-70, 0, 0x1p-57, 0, 0x1p-126 + 0x1p-127},
			{0, 0x1p-60, 0x1p-64, 0x1p-60, 0x1p-64, 0x1p-120},
			{1, 0x1p-100, 3, 0x1p-100, 5, 16},
			// Just below the smallest normal number: exact in 24 bits, below, at and above what 24 bits round up to it.
			{-0x1p-126, 0x1p-75, 0, 0x1p-75, 0, 0},
			{-0x1p-126, 0x1p-75, 0, 0x1.8p-76, 0, 0},
			{-0x1p-126, 0x1p-76, 0, 0x1.02p-75, 0, 0},
			{-0x1p-126, 0x1p-76, 0, 0x1p-75, 0, -0x1p-126},
			{-0x1p-126, 0x1p-76, 0, 0x1.fep-76, 0, -0x1p-126},
			{0x1p-126, -0x1p-76, 0, 0x1.02p-75, 0, 0},
			{0x1p-126, -0x1p-76, 0, 0x1p-75, 0, 0x1p-126},
		} {
			if got := product(c.y, c.x0, c.x1, c.w0, c.w1); got != c.want {
				t.Errorf("%g + %g·%g + %g·%g = %g, want %g", c.y, c.x1, c.w1, c.x0, c.w0, got, c.want)
			}
		}
	})
}

// Sums about as large as the smallest normal number are made zero, or not, after they are rounded, wherever in a block they are.
func TestBFloat16ProductsNearTheSmallestNumberAgree(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		for rows := 1; rows < 15; rows++ {
			r := source(uint64(rows))
			k, n := 2+r.IntN(30), 33+r.IntN(40)
			tiny := func(n, exponent int) []float32 {
				x := normals(r, n)
				for i := range x {
					x[i] = float32(math.Ldexp(float64(x[i]), exponent-r.IntN(4)))
					if r.IntN(3) == 0 { // a power of two, whose products are halves of what is rounded
						x[i] = float32(math.Copysign(math.Ldexp(1, exponent-r.IntN(24)), float64(x[i])))
					}
				}
				return x
			}
			var w BFloat16Matrix
			w.Pack(k, n, tiny(k*n, -63), n)
			x, y := make([]uint16, rows*BFloat16Stride(k)), tiny(rows*n, -125)
			y[r.IntN(n)] = 0x1p120 // beside them, what could overflow if it were made larger
			ToBFloat16(x, tiny(rows*k, -63), k, rows, k)
			agree(t, fmt.Sprintf("AccumulateBFloat16 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
				out := guard(g, y)
				AccumulateBFloat16(out, n, guard(g, x), rows, &w)
				return out
			})
			agree(t, fmt.Sprintf("MulBFloat16 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
				out := guard(g, make([]float32, rows*n))
				MulBFloat16(out, n, guard(g, x), rows, &w, guard(g, y[:n]), Rectified)
				return out
			})
		}
	})
}

// What makes denormals zero in a product is undone when it is done.
func TestBFloat16ProductsLeaveDenormalsToOthers(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		runtime.LockOSThread() // whose mode it is
		defer runtime.UnlockOSThread()
		const k, n = 6, 40
		var w BFloat16Matrix
		w.Pack(k, n, normals(source(1), k*n), n)
		for rows := 1; rows < 20; rows++ {
			x, y, smallest := make([]uint16, rows*k), make([]float32, rows*n), []float32{0x1p-149}
			MulBFloat16(y, n, x, rows, &w, nil, None)
			Add(smallest, smallest, smallest)
			if bits := math.Float32bits(smallest[0]); bits != 2 { // numbers would be compared as if they were zeros, too
				t.Fatalf("after a product of %d rows, twice the smallest number has the bits %x", rows, bits)
			}
		}
	})
}

func TestAccumulateBFloat16AgainstFloat64(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(6)
		const rows, k, n = 5, 75, 40
		x, b := normals(r, rows*k), normals(r, k*n)
		var w BFloat16Matrix
		w.Pack(k, n, b, n)
		x16, y := make([]uint16, rows*BFloat16Stride(k)), make([]float32, rows*n)
		ToBFloat16(x16, x, k, rows, k)
		AccumulateBFloat16(y, n, x16, rows, &w)
		for i, got := range y {
			want := 0.0
			for p := range k {
				want += float64(fromBFloat16(toBFloat16(x[i/n*k+p]))) * float64(fromBFloat16(toBFloat16(b[p*n+i%n])))
			}
			near(t, "product", got, want, 2e-5, 1e-6)
		}
		var transposed BFloat16Matrix
		transposed.PackTransposed(k, n, transposedOf(b, k, n), k)
		again, x16t := make([]float32, rows*n), make([]uint16, len(x16))
		ToBFloat16Transposed(x16t, transposedOf(x, rows, k), rows, rows, k)
		AccumulateBFloat16(again, n, x16t, rows, &transposed)
		if !slices.Equal(again, y) {
			t.Error("the product of transposed operands differs")
		}
	})
}

func TestToBFloat16RoundsToNearest(t *testing.T) {
	r := source(8)
	for range 100_000 {
		v := math.Float32frombits(r.Uint32())
		got := math.Float32frombits(uint32(toBFloat16(v)) << 16)
		if v != v {
			if got == got {
				t.Fatalf("NaN (%x) becomes %v", math.Float32bits(v), got)
			}
			continue
		}
		below, above := math.Float32frombits(math.Float32bits(v)&^0xffff), math.Float32frombits(math.Float32bits(v)&^0xffff+0x10000)
		toward := math.Abs(float64(got) - float64(v))
		if got != below && got != above || !math.IsInf(float64(above), 0) && toward > math.Min(math.Abs(float64(below)-float64(v)), math.Abs(float64(above)-float64(v))) {
			t.Fatalf("%x becomes %x, between %x and %x", v, got, below, above)
		}
	}
	for _, c := range [][2]float32{{1 + 0x1p-8, 1}, {1 + 3*0x1p-8, 1 + 0x1p-6}, {math.MaxFloat32, float32(math.Inf(1))}, {float32(math.Inf(-1)), float32(math.Inf(-1))}} {
		if got := math.Float32frombits(uint32(toBFloat16(c[0])) << 16); got != c[1] {
			t.Errorf("%v becomes %v, want %v", c[0], got, c[1])
		}
	}
}

func TestBFloat16InParts(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(4)
		const rows, k, n = 17, 130, 50
		x, b, y := normals(r, rows*k), normals(r, k*n), normals(r, rows*n)
		var w BFloat16Matrix
		multiply := func(y []float32, first, end, from, to int) {
			x16 := make([]uint16, (end-first)*BFloat16Stride(to-from))
			ToBFloat16(x16, x[first*k+from:], k, end-first, to-from)
			w.Pack(to-from, n, b[from*n:], n)
			AccumulateBFloat16(y[first*n:], n, x16, end-first, &w)
		}
		whole, parts := slices.Clone(y), slices.Clone(y)
		multiply(whole, 0, rows, 0, k)
		for first := 0; first < rows; first += 5 {
			multiply(parts, first, min(first+5, rows), 0, 64)
			multiply(parts, first, min(first+5, rows), 64, k)
		}
		if !slices.Equal(parts, whole) {
			t.Error("products in parts give another result")
		}
	})
}

func FuzzAccumulateBFloat16(f *testing.F) {
	seeds(f, uint8(13), uint8(9), uint8(40))
	f.Fuzz(func(t *testing.T, data []byte, rows8, k8, n8 uint8) {
		rows, k, n := int(rows8%30), int(k8%40), int(n8)
		var w BFloat16Matrix
		w.Pack(k, n, fuzzFloats(data, k*n), n)
		x, y := make([]uint16, rows*BFloat16Stride(k)), fuzzFloats(data, rows*n)
		ToBFloat16(x, fuzzFloats(data, rows*k), k, rows, k)
		agreeEverywhere(t, "AccumulateBFloat16", func(g *arena) []float32 {
			out := guard(g, y)
			AccumulateBFloat16(out, n, guard(g, x), rows, &w)
			return out
		})
	})
}

func FuzzMulBFloat16(f *testing.F) {
	seeds(f, uint8(13), uint8(9), uint8(40))
	f.Fuzz(func(t *testing.T, data []byte, rows8, k8, n8 uint8) {
		rows, k, n := int(rows8%30), int(k8%40), int(n8)
		var w BFloat16Matrix
		w.Pack(k, n, fuzzFloats(data, k*n), n)
		x, bias, y := make([]uint16, rows*BFloat16Stride(k)), fuzzFloats(data, n), make([]float32, rows*n)
		ToBFloat16(x, fuzzFloats(data, rows*k), k, rows, k)
		agreeEverywhere(t, "MulBFloat16", func(g *arena) []float32 {
			out := guard(g, y)
			MulBFloat16(out, n, guard(g, x), rows, &w, guard(g, bias), Activation(k%2))
			return out
		})
	})
}

func FuzzToBFloat16(f *testing.F) {
	seeds(f, uint8(3), uint8(37))
	f.Fuzz(func(t *testing.T, data []byte, rows8, k8 uint8) {
		rows, k := int(rows8%9), int(k8)
		x := fuzzFloats(data, rows*k)
		agreeEverywhere(t, "ToBFloat16", func(g *arena) []float32 {
			dst := guard(g, make([]uint16, rows*BFloat16Stride(k)))
			ToBFloat16(dst, guard(g, x), k, rows, k)
			return bitsOf(dst)
		})
	})
}

func FuzzPackBFloat16(f *testing.F) {
	seeds(f, uint8(37), uint8(70))
	f.Fuzz(func(t *testing.T, data []byte, k8, n8 uint8) {
		k, n := int(k8), int(n8)
		b := fuzzFloats(data, k*n)
		agreeEverywhere(t, "packing bfloat16", func(g *arena) []float32 {
			var straight, transposed BFloat16Matrix
			straight.panels, transposed.panels = guard(g, packedBefore(k, n)), guard(g, packedBefore(k, n))
			straight.Pack(k, n, guard(g, b), n)
			transposed.PackTransposed(k, n, guard(g, b), k)
			dst := guard(g, make([]uint16, n*BFloat16Stride(k)))
			ToBFloat16Transposed(dst, guard(g, b), n, n, k)
			return slices.Concat(bitsOf(straight.panels), bitsOf(transposed.panels), bitsOf(dst))
		})
	})
}

func FuzzDotRowsBFloat16(f *testing.F) {
	seeds(f, uint8(21), uint8(37))
	f.Fuzz(func(t *testing.T, data []byte, n, k uint8) {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(fuzzByte(data, i, 0)) % 7
		}
		x, table := fuzzFloats(data, int(k)), PackBFloat16Rows(7, int(k), fuzzFloats(data, 7*int(k)))
		agreeEverywhere(t, "DotRowsBFloat16", func(g *arena) []float32 {
			y := guard(g, make([]float32, len(ids)))
			DotRowsBFloat16(y, guard(g, x), table, guard(g, ids), nil)
			return y
		})
	})
}

// BenchmarkPackBFloat16 reports the elements per second that operands of training's products are made of.
func BenchmarkPackBFloat16(b *testing.B) {
	const k, n = 1000, 1536
	x := normals(source(1), k*n)
	var w BFloat16Matrix
	rows := make([]uint16, n*BFloat16Stride(k))
	for name, work := range map[string]func(){
		"straight":        func() { w.Pack(k, n, x, n) },
		"transposed":      func() { w.PackTransposed(n, k, x, n) },
		"transposed rows": func() { ToBFloat16Transposed(rows, x, n, n, k) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				work()
			}
			b.ReportMetric(float64(b.N)*k*n/b.Elapsed().Seconds()/1e9, "Gelements/s")
		})
	}
}

func BenchmarkAccumulateBFloat16(b *testing.B) {
	r := source(1)
	for _, s := range []struct{ rows, k, n int }{{64, 512, 512}, {512, 512, 512}} {
		var w BFloat16Matrix
		w.Pack(s.k, s.n, normals(r, s.k*s.n), s.n)
		x, y := make([]uint16, s.rows*s.k), make([]float32, s.rows*s.n)
		ToBFloat16(x, normals(r, s.rows*s.k), s.k, s.rows, s.k)
		b.Run(fmt.Sprintf("%dx%dx%d", s.rows, s.k, s.n), func(b *testing.B) {
			reportBeside(b, BFloat16Peak, s.rows*s.k*s.n, func() { AccumulateBFloat16(y, s.n, x, s.rows, &w) })
		})
	}
}
