package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
	"github.com/sluice-mt/sluice/internal/cpu/cputest"
	"github.com/sluice-mt/sluice/internal/hugepage"
)

// These tests hold every implementation against the reference, bit by bit, on awkward shapes and numbers, in guarded
// memory.

// agree runs a kernel with the implementation under test and with the reference, and compares what it returns.
// The kernel allocates its slices from the arena, which guards them on one side or the other, in turns.
func agree(t *testing.T, what string, kernel func(a *arena) []float32) {
	t.Helper()
	comparisons++
	tested := &arena{t: t, before: comparisons%2 == 1}
	got := kernel(tested)
	tested.check(what)
	restore := cpu.Limit(cpu.Generic)
	defer restore()
	want := kernel(&arena{t: t})
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("%s: element %d of %d is %v (%x), the reference gives %v (%x)", what, i, len(want), got[i], got[i], want[i], want[i])
		}
	}
}

// comparisons counts the calls of agree, which come one after the other.
var comparisons int

// awkward returns n numbers: normal ones, with special ones strewn in if wild is true.
func awkward(r *rand.Rand, n int, wild bool) []float32 {
	x := normals(r, n)
	for i := range x {
		switch {
		case wild && r.IntN(8) == 0:
			x[i] = special[r.IntN(len(special))]
		case r.IntN(8) == 0:
			x[i] = 0
		case r.IntN(4) == 0:
			x[i] *= 40
		}
	}
	return x
}

// lengths are row lengths around the multiples of what implementations unroll.
var lengths = []int{1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 20, 31, 32, 33, 47, 48, 63, 64, 65, 80, 100, 127, 128, 129, 255, 256, 257}

func toFloat32[T scalar](s []T) []float32 {
	f := make([]float32, len(s))
	for i, v := range s {
		f[i] = float32(v)
	}
	return f
}

// quantised returns the bytes of MulInt8Quantised.
func quantised(g *arena, a []uint8, aScales []float32, rows int, w *Int8Matrix, bias []float32, act Activation) (bytes []float32) {
	stride := Int8Stride(w.N)
	dst, y := guard(g, make([]uint8, rows*stride)), guard(g, make([]float32, rows*w.N))
	MulInt8Quantised(dst, 0.02, y, a, aScales, rows, w, bias, act)
	for r := range rows {
		for _, q := range dst[r*stride : r*stride+w.N] {
			bytes = append(bytes, float32(q))
		}
	}
	return bytes
}

func TestMulInt8Agrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		check := func(seed uint64, rows, k, n int) {
			t.Helper()
			r := source(seed)
			w := PackInt8(k, n, int8s(r, k*n), awkward(r, n, seed%3 == 0))
			w.unfetched, w.lowBlocks = seed%2 == 1, seed%4 > 1
			a, aScales, bias := uint8s(r, rows*Int8Stride(k)), awkward(r, rows, seed%3 == 0), awkward(r, n, seed%3 == 0)
			yStride := n + int(seed%2)*3
			y := normals(r, span(rows, yStride, n))
			for _, act := range []Activation{None, Rectified} {
				for _, b := range [][]float32{bias, nil} {
					agree(t, fmt.Sprintf("MulInt8 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
						out, gb := guard(g, y), b
						if b != nil {
							gb = guard(g, b)
						}
						MulInt8(out, yStride, guard(g, a), guard(g, aScales), rows, w, gb, act)
						return append(out, quantised(g, guard(g, a), guard(g, aScales), rows, w, gb, act)...)
					})
				}
			}
		}
		for rows := range 71 {
			check(uint64(rows), rows, 36, 70)
		}
		for i, k := range lengths {
			check(uint64(i), 1+i%14, k, 33+i)
			check(uint64(i), 13+i%14, k, 66)
			check(uint64(i), 13, 20, lengths[i])
		}
		check(1, 300, 1536, 64)
		check(1, 13, 2600, 200) // a call for each pair of panels
	})
}

