package kernels

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

func TestAccumulateFloat32Agrees(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		check := func(seed uint64, rows, k, n int) {
			t.Helper()
			r := source(seed)
			wild := seed%3 == 0
			var w Float32Matrix
			w.Pack(k, n, awkward(r, k*n, wild), n)
			xStride, tStride, yStride := k+int(seed%3), rows+int(seed%2), n+int(seed%2)*3
			x, transposed := awkward(r, span(rows, xStride, k), wild), awkward(r, span(k, tStride, rows), wild)
			y := awkward(r, span(rows, yStride, n), wild)
			agree(t, fmt.Sprintf("AccumulateFloat32 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
				out := guard(g, y)
				AccumulateFloat32(out, yStride, guard(g, x), xStride, rows, &w)
				return out
			})
			agree(t, fmt.Sprintf("AccumulateFloat32Transposed %d×%d×%d", rows, k, n), func(g *arena) []float32 {
				out := guard(g, y)
				AccumulateFloat32Transposed(out, yStride, guard(g, transposed), tStride, rows, &w)
				return out
			})
		}
		for rows := range 40 {
			check(uint64(rows), rows, 13, 40)
		}
		for i, k := range lengths {
			check(uint64(i), 1+i%14, k, 33+i)
			check(uint64(i), 13, 5, lengths[i])
		}
		check(4, 2, 0, 5)
		check(5, 14, accumulateKForTest+3, 33)
	})
}

// accumulateKForTest is more than what one call of assembly does along k.
const accumulateKForTest = 1024

// The first product that is added to zeros is that of MulFloat32.
func TestAccumulateFloat32EqualsMulFloat32(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(3)
		const rows, k, n = 23, 70, 45
		b, x := normals(r, k*n), normals(r, rows*k)
		want := make([]float32, rows*n)
		MulFloat32(want, n, x, k, rows, PackFloat32(k, n, b), nil, None)
		var w Float32Matrix
		for name, product := range map[string]func(y []float32){
			"x·w": func(y []float32) {
				w.Pack(k, n, b, n)
				AccumulateFloat32(y, n, x, k, rows, &w)
			},
			"x·(wᵀ)ᵀ": func(y []float32) {
				w.PackTransposed(k, n, transposedOf(b, k, n), k)
				AccumulateFloat32(y, n, x, k, rows, &w)
			},
			"(xᵀ)ᵀ·w": func(y []float32) {
				w.Pack(k, n, b, n)
				AccumulateFloat32Transposed(y, n, transposedOf(x, rows, k), rows, rows, &w)
			},
		} {
			got := make([]float32, rows*n)
			product(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s differs from MulFloat32", name)
			}
		}
	})
}

// transposedOf returns the transpose of a matrix.
func transposedOf(a []float32, rows, columns int) []float32 {
	b := make([]float32, len(a))
	for i := range rows {
		for j := range columns {
			b[j*rows+i] = a[i*columns+j]
		}
	}
	return b
}

// Workers may share out the rows, and a batch may come in parts.
func TestAccumulateFloat32InParts(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(4)
		const rows, k, n = 37, 1100, 50
		x, b, y := normals(r, rows*k), normals(r, k*n), normals(r, rows*n)
		var w Float32Matrix
		w.Pack(k, n, b, n)
		whole, transposed := slices.Clone(y), transposedOf(x, rows, k)
		AccumulateFloat32(whole, n, x, k, rows, &w)

		byRows := slices.Clone(y)
		for first := 0; first < rows; first += 10 {
			AccumulateFloat32Transposed(byRows[first*n:], n, transposed[first:], rows, min(10, rows-first), &w)
		}
		if !slices.Equal(byRows, whole) {
			t.Error("rows in parts give another result")
		}
		byK := slices.Clone(y)
		for _, part := range [][2]int{{0, 300}, {300, 301}, {301, k}} {
			w.Pack(part[1]-part[0], n, b[part[0]*n:], n)
			AccumulateFloat32(byK, n, x[part[0]:], k, rows, &w)
		}
		if !slices.Equal(byK, whole) {
			t.Error("products in parts along k give another result")
		}
	})
}

func TestPackReusesMemory(t *testing.T) {
	r := source(5)
	b := normals(r, 90*70)
	var w Float32Matrix
	w.Pack(90, 70, b, 70)
	if allocations := testing.AllocsPerRun(10, func() { w.Pack(70, 33, b, 90); w.PackTransposed(33, 70, b, 40) }); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	want := PackFloat32(33, 70, transposedOf(b[:33*70], 70, 33))
	w.PackTransposed(33, 70, b, 33)
	if w.K != 33 || w.N != 70 || !slices.Equal(w.panels, want.panels) {
		t.Error("memory that was used before shows")
	}
}

