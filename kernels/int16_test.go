package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// int16s returns n words of at most the given magnitude.
func int16s(r *rand.Rand, n, magnitude int) []int16 {
	w := make([]int16, n)
	for i := range w {
		w[i] = int16(r.IntN(2*magnitude+1) - magnitude)
	}
	return w
}

func TestMulInt16Agrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		check := func(seed uint64, rows, k, n int) {
			t.Helper()
			r := source(seed)
			w := PackInt16(k, n, int16s(r, k*n, 2000), awkward(r, n, seed%3 == 0))
			// more than the limit: the sums wrap everywhere in the same way
			a, aScales, bias := int16s(r, rows*Int16Stride(k), math.MaxInt16), awkward(r, rows, seed%3 == 0), awkward(r, n, seed%3 == 0)
			yStride := n + int(seed%2)*3
			y := normals(r, span(rows, yStride, n))
			for _, act := range []Activation{None, Rectified} {
				for _, b := range [][]float32{bias, nil} {
					agree(t, fmt.Sprintf("MulInt16 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
						out := guard(g, y)
						MulInt16(out, yStride, guard(g, a), guard(g, aScales), rows, w, guardOrNil(g, b), act)
						return out
					})
				}
			}
		}
		for rows := range 40 {
			check(uint64(rows), rows, 36, 70)
		}
		for i, k := range lengths {
			check(uint64(i), 1+i%14, k, 33+i)
			check(uint64(i), 13+i%14, k, 66)
			check(uint64(i), 13, 20, lengths[i])
		}
		check(1, 150, 1536, 64)
	})
}

func TestQuantizeInt16Agrees(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		for seed, k := range lengths {
			for _, wild := range []bool{false, true} {
				r := source(uint64(seed))
				rows, stride := seed%5+1, Int16Stride(k)
				x := awkward(r, rows*k, wild)
				agree(t, fmt.Sprintf("QuantizeRowsInt16 %d×%d", rows, k), func(g *arena) []float32 {
					dst, scales := guard(g, make([]int16, rows*stride)), guard(g, make([]float32, rows))
					QuantizeRowsInt16(dst, scales, guard(g, x), rows, k, 2047-seed)
					return append(wordsWithoutPadding(dst, stride, k), scales...)
				})
				agree(t, fmt.Sprintf("QuantizeRowsInt16Fixed %d×%d", rows, k), func(g *arena) []float32 {
					dst := guard(g, make([]int16, rows*stride))
					QuantizeRowsInt16Fixed(dst, guard(g, x), rows, k, 1024, math.MaxInt16)
					return wordsWithoutPadding(dst, stride, k)
				})
			}
		}
	})
}

// wordsWithoutPadding returns the k first words of each row as numbers.
func wordsWithoutPadding(dst []int16, stride, k int) []float32 {
	var f []float32
	for row := range slices.Chunk(dst, stride) {
		f = append(f, toFloat32(row[:k])...)
	}
	return f
}

// At the limit, the sums come as close to the ends of int32 as they can.
func TestMulInt16IsExactUpToTheLimit(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		for _, magnitude := range []int16{1, 77, 3000, math.MaxInt16} {
			const k, n, rows = 300, 5, 3
			weights := make([]int16, k*n)
			for i := range weights {
				weights[i] = []int16{magnitude, -magnitude}[i%n%2]
			}
			w := PackInt16(k, n, weights, []float32{1, 1, 1, 1, 1})
			if sum := int64(w.Limit) * int64(magnitude) * k; sum > math.MaxInt32 || w.Limit < math.MaxInt16 && sum+int64(magnitude)*k <= math.MaxInt32 {
				t.Errorf("weights of %d: a limit of %d gives sums of %d", magnitude, w.Limit, sum)
			}
			a, y := make([]int16, rows*Int16Stride(k)), make([]float32, rows*n)
			for i := range a {
				a[i] = int16(w.Limit)
			}
			MulInt16(y, n, a, []float32{1, 1, 1}, rows, w, nil, None)
			for i, got := range y {
				want := float32(int64(w.Limit) * int64(weights[i%n]) * k)
				if got != want {
					t.Errorf("weights of %d: element %d is %v, want %v", magnitude, i, got, want)
				}
			}
		}
	})
}