func TestMulInt8ExtremesAreExact(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k, n, rows = MaxInt8K, 3, 5
		weights := make([]int8, k*n)
		for i := range weights {
			weights[i] = []int8{-127, 127, -1}[i%n]
		}
		a := make([]uint8, rows*k)
		for i := range a {
			a[i] = 255
		}
		y := make([]float32, rows*n)
		MulInt8(y, n, a, []float32{1, 1, 1, 1, 1}, rows, PackInt8(k, n, weights, []float32{1, 1, 1}), nil, None)
		for i, got := range y {
			if want := []float32{-127 * 127 * k, 127 * 127 * k, -127 * k}[i%n]; got != want {
				t.Errorf("element %d is %v, want %v", i, got, want)
			}
		}
	})
}

func TestQuantizeAgrees(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		for seed, k := range lengths {
			for _, wild := range []bool{false, true} {
				r := source(uint64(seed))
				rows, stride := seed%5+1, Int8Stride(k)
				x := awkward(r, rows*k, wild)
				agree(t, fmt.Sprintf("QuantizeRows %d×%d", rows, k), func(g *arena) []float32 {
					dst, scales := guard(g, make([]uint8, rows*stride)), guard(g, make([]float32, rows))
					QuantizeRows(dst, scales, guard(g, x), rows, k)
					return append(withoutPadding(dst, stride, k), scales...)
				})
				agree(t, fmt.Sprintf("QuantizeRowsFixed %d×%d", rows, k), func(g *arena) []float32 {
					dst := guard(g, make([]uint8, rows*stride))
					QuantizeRowsFixed(dst, guard(g, x), rows, k, 31.7)
					return withoutPadding(dst, stride, k)
				})
			}
		}
	})
}

// withoutPadding returns the k first bytes of each row as numbers.
func withoutPadding(dst []uint8, stride, k int) []float32 {
	var f []float32
	for row := range slices.Chunk(dst, stride) {
		f = append(f, toFloat32(row[:k])...)
	}
	return f
}

func TestMulFloat32Agrees(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		check := func(seed uint64, rows, k, n int) {
			t.Helper()
			r := source(seed)
			wild := seed%3 == 0
			w := PackFloat32(k, n, awkward(r, k*n, wild))
			xStride, yStride := k+int(seed%3), n+int(seed%2)*3
			x, y, bias := awkward(r, span(rows, xStride, k), wild), normals(r, span(rows, yStride, n)), awkward(r, n, wild)
			for _, act := range []Activation{None, Rectified} {
				for _, b := range [][]float32{bias, nil} {
					agree(t, fmt.Sprintf("MulFloat32 %d×%d×%d", rows, k, n), func(g *arena) []float32 {
						out, gb := guard(g, y), b
						if b != nil {
							gb = guard(g, b)
						}
						MulFloat32(out, yStride, guard(g, x), xStride, rows, w, gb, act)
						return out
					})
				}
			}
		}
		for rows := range 71 {
			check(uint64(rows), rows, 13, 40)
			check(uint64(rows), rows, 7, 70)
		}
		for i, k := range lengths {
			check(uint64(i), 1+i%14, k, 33+i)
			check(uint64(i), 13+i%14, k, 66)
			check(uint64(i), 13, 5, lengths[i])
		}
		check(4, 2, 0, 5)
	})
}

func TestDotRowsAgree(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		for seed, k := range lengths {
			r := source(uint64(seed))
			const n = 70
			ids := make([]int32, seed*2+1)
			for i := range ids {
				ids[i] = int32(r.IntN(n))
			}
			wild := seed%3 == 0
			weights, scales, bias := int8s(r, n*k), awkward(r, n, wild), awkward(r, n, wild)
			a, table := uint8s(r, Int8Stride(k)), PackInt8Rows(n, k, weights, scales)
			x, floats := awkward(r, k, wild), awkward(r, n*k, wild)
			for _, b := range [][]float32{bias, nil} {
				agree(t, fmt.Sprintf("DotRowsInt8 %d of %d", len(ids), k), func(g *arena) []float32 {
					y := guard(g, make([]float32, len(ids)))
					DotRowsInt8(y, guard(g, a), 0.3, choose(table, guard(g, ids), guardOrNil(g, b)).guarded(g))
					return y
				})
				agree(t, fmt.Sprintf("DotRowsFloat32 %d of %d", len(ids), k), func(g *arena) []float32 {
					y := guard(g, make([]float32, len(ids)))
					DotRowsFloat32(y, guard(g, x), guard(g, floats), k, guard(g, ids), guardOrNil(g, b))
					return y
				})
			}
		}
	})
}

