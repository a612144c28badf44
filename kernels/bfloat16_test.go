package kernels

import (
	"fmt"
	"math"
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

func BenchmarkAccumulateBFloat16(b *testing.B) {
	r := source(1)
	for _, s := range []struct{ rows, k, n int }{{64, 512, 512}, {512, 512, 512}} {
		var w BFloat16Matrix
		w.Pack(s.k, s.n, normals(r, s.k*s.n), s.n)
		x, y := make([]uint16, s.rows*s.k), make([]float32, s.rows*s.n)
		ToBFloat16(x, normals(r, s.rows*s.k), s.k, s.rows, s.k)
		b.Run(fmt.Sprintf("%dx%dx%d", s.rows, s.k, s.n), func(b *testing.B) {
			reportBeside(b, Float32Peak, s.rows*s.k*s.n, func() { AccumulateBFloat16(y, s.n, x, s.rows, &w) })
		})
	}
}