// With the limit of the matrix a product is nearer to that of floats than one of bytes.
func TestInt16ProductIsNearTheFloatProduct(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(7)
		const rows, k, n = 5, 512, 40
		x, floats := normals(r, rows*k), normals(r, k*n)
		weights, scales := make([]int16, k*n), make([]float32, n)
		for j := range n {
			scales[j] = 4.5 / 1023
			for i := range k {
				weights[i*n+j] = int16(roundEven(floats[i*n+j] / scales[j]))
			}
		}
		w := PackInt16(k, n, weights, scales)
		a, aScales, y := make([]int16, rows*Int16Stride(k)), make([]float32, rows), make([]float32, rows*n)
		QuantizeRowsInt16(a, aScales, x, rows, k, w.Limit)
		MulInt16(y, n, a, aScales, rows, w, nil, None)
		for i, got := range y {
			want := 0.0
			for p := range k {
				want += float64(x[i/n*k+p]) * float64(floats[p*n+i%n])
			}
			near(t, "product", got, want, 0.15, 0) // of results of about √512
		}
	})
}

func TestInt16RejectsWhatDoesNotFit(t *testing.T) {
	r := source(1)
	w, scales, x := PackInt16(64, 10, int16s(r, 640, 100), normals(r, 10)), normals(r, 10), normals(r, 640)
	heavy := make([]int16, 70_000)
	for i := range heavy {
		heavy[i] = math.MinInt16
	}
	for name, kernel := range map[string]func(){
		"heavy column":   func() { PackInt16(len(heavy), 1, heavy, scales) },
		"weights":        func() { PackInt16(10, 10, make([]int16, 99), scales) },
		"scales":         func() { PackInt16(10, 11, make([]int16, 110), scales) },
		"limit":          func() { QuantizeRowsInt16(make([]int16, 64), scales, x, 1, 64, 40_000) },
		"dst":            func() { QuantizeRowsInt16(make([]int16, 63), scales, x, 1, 64, 100) },
		"fixed x":        func() { QuantizeRowsInt16Fixed(make([]int16, 64), x[:63], 1, 64, 1, 100) },
		"activations":    func() { MulInt16(x, 10, make([]int16, 127), scales, 2, w, nil, None) },
		"result":         func() { MulInt16(x[:19], 10, make([]int16, 128), scales, 2, w, nil, None) },
		"row scales":     func() { MulInt16(x, 10, make([]int16, 128), scales[:1], 2, w, nil, None) },
		"bias":           func() { MulInt16(x, 10, make([]int16, 128), scales, 2, w, x[:9], None) },
		"negative shape": func() { PackInt16(-1, 1, nil, scales) },
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

func TestInt16AllocatesNothing(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(1)
		const rows, k, n = 5, 64, 70
		w, x, y := PackInt16(k, n, int16s(r, k*n, 100), normals(r, n)), normals(r, rows*k), make([]float32, rows*n)
		a, aScales := make([]int16, rows*Int16Stride(k)), make([]float32, rows)
		if allocations := testing.AllocsPerRun(10, func() {
			QuantizeRowsInt16(a, aScales, x, rows, k, w.Limit)
			MulInt16(y, n, a, aScales, rows, w, nil, None)
		}); allocations != 0 {
			t.Errorf("%v allocations", allocations)
		}
	})
}

func FuzzMulInt16(f *testing.F) {
	seeds(f, uint8(13), uint8(70), uint8(40))
	f.Fuzz(func(t *testing.T, data []byte, rows, k, n uint8) {
		rows %= 40
		weights, a := make([]int16, int(k)*int(n)), make([]int16, int(rows)*Int16Stride(int(k)))
		for i := range weights {
			weights[i] = int16(fuzzByte(data, i, 0))<<8 | int16(fuzzByte(data, i, 1))
		}
		for i := range a {
			a[i] = int16(fuzzByte(data, i, 2))<<8 | int16(fuzzByte(data, i, 3))
		}
		scales, aScales := fuzzFloats(data, int(n)), fuzzFloats(data, int(rows))
		w := PackInt16(int(k), int(n), weights, scales)
		agreeEverywhere(t, "MulInt16", func(g *arena) []float32 {
			y := guard(g, make([]float32, int(rows)*int(n)))
			MulInt16(y, int(n), guard(g, a), guard(g, aScales), int(rows), w, guard(g, scales), Activation(k%2))
			return y
		})
	})
}

func BenchmarkMulInt16(b *testing.B) {
	r := source(1)
	for _, shape := range [][2]int{{512, 512}, {512, 2048}} {
		for _, rows := range []int{1, 8, 64} {
			k, n := shape[0], shape[1]
			w, a, aScales := PackInt16(k, n, int16s(r, k*n, 1000), normals(r, n)), int16s(r, rows*k, 1000), normals(r, rows)
			y := make([]float32, rows*n)
			b.Run(fmt.Sprintf("%dx%d/rows=%d", k, n, rows), func(b *testing.B) {
				reportBeside(b, Int16Peak, rows*k*n, func() { MulInt16(y, n, a, aScales, rows, w, nil, None) })
			})
		}
	}
}