// Rows that are multiplied with the same chosen rows have what each of them has by itself, and nothing is written between them.
func TestMulRowsInt8IsDotRowsInt8(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(4)
		for _, c := range []struct{ rows, k, chosen int }{{1, 64, 600}, {4, 64, 600}, {3, 100, 129}, {5, 256, 64}, {2, 4096, 35}, {4, 7, 1}, {4, 256, 0}, {0, 64, 16}} {
			const n, apart = 50, 3
			table, bias, ids := PackInt8Rows(n, c.k, int8s(r, n*c.k), normals(r, n)), normals(r, n), make([]int32, c.chosen)
			for i := range ids {
				ids[i] = int32(r.IntN(n))
			}
			a, scales, stride := uint8s(r, c.rows*Int8Stride(c.k)), normals(r, c.rows), c.chosen+apart
			want := slices.Repeat([]float32{7}, c.rows*stride)
			for row := range c.rows {
				DotRowsInt8(want[row*stride:][:c.chosen], a[row*Int8Stride(c.k):], scales[row], choose(table, ids, bias))
			}
			what := fmt.Sprintf("%d rows of %d, %d chosen", c.rows, c.k, c.chosen)
			agree(t, what, func(g *arena) []float32 {
				y := guard(g, slices.Repeat([]float32{7}, c.rows*stride))
				MulRowsInt8(y, stride, guard(g, a), guard(g, scales), c.rows, choose(table, guard(g, ids), guard(g, bias)).guarded(g))
				if !slices.Equal(y, want) {
					t.Errorf("%s: %v, one at a time %v", what, y, want)
				}
				return y
			})
		}
	})
}

// A choice that takes several calls of assembly gives what choices of a few of its rows give.
func TestDotRowsInt8InSeveralCalls(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(3)
		const n, k, few = 50, 4096, 7
		table, bias := PackInt8Rows(n, k, int8s(r, n*k), normals(r, n)), normals(r, n)
		a, ids := uint8s(r, Int8Stride(k)), make([]int32, 601)
		for i := range ids {
			ids[i] = int32(r.IntN(n))
		}
		all, some := make([]float32, len(ids)), make([]float32, few)
		DotRowsInt8(all, a, 0.3, choose(table, ids, bias))
		for i := 0; i < len(ids); i += few {
			end := min(i+few, len(ids))
			DotRowsInt8(some, a, 0.3, choose(table, ids[i:end], bias))
			if !slices.Equal(all[i:end], some[:end-i]) {
				t.Fatalf("rows %d to %d: %v, by themselves %v", i, end, all[i:end], some[:end-i])
			}
		}
	})
}

func choose(table *Int8Rows, ids []int32, bias []float32) *Int8Choice {
	var c Int8Choice
	table.Choose(&c, ids, bias)
	return &c
}

// guarded returns the choice with its slices in guarded memory.
func (c *Int8Choice) guarded(g *arena) *Int8Choice {
	return &Int8Choice{c.table, c.n, guard(g, c.ids), guard(g, c.corrections), guard(g, c.scales), guard(g, c.bias)}
}

func guardOrNil(g *arena, s []float32) []float32 {
	if s == nil {
		return nil
	}
	return guard(g, s)
}

// allOf are rows, their scales, and the bytes that were made of them.
func allOf(rows, scales []float32, bytes []uint8, n int) []float32 {
	all := append(slices.Clone(rows), scales...)
	for i := range scales {
		for _, b := range bytes[i*Int8Stride(n):][:n] {
			all = append(all, float32(b))
		}
	}
	return all
}