func FuzzAccumulateFloat32(f *testing.F) {
	seeds(f, uint8(13), uint8(9), uint8(40))
	f.Fuzz(func(t *testing.T, data []byte, rows8, k8, n8 uint8) {
		rows, k, n := int(rows8%30), int(k8%40), int(n8)
		var w Float32Matrix
		w.PackTransposed(k, n, fuzzFloats(data, k*n), k)
		x, y := fuzzFloats(data, rows*k), fuzzFloats(data, rows*n)
		agreeEverywhere(t, "AccumulateFloat32", func(g *arena) []float32 {
			out := guard(g, y)
			AccumulateFloat32(out, n, guard(g, x), k, rows, &w)
			AccumulateFloat32Transposed(out, n, guard(g, x), rows, rows, &w)
			return out
		})
	})
}

// The benchmarks are those of training: d = 512, a feed-forward layer of 2048 and 1500 tokens.
func BenchmarkAccumulateFloat32(b *testing.B) {
	r := source(1)
	for _, s := range []struct{ rows, k, n int }{{512, 512, 512}, {1500, 512, 2048}, {64, 512, 512}, {512, 1500, 2048}} {
		x, y := normals(r, s.rows*s.k), make([]float32, s.rows*s.n)
		matrix := normals(r, s.k*s.n)
		var w Float32Matrix
		name := fmt.Sprintf("%dx%dx%d/", s.rows, s.k, s.n)
		w.Pack(s.k, s.n, matrix, s.n)
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"x·w", func() { AccumulateFloat32(y, s.n, x, s.k, s.rows, &w) }},
			{"xᵀ·w", func() { AccumulateFloat32Transposed(y, s.n, x, s.rows, s.rows, &w) }},
			{"Pack+x·w", func() { w.Pack(s.k, s.n, matrix, s.n); AccumulateFloat32(y, s.n, x, s.k, s.rows, &w) }},
			{"PackTransposed+x·w", func() { w.PackTransposed(s.k, s.n, matrix, s.k); AccumulateFloat32(y, s.n, x, s.k, s.rows, &w) }},
		} {
			b.Run(name+c.name, func(b *testing.B) { reportBeside(b, Float32Peak, s.rows*s.k*s.n, c.run) })
		}
	}
}

func TestAccumulateAllocatesNothing(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(1)
		const rows, k, n = 15, 70, 45
		var w Float32Matrix
		var half BFloat16Matrix
		w.Pack(k, n, normals(r, k*n), n)
		half.Pack(k, n, normals(r, k*n), n)
		x, y, x16 := normals(r, rows*k), make([]float32, rows*n), make([]uint16, rows*k)
		if allocations := testing.AllocsPerRun(10, func() {
			AccumulateFloat32(y, n, x, k, rows, &w)
			AccumulateFloat32Transposed(y, n, x, rows, rows, &w)
			ToBFloat16(x16, x, k, rows, k)
			AccumulateBFloat16(y, n, x16, rows, &half)
		}); allocations != 0 {
			t.Errorf("%v allocations", allocations)
		}
	})
}

// A slice that is too short must stop a product before it touches memory that is not its own.
func TestShortSlicesOfTrainingPanic(t *testing.T) {
	r := source(1)
	x, x16 := normals(r, 1000), make([]uint16, 1000)
	var w Float32Matrix
	var half BFloat16Matrix
	w.Pack(64, 10, x, 10)
	half.Pack(64, 10, x, 10)
	for name, kernel := range map[string]func(){
		"Pack":                 func() { new(Float32Matrix).Pack(10, 10, x[:99], 10) },
		"PackTransposed":       func() { new(Float32Matrix).PackTransposed(10, 10, x[:99], 10) },
		"Pack stride":          func() { new(Float32Matrix).Pack(10, 10, x, 9) },
		"y":                    func() { AccumulateFloat32(x[:19], 10, x, 64, 2, &w) },
		"x":                    func() { AccumulateFloat32(x, 10, x[:127], 64, 2, &w) },
		"transposed x":         func() { AccumulateFloat32Transposed(x, 10, x[:127], 2, 2, &w) },
		"transposed stride":    func() { AccumulateFloat32Transposed(x, 10, x, 1, 2, &w) },
		"bfloat16 Pack":        func() { new(BFloat16Matrix).Pack(10, 10, x[:99], 10) },
		"bfloat16 y":           func() { AccumulateBFloat16(x[:19], 10, x16, 2, &half) },
		"bfloat16 x":           func() { AccumulateBFloat16(x, 10, x16[:127], 2, &half) },
		"ToBFloat16 dst":       func() { ToBFloat16(x16[:11], x, 5, 2, 5) },
		"ToBFloat16 x":         func() { ToBFloat16(x16, x[:9], 5, 2, 5) },
		"ToBFloat16Transposed": func() { ToBFloat16Transposed(x16, x[:9], 2, 2, 5) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s too short: no panic", name)
				}
			}()
			kernel()
		}()
	}
}