// A norm that makes bytes gives what the norm and QuantizeRows give one after the other.
func TestNormsQuantisedAgree(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		for seed, n := range lengths {
			r := source(uint64(seed))
			rows := 1 + seed%5
			if n > 256 {
				rows = 300 // which take several calls of assembly
			}
			for _, wild := range []bool{false, true} {
				x, residual, scale, bias := awkward(r, rows*n, wild), awkward(r, rows*n, wild), awkward(r, n, wild), awkward(r, n, wild)
				if seed%3 == 0 && rows > 1 {
					clear(x[:n]) // a row of zeros, without a scale
					clear(residual[:n])
				}
				check := func(what string, norm func(dst []float32), both func(bytes []uint8, scales, dst []float32)) {
					want, got := make([]float32, rows*n), make([]float32, rows*n)
					wantBytes, gotBytes := make([]uint8, rows*Int8Stride(n)), make([]uint8, rows*Int8Stride(n))
					wantScales, gotScales := make([]float32, rows), normals(r, rows)
					norm(want)
					QuantizeRows(wantBytes, wantScales, want, rows, n)
					both(gotBytes, gotScales, got)
					if !slices.EqualFunc(allOf(got, gotScales, gotBytes, n), allOf(want, wantScales, wantBytes, n), same) {
						t.Fatalf("%s of %d rows of %d (wild %v): other results than one after the other", what, rows, n, wild)
					}
				}
				check("LayerNormQuantised", func(dst []float32) { LayerNorm(dst, x, residual, scale, bias, rows, n, 1e-6) },
					func(bytes []uint8, scales, dst []float32) {
						LayerNormQuantised(bytes, scales, dst, x, residual, scale, bias, rows, n, 1e-6)
					})
				check("RMSNormQuantised", func(dst []float32) { RMSNorm(dst, x, nil, scale, rows, n, 1e-6) },
					func(bytes []uint8, scales, dst []float32) {
						RMSNormQuantised(bytes, scales, dst, x, nil, scale, rows, n, 1e-6)
					})
			}
		}
	})
}

func TestNormsAgree(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		for seed, n := range lengths {
			for _, wild := range []bool{false, true} {
				r := source(uint64(seed))
				rows := seed % 4
				x, residual := awkward(r, rows*n, wild), awkward(r, rows*n, wild)
				scale, bias := awkward(r, n, wild), awkward(r, n, wild)
				for variant := range 4 {
					res, b := residual, bias
					if variant&1 == 1 {
						res = nil
					}
					if variant&2 == 2 {
						b = nil
					}
					agree(t, fmt.Sprintf("LayerNorm %d×%d", rows, n), func(g *arena) []float32 {
						dst := guard(g, x)
						LayerNorm(dst, dst, guardOrNil(g, res), guard(g, scale), guardOrNil(g, b), rows, n, 1e-6)
						return dst
					})
					agree(t, fmt.Sprintf("LayerNormQuantised %d×%d", rows, n), func(g *arena) []float32 {
						dst, bytes, scales := guard(g, x), guard(g, make([]uint8, rows*Int8Stride(n))), guard(g, make([]float32, rows))
						LayerNormQuantised(bytes, scales, dst, dst, guardOrNil(g, res), guard(g, scale), guardOrNil(g, b), rows, n, 1e-6)
						return allOf(dst, scales, bytes, n)
					})
					agree(t, fmt.Sprintf("RMSNormQuantised %d×%d", rows, n), func(g *arena) []float32 {
						dst, bytes, scales := guard(g, make([]float32, rows*n)), guard(g, make([]uint8, rows*Int8Stride(n))), guard(g, make([]float32, rows))
						RMSNormQuantised(bytes, scales, dst, guard(g, x), guardOrNil(g, res), guard(g, scale), rows, n, 1e-6)
						return allOf(dst, scales, bytes, n)
					})
					agree(t, fmt.Sprintf("RMSNorm %d×%d", rows, n), func(g *arena) []float32 {
						dst := guard(g, make([]float32, rows*n))
						RMSNorm(dst, guard(g, x), guardOrNil(g, res), guard(g, scale), rows, n, 1e-6)
						return dst
					})
				}
			}
		}
	})
}

func TestSoftmaxAgrees(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		for seed, n := range lengths {
			for _, wild := range []bool{false, true} {
				r := source(uint64(seed))
				rows, stride := seed%4, n+seed%3
				x := awkward(r, span(rows, stride, n), wild)
				agree(t, fmt.Sprintf("Softmax %d×%d", rows, n), func(g *arena) []float32 {
					y := guard(g, x)
					Softmax(y, rows, n, stride)
					return y
				})
				agree(t, fmt.Sprintf("LogSoftmax %d", n), func(g *arena) []float32 {
					y := guard(g, x)
					LogSoftmax(y)
					return y
				})
			}
		}
	})
}

func TestReductionsAgree(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		for seed, n := range append([]int{70_000}, lengths...) {
			for _, wild := range []bool{false, true} {
				x := awkward(source(uint64(seed)), n, wild)
				agree(t, fmt.Sprintf("reductions of %d", n), func(g *arena) []float32 {
					y := guard(g, x)
					index, value := ArgMax(y)
					return []float32{float32(index), value, AbsMax(y), maximum(y), expSum(y, 1)}
				})
			}
		}
	})
}

func TestElementwiseAgrees(t *testing.T) {
	kernels := map[string]func(s [6][]float32){
		"Add":         func(s [6][]float32) { Add(s[0], s[1], s[2]) },
		"Scale":       func(s [6][]float32) { Scale(s[0], s[1], 1.7) },
		"AddBias":     func(s [6][]float32) { AddBias(s[0], s[1], 1, len(s[0])) },
		"ReLU":        func(s [6][]float32) { ReLU(s[0]) },
		"Swish":       func(s [6][]float32) { Swish(s[0]) },
		"GELU":        func(s [6][]float32) { GELU(s[0]) },
		"GELUSigmoid": func(s [6][]float32) { GELUSigmoid(s[0]) },
		"Sigmoid":     func(s [6][]float32) { Sigmoid(s[0]) },
		"Tanh":        func(s [6][]float32) { Tanh(s[0]) },
		"SSRU":        func(s [6][]float32) { SSRU(s[0], s[1], s[2], s[3]) },
		"SSRU over f": func(s [6][]float32) { SSRU(s[0], s[1], s[1], s[3]) },
		"SRU":         func(s [6][]float32) { SRU(s[0], s[1], s[2], s[3], s[4], s[5]) },
		"Average":     func(s [6][]float32) { Average(s[0], s[1], 6) },
		"GatedSum":    func(s [6][]float32) { GatedSum(s[0], s[1], s[2], s[3], s[4]) },
		"Highway":     func(s [6][]float32) { Highway(s[0], s[1], s[2], s[3]) },
		"Embed":       func(s [6][]float32) { Embed(s[0], s[1], 16, s[2]) },
	}
	cputest.EachFamily(t, func(t *testing.T) {
		for name, kernel := range kernels {
			for seed, n := range append([]int{0, 70_001}, lengths...) {
				r := source(uint64(seed))
				var s [6][]float32
				for i := range s {
					s[i] = awkward(r, n, seed%2 == 1)
				}
				agree(t, fmt.Sprintf("%s of %d", name, n), func(g *arena) []float32 {
					var c [6][]float32
					for i := range c {
						c[i] = guard(g, s[i])
					}
					kernel(c)
					return slices.Concat(c[:]...)
				})
			}
		}
	})
}

// inOneOrder returns what Keep stored, with pairs of values beside those of the other heads, which not all implementations keep so.
func inOneOrder(s Attention, kept []float32, nk int) []float32 {
	keys, values := s.kept(kept, nk)
	if !s.pairs() {
		return kept
	}
	words, ordered := s.HeadDim/2, slices.Clone(keys)
	for j := range nk {
		for h := range s.Heads {
			ordered = append(ordered, values[s.pairedValue(h, j, nk):][:words]...)
		}
	}
	return ordered
}

func TestAttentionAgrees(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		check := func(seed uint64, heads, headDim, nq, nk int) {
			t.Helper()
			r := source(seed)
			wild, width := seed%5 == 0, heads*headDim
			s := Attention{Heads: heads, HeadDim: headDim, Scale: 0.2, QStride: width + 1, KStride: width + int(seed%3), VStride: width, OutStride: width + 2}
			q, k, v := awkward(r, span(nq, s.QStride, width), wild), awkward(r, span(nk, s.KStride, width), wild), awkward(r, span(nk, s.VStride, width), wild)
			out := normals(r, span(nq, s.OutStride, width))
			rows := make([]int32, nk)
			for i := range rows {
				rows[i] = int32(r.IntN(nk))
			}
			scratch := normals(r, s.ScratchLen(nk))
			agree(t, fmt.Sprintf("attention of %d over %d, %d heads of %d", nq, nk, heads, headDim), func(g *arena) []float32 {
				o := guard(g, out)
				s.Run(o, guard(g, q), guard(g, k), guard(g, v), nq, nk, guard(g, scratch))
				return o
			})
			if nq == 0 {
				return
			}
			agree(t, fmt.Sprintf("attention over %d rows, %d heads of %d", nk, heads, headDim), func(g *arena) []float32 {
				o := guard(g, out[:width])
				s.RunRows(o, guard(g, q), guard(g, k), guard(g, v), guard(g, rows), guard(g, scratch))
				return o
			})
			for _, brief := range []bool{false, true} {
				s := s
				s.KeepBFloat16 = brief
				agree(t, fmt.Sprintf("attention over %d kept, %d heads of %d, bfloat16: %v", nk, heads, headDim, brief), func(g *arena) []float32 {
					o, kept := guard(g, out[:width]), guard(g, make([]float32, s.KeptLen(nk)))
					s.Keep(kept, guard(g, k), guard(g, v), nk, guard(g, scratch))
					s.RunKept(o, guard(g, q), kept, nk, guard(g, scratch))
					w := make([]float32, nk)
					s.KeptWeights(w, guard(g, q), kept, nk, heads-1)
					return slices.Concat(o, inOneOrder(s, kept, nk), w)
				})
			}
			agree(t, fmt.Sprintf("weights over %d, head of %d", nk, headDim), func(g *arena) []float32 {
				w := guard(g, out[:min(nk, len(out))])
				if len(w) == nk {
					s.Weights(w, guard(g, q), guard(g, k), nk, heads-1)
				}
				return w
			})
		}
		for i, headDim := range lengths {
			check(uint64(i), i%4+1, headDim, i%6, i+1)
		}
		for nk := range 70 {
			check(uint64(nk), 2, 32, nk%14, nk)
		}
		check(3, 8, 32, 40, 40)
		check(3, 4, 64, 19, 33)
		for nk := range 35 {
			check(uint64(nk), nk%9+1, 64, 1, nk)
			check(uint64(nk), 16, 32, 1, nk)
		}
	})
}

func TestRowsDoNotDependOnTheirNumber(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(77)
		const rows, k, n = 61, 100, 50
		a, aScales := uint8s(r, rows*Int8Stride(k)), normals(r, rows)
		w, wf := PackInt8(k, n, int8s(r, k*n), normals(r, n)), PackFloat32(k, n, normals(r, k*n))
		x := normals(r, rows*k)
		all, allFloat := make([]float32, rows*n), make([]float32, rows*n)
		MulInt8(all, n, a, aScales, rows, w, nil, None)
		MulFloat32(allFloat, n, x, k, rows, wf, nil, None)
		for part := 1; part < rows; part++ {
			for first := 0; first+part <= rows; first += part {
				y := make([]float32, part*n)
				MulInt8(y, n, a[first*Int8Stride(k):], aScales[first:], part, w, nil, None)
				if !slices.Equal(y, all[first*n:(first+part)*n]) {
					t.Fatalf("int8: rows %d to %d differ alone", first, first+part)
				}
				MulFloat32(y, n, x[first*k:], k, part, wf, nil, None)
				if !slices.Equal(y, allFloat[first*n:(first+part)*n]) {
					t.Fatalf("float32: rows %d to %d differ alone", first, first+part)
				}
			}
		}
	})
}

func TestMatrixOfChosenRowsAgrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		var w Int8Matrix // used again for every choice
		for i, k := range []int{1, 4, 15, 16, 17, 64, 100, 256, 300} {
			r := source(uint64(i))
			n := 40 + 9*i
			table, bias := PackInt8Rows(n, k, int8s(r, n*k), normals(r, n)), normals(r, n)
			for _, chosen := range []int{0, 1, 31, 32, 33, 64, 100, 7} {
				ids, chosenBias := make([]int32, chosen), make([]float32, chosen)
				for j := range ids {
					ids[j] = int32(r.IntN(n))
					chosenBias[j] = bias[ids[j]]
				}
				table.Matrix(&w, ids)
				const rows = 3
				a, aScales := uint8s(r, rows*Int8Stride(k)), normals(r, rows)
				got, want := make([]float32, rows*chosen), make([]float32, chosen)
				MulInt8(got, chosen, a, aScales, rows, &w, chosenBias, None)
				for row := range rows {
					DotRowsInt8(want, a[row*Int8Stride(k):], aScales[row], choose(table, ids, bias))
					if !slices.Equal(got[row*chosen:(row+1)*chosen], want) {
						t.Fatalf("%d of %d rows of %d, row %d: %v, want %v", chosen, n, k, row, got, want)
					}
				}
			}
		}
	})
}

// A whole table as a matrix has the weights of its rows, wherever these are: in memory of their own, or where they were.
func TestWholeTableAgrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		for i, k := range []int{1, 4, 17, 64, 100, 128, 256} {
			const rows = 3
			r := source(uint64(i))
			n := 40 + 9*i
			weights, scales := int8s(r, n*k+1), normals(r, n)
			a, aScales := uint8s(r, rows*Int8Stride(k)), normals(r, rows)
			columns := make([]int8, k*n)
			for row := range n {
				for j := range k {
					columns[j*n+row] = weights[1+row*k+j]
				}
			}
			want := make([]float32, rows*n)
			MulInt8(want, n, a, aScales, rows, PackInt8(k, n, columns, scales), nil, None)
			inPlace := hugepage.Make[int8](n * k)
			copy(inPlace, weights[1:])
			for what, weights := range map[string][]int8{"copied": weights[1:], "in place": inPlace} {
				table := PackInt8Rows(n, k, weights, scales)
				if alone := &table.rows[0] != &weights[0]; alone != (what == "copied" || k%64 != 0) {
					t.Errorf("%s, rows of %d: a copy is made: %v", what, k, alone)
				}
				got := make([]float32, rows*n)
				MulInt8(got, n, a, aScales, rows, table.Whole(), nil, None)
				if !slices.Equal(got, want) {
					t.Errorf("%s: a table of %d rows of %d as a matrix gives other results", what, n, k)
				}
			}
		}
	})
}

// Some columns of a matrix give what they give in the whole one.
func TestColumnsAgree(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k, rows = 48, 7
		for _, n := range []int{64, 65, 200, 256, 300, 2*placedColumns + 70} {
			r := source(uint64(n))
			weights, scales, bias := trained(r, k*n, 30), normals(r, n), normals(r, n)
			a, aScales := atLeastZero(uint8s(r, rows*Int8Stride(k))), normals(r, rows)
			for what, pack := range packings {
				w, want := pack(k, n, weights, scales), make([]float32, rows*n)
				MulInt8(want, n, a, aScales, rows, w, bias, None)
				for first := 0; first < n; first += 64 {
					for _, end := range []int{first, first + 1, first + 64, n} {
						if end > n {
							continue
						}
						part, got := w.Columns(first, end), make([]float32, rows*(end-first))
						MulInt8(got, end-first, a, aScales, rows, &part, bias[first:end], None)
						for row := range rows {
							if !slices.Equal(got[row*(end-first):(row+1)*(end-first)], want[row*n+first:row*n+end]) {
								t.Fatalf("%s: columns %d to %d of %d give other results", what, first, end, n)
							}
						}
					}
				}
			}
		}
	})
}

// The same in 16 bits, in bfloat16 and in float32, and for chosen rows.
func TestOtherColumnsAgree(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k, rows, n, first = 48, 7, 300, 128
		r := source(9)
		words, floats, x := make([]int16, k*n), normals(r, k*n), normals(r, rows*k)
		for i := range words {
			words[i] = int16(r.IntN(200) - 100)
		}
		scales, bias := normals(r, n), normals(r, n)
		w16, w32, half, halves := PackInt16(k, n, words, scales), PackFloat32(k, n, floats), new(BFloat16Matrix), make([]uint16, rows*k)
		half.Pack(k, n, floats, n)
		ToBFloat16(halves, x, k, rows, k)
		a, aScales := make([]int16, rows*Int16Stride(k)), make([]float32, rows)
		QuantizeRowsInt16(a, aScales, x, rows, k, w16.Limit)
		whole16, whole32, wholeHalf := make([]float32, rows*n), make([]float32, rows*n), make([]float32, rows*n)
		MulBFloat16(wholeHalf, n, halves, rows, half, bias, None)
		MulInt16(whole16, n, a, aScales, rows, w16, bias, None)
		MulFloat32(whole32, n, x, k, rows, w32, bias, None)
		for _, end := range []int{first, first + 1, first + 64, n} {
			part16, part32, partHalf, m := w16.Columns(first, end), w32.Columns(first, end), half.Columns(first, end), end-first
			got16, got32, gotHalf := make([]float32, rows*m), make([]float32, rows*m), make([]float32, rows*m)
			MulBFloat16(gotHalf, m, halves, rows, &partHalf, bias[first:end], None)
			MulInt16(got16, m, a, aScales, rows, &part16, bias[first:end], None)
			MulFloat32(got32, m, x, k, rows, &part32, bias[first:end], None)
			for row := range rows {
				if !slices.Equal(got16[row*m:(row+1)*m], whole16[row*n+first:row*n+end]) {
					t.Fatalf("columns %d to %d give other results in 16 bits", first, end)
				}
				if !slices.Equal(got32[row*m:(row+1)*m], whole32[row*n+first:row*n+end]) {
					t.Fatalf("columns %d to %d give other results in float32", first, end)
				}
				if !slices.Equal(gotHalf[row*m:(row+1)*m], wholeHalf[row*n+first:row*n+end]) {
					t.Fatalf("columns %d to %d give other results in bfloat16", first, end)
				}
			}
		}
	})
}

// A range of chosen rows gives what it gives among all.
func TestRangeOfChosenRowsAgrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const k, rows = 100, 90
		r := source(10)
		table := PackInt8Rows(rows, k, int8s(r, rows*k), normals(r, rows))
		a, ids := uint8s(r, Int8Stride(k)), make([]int32, 53)
		for i := range ids {
			ids[i] = int32(r.IntN(rows))
		}
		all := choose(table, ids, normals(r, rows))
		want := make([]float32, len(ids))
		DotRowsInt8(want, a, 0.3, all)
		for first := 0; first < len(ids); first += 16 {
			for end := first; end <= len(ids); end++ {
				part, got := all.Range(first, end), make([]float32, end-first)
				DotRowsInt8(got, a, 0.3, &part)
				if !slices.Equal(got, want[first:end]) {
					t.Fatalf("rows %d to %d give other results", first, end)
				}
				if !slices.Equal(part.IDs(), ids[first:end]) {
					t.Fatalf("rows %d to %d are %v, want %v", first, end, part.IDs(), ids[first:end])
				}
			}
		}
		for _, bad := range [][2]int{{8, 16}, {-16, 0}, {16, 15}, {0, 54}} {
			if !panics(func() { all.Range(bad[0], bad[1]) }) {
				t.Errorf("rows %d to %d of %d, and nothing happens", bad[0], bad[1], len(ids))
			}
		}
	})
}

func TestPickAgrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(4)
		for n := range 70 {
			src, places := awkward(r, 1+n*3/2, true), make([]int32, n)
			for i := range places {
				places[i] = int32(r.IntN(len(src)))
			}
			agree(t, fmt.Sprintf("picking %d", n), func(g *arena) []float32 {
				dst := guard(g, make([]float32, n))
				Pick(dst, guard(g, src), guard(g, places))
				return dst
			})
			for i, place := range places {
				for _, beyond := range []int32{int32(len(src)), -1, math.MinInt32, math.MaxInt32} {
					places[i] = beyond
					if !panics(func() { Pick(make([]float32, n), src, places) }) {
						t.Fatalf("place %d of %d is %d among %d elements, and nothing happens", i, n, beyond, len(src))
					}
				}
				places[i] = place
			}
		}
	})
}

func TestEmbedInt8Agrees(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(9)
		for _, n := range lengths {
			row, position, dst := int8s(r, n), awkward(r, n, true), make([]float32, n)
			agree(t, fmt.Sprintf("embedding of %d", n), func(g *arena) []float32 {
				d := guard(g, dst)
				EmbedInt8(d, guard(g, row), 0.013, 16, guard(g, position))
				return d
			})
			wide := make([]float32, n)
			for i, q := range row {
				wide[i] = float32(q) * 0.013
			}
			got := make([]float32, n)
			Embed(dst, wide, 16, position)
			EmbedInt8(got, row, 0.013, 16, position)
			for i := range got {
				if got[i] != dst[i] && got[i] == got[i] {
					t.Fatalf("element %d of %d is %v, that of a wide row %v", i, n, got[i], dst[i])
				}
			}
		}
	})
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}
