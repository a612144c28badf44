package kernels

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// These tests hold every implementation against plain float64 (or integer) arithmetic.

func TestMulInt8AgainstIntegers(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(2)
		const rows, k, n, yStride = 5, 70, 45, 50
		weights, scales, bias := int8s(r, k*n), normals(r, n), normals(r, n)
		w := PackInt8(k, n, weights, scales)
		a, aScales := uint8s(r, rows*Int8Stride(k)), normals(r, rows)
		y := make([]float32, rows*yStride)
		MulInt8(y, yStride, a, aScales, rows, w, bias, Rectified)
		for i := range rows {
			for j := range n {
				sum := 0
				for l := range k {
					sum += (int(a[i*Int8Stride(k)+l]) - 128) * int(weights[l*n+j])
				}
				scaled := float64(sum) * float64(aScales[i]) * float64(scales[j])
				want := max(0, scaled+float64(bias[j]))
				near(t, "y", y[i*yStride+j], want, 3e-7*math.Abs(scaled), 3e-7)
			}
		}
	})
}

func TestQuantizedProductIsNearTheFloatProduct(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(3)
		const rows, k = 4, 256
		x, wf := normals(r, rows*k), normals(r, k)
		weights := make([]int8, k)
		wScale := AbsMax(wf) / 127
		for i, v := range wf {
			weights[i] = int8(roundEven(v / wScale))
		}
		a, aScales := make([]uint8, rows*Int8Stride(k)), make([]float32, rows)
		QuantizeRows(a, aScales, x, rows, k)
		y := make([]float32, rows)
		MulInt8(y, 1, a, aScales, rows, PackInt8(k, 1, weights, []float32{wScale}), nil, None)
		for i := range rows {
			want := 0.0
			for l := range k {
				want += float64(x[i*k+l]) * float64(wf[l])
			}
			near(t, "y", y[i], want, 0.75, 0) // two errors of ±scale/2 a product, averaged over 256
		}
	})
}

func TestQuantizeRows(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		const k = 5
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		rows := [][k]float32{
			{127, -127, 0.5, 1.5, 2.5},
			{0, 0, 0, 0, 0},
			{1, nan, 2, 3, 4},
			{1, 2, -inf, 3, 4},
			{1e-44, 0, 0, 0, 0},
			{-2, 1, 0, 0, 0},
		}
		want := [][k]uint8{{255, 1, 128, 130, 130}, {128, 128, 128, 128, 128}, {128, 128, 128, 128, 128}, {128, 128, 128, 128, 128}, {128, 128, 128, 128, 128}, {1, 192, 128, 128, 128}}
		wantScales := []float32{1, 0, nan, inf, 0, 2.0 / 127}
		var x []float32
		for _, row := range rows {
			x = append(x, row[:]...)
		}
		dst, scales := make([]uint8, len(rows)*Int8Stride(k)), make([]float32, len(rows))
		QuantizeRows(dst, scales, x, len(rows), k)
		for i := range rows {
			if !same(scales[i], wantScales[i]) {
				t.Errorf("row %d: scale %v, want %v", i, scales[i], wantScales[i])
			}
			if got := [k]uint8(dst[i*Int8Stride(k):]); got != want[i] {
				t.Errorf("row %d: %v, want %v", i, got, want[i])
			}
		}
		QuantizeRowsFixed(dst, []float32{nan, inf, -inf, 0.75, -300}, 1, k, 2)
		if got, want := [k]uint8(dst), [k]uint8{128, 255, 1, 130, 1}; got != want {
			t.Errorf("fixed: %v, want %v", got, want)
		}
	})
}

func TestMulFloat32AgainstFloat64(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(4)
		const rows, k, n = 7, 53, 37
		x, w, bias := normals(r, rows*k), normals(r, k*n), normals(r, n)
		y := make([]float32, rows*n)
		MulFloat32(y, n, x, k, rows, PackFloat32(k, n, w), bias, None)
		for i := range rows {
			for j := range n {
				want := float64(bias[j])
				for l := range k {
					want += float64(x[i*k+l]) * float64(w[l*n+j])
				}
				near(t, "y", y[i*n+j], want, 2e-5, 0)
			}
		}
	})
}

func TestDotRowsFloat32AgainstFloat64(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(5)
		const n, k = 40, 77
		x, table, bias := normals(r, k), normals(r, n*k), normals(r, n)
		ids := []int32{39, 0, 3, 3, 17, 22, 1, 2, 5, 8, 13, 21, 34, 9, 10, 11, 12, 38}
		y := make([]float32, len(ids))
		DotRowsFloat32(y, x, table, k, ids, bias)
		for i, id := range ids {
			want := float64(bias[id])
			for l := range k {
				want += float64(x[l]) * float64(table[int(id)*k+l])
			}
			near(t, "y", y[i], want, 2e-5, 0)
		}
	})
}

func TestDotRowsInt8EqualsMulInt8(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(6)
		const n, k = 100, 200
		weights, scales, bias := int8s(r, k*n), normals(r, n), normals(r, n)
		transposed := make([]int8, n*k)
		for i := range k {
			for j := range n {
				transposed[j*k+i] = weights[i*n+j]
			}
		}
		a := uint8s(r, Int8Stride(k))
		y, chosen := make([]float32, n), make([]float32, n)
		MulInt8(y, n, a, []float32{0.01}, 1, PackInt8(k, n, weights, scales), bias, None)
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32((i * 37) % n)
		}
		DotRowsInt8(chosen, a, 0.01, choose(PackInt8Rows(n, k, transposed, scales), ids, bias))
		for i, id := range ids {
			if chosen[i] != y[id] {
				t.Fatalf("row %d: %v, MulInt8 gives %v", id, chosen[i], y[id])
			}
		}
	})
}

func TestNormsAgainstFloat64(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(7)
		const rows, n, eps = 3, 67, 1e-6
		x, residual, scale, bias := normals(r, rows*n), normals(r, rows*n), normals(r, n), normals(r, n)
		layer, rms := make([]float32, rows*n), make([]float32, rows*n)
		LayerNorm(layer, x, residual, scale, bias, rows, n, eps)
		RMSNorm(rms, x, residual, scale, rows, n, eps)
		for i := range rows {
			var sum, squares float64
			for j := i * n; j < (i+1)*n; j++ {
				v := float64(x[j]) + float64(residual[j])
				sum += v
				squares += v * v
			}
			mean := sum / n
			deviation := math.Sqrt(squares/n - mean*mean + eps)
			for j := range n {
				v := float64(x[i*n+j]) + float64(residual[i*n+j])
				near(t, "layer norm", layer[i*n+j], (v-mean)/deviation*float64(scale[j])+float64(bias[j]), 2e-6, 1e-6)
				near(t, "rms norm", rms[i*n+j], v/math.Sqrt(squares/n+eps)*float64(scale[j]), 2e-6, 1e-6)
			}
		}
	})
}

func TestSoftmaxAgainstFloat64(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(8)
		for n := 1; n < 70; n++ {
			x := normals(r, n)
			want, sum := make([]float64, n), 0.0
			for i, v := range x {
				want[i] = math.Exp(float64(v))
				sum += want[i]
			}
			logs := append([]float32(nil), x...)
			Softmax(x, 1, n, n)
			LogSoftmax(logs)
			for i := range x {
				near(t, "softmax", x[i], want[i]/sum, 0, 1e-6)
				near(t, "log softmax", logs[i], math.Log(want[i]/sum), 1e-6, 1e-6)
			}
		}
		inf := float32(math.Inf(1))
		masked := []float32{1, -inf, 1}
		LogSoftmax(masked)
		if masked[1] != -inf || math.Abs(float64(masked[0])+math.Ln2) > 1e-6 {
			t.Errorf("log softmax with a masked element: %v", masked)
		}
		masked = []float32{1, -inf, 1}
		Softmax(masked, 1, 3, 3)
		if masked[0] != 0.5 || masked[1] != 0 || masked[2] != 0.5 {
			t.Errorf("softmax with a masked element: %v", masked)
		}
	})
}

func TestArgMax(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		for _, c := range []struct {
			x    []float32
			want int
		}{
			{nil, -1}, {[]float32{1, 3, 3, 2}, 1}, {[]float32{-inf, -inf}, 0}, {[]float32{1, inf, nan, nan}, 2},
			{[]float32{nan, 1}, 0}, {[]float32{0, float32(math.Copysign(0, -1))}, 0}, {[]float32{float32(math.Copysign(0, -1)), 0}, 0},
		} {
			if got, _ := ArgMax(c.x); got != c.want {
				t.Errorf("ArgMax(%v) = %d, want %d", c.x, got, c.want)
			}
		}
		x := normals(source(9), 1000)
		for _, peak := range []int{0, 15, 16, 500, 991, 999} {
			x[peak] = 100 - x[peak]
			if got, value := ArgMax(x); got != peak || value != x[peak] {
				t.Errorf("peak at %d found at %d (%v)", peak, got, value)
			}
			x[peak] = 0
		}
		if got := AbsMax([]float32{1, -3, 2}); got != 3 {
			t.Errorf("AbsMax = %v", got)
		}
		if got := AbsMax(nil); got != 0 {
			t.Errorf("AbsMax of nothing = %v", got)
		}
	})
}

func TestAttentionAgainstFloat64(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(10)
		for _, headDim := range []int{8, 32, 40, 64} {
			const heads, nq, nk = 3, 5, 21
			width := heads * headDim
			s := Attention{Heads: heads, HeadDim: headDim, Scale: float32(1 / math.Sqrt(float64(headDim))), QStride: width + 3, KStride: width, VStride: width + 5, OutStride: width + 1}
			q, k, v := normals(r, nq*s.QStride), normals(r, nk*s.KStride), normals(r, nk*s.VStride)
			out, scratch := make([]float32, nq*s.OutStride), make([]float32, s.ScratchLen(nk))
			s.Run(out, q, k, v, nq, nk, scratch)
			rows := make([]int32, nk)
			for i := range rows {
				rows[i] = int32(i)
			}
			one, weights := make([]float32, width), make([]float32, nk)
			kept, keptOne, keptWeights := make([]float32, s.KeptLen(nk)), make([]float32, width), make([]float32, nk)
			s.Keep(kept, k, v, nk, scratch)
			for i := range nq {
				s.RunRows(one, q[i*s.QStride:], k, v, rows, scratch)
				s.RunKept(keptOne, q[i*s.QStride:], kept, nk, scratch)
				if !slices.Equal(keptOne, one) {
					t.Errorf("RunKept gives %v, RunRows %v", keptOne, one)
				}
				for h := range heads {
					wantWeights, want := attention64(s, q[i*s.QStride:], k, v, nk, h)
					s.Weights(weights, q[i*s.QStride:], k, nk, h)
					s.KeptWeights(keptWeights, q[i*s.QStride:], kept, nk, h)
					if !slices.Equal(keptWeights, weights) {
						t.Errorf("KeptWeights gives %v, Weights %v", keptWeights, weights)
					}
					for j := range nk {
						near(t, "weight", weights[j], wantWeights[j], 1e-6, 1e-5)
					}
					for d := range headDim {
						got := out[i*s.OutStride+h*headDim+d]
						near(t, "out", got, want[d], 2e-6, 2e-6)
						if got != one[h*headDim+d] {
							t.Errorf("RunRows gives %v, Run %v", one[h*headDim+d], got)
						}
					}
				}
			}
		}
	})
}

// Keys and values that are kept as bfloat16 give what the rounded ones give.
func TestKeptBFloat16(t *testing.T) {
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(11)
		for _, headDim := range []int{8, 32, 40, 64} {
			for nk := range 40 {
				const heads = 3
				width := heads * headDim
				s := Attention{Heads: heads, HeadDim: headDim, Scale: 0.3, QStride: width, KStride: width + 2, VStride: width + 5, OutStride: width}
				q, k, v := normals(r, width), normals(r, nk*s.KStride), normals(r, nk*s.VStride)
				scratch, weights, keptWeights := make([]float32, s.ScratchLen(nk)), make([]float32, nk), make([]float32, nk)
				want, got := make([]float32, width), make([]float32, width)
				s.KeepBFloat16 = true
				kept := make([]float32, s.KeptLen(nk))
				s.Keep(kept, k, v, nk, scratch)
				s.RunKept(got, q, kept, nk, scratch)
				for i := range k {
					k[i] = rounded(k[i])
				}
				for i := range v {
					v[i] = rounded(v[i])
				}
				s.Run(want, q, k, v, 1, nk, scratch)
				if !slices.Equal(got, want) {
					t.Errorf("%d keys, heads of %d: RunKept gives %v, Run %v", nk, headDim, got, want)
				}
				s.Weights(weights, q, k, nk, 1)
				s.KeptWeights(keptWeights, q, kept, nk, 1)
				if !slices.Equal(keptWeights, weights) {
					t.Errorf("%d keys, heads of %d: KeptWeights gives %v, Weights %v", nk, headDim, keptWeights, weights)
				}
			}
		}
	})
}

func attention64(s Attention, q, k, v []float32, nk, head int) (weights, out []float64) {
	weights, out = make([]float64, nk), make([]float64, s.HeadDim)
	sum, first := 0.0, head*s.HeadDim
	for j := range nk {
		dot := 0.0
		for d := range s.HeadDim {
			dot += float64(q[first+d]) * float64(k[j*s.KStride+first+d])
		}
		weights[j] = math.Exp(dot * float64(s.Scale))
		sum += weights[j]
	}
	for j := range nk {
		weights[j] /= sum
		for d := range s.HeadDim {
			out[d] += weights[j] * float64(v[j*s.VStride+first+d])
		}
	}
	return weights, out
}

func TestElementwiseAgainstFloat64(t *testing.T) {
	σ := func(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }
	cputest.EachFamily(t, func(t *testing.T) {
		r := source(11)
		const n = 83
		a, b, c, d, e := normals(r, n), normals(r, n), normals(r, n), normals(r, n), normals(r, n)
		check := func(name string, run func(x []float32), want func(i int) float64) {
			t.Helper()
			got := append([]float32(nil), a...)
			run(got)
			for i := range got {
				near(t, name, got[i], want(i), 4e-7, 6e-7)
			}
		}
		A := func(i int) float64 { return float64(a[i]) }
		h := make([]float32, n)
		check("Add", func(x []float32) { Add(x, x, b) }, func(i int) float64 { return A(i) + float64(b[i]) })
		check("Scale", func(x []float32) { Scale(x, x, 3) }, func(i int) float64 { return 3 * A(i) })
		check("ReLU", ReLU, func(i int) float64 { return max(0, A(i)) })
		check("Swish", Swish, func(i int) float64 { return A(i) * σ(a[i]) })
		check("GELU", GELU, func(i int) float64 { return A(i) * math.Erfc(-A(i)/math.Sqrt2) / 2 })
		check("GELUSigmoid", GELUSigmoid, func(i int) float64 { return A(i) * σ(1.702*a[i]) })
		check("Sigmoid", Sigmoid, func(i int) float64 { return σ(a[i]) })
		check("Tanh", Tanh, func(i int) float64 { return math.Tanh(A(i)) })
		cell := func(i int) float64 { return σ(b[i])*A(i) + (1-σ(b[i]))*float64(c[i]) }
		check("SSRU cell", func(x []float32) { SSRU(x, h, b, c) }, cell)
		for i := range h {
			near(t, "SSRU output", h[i], max(0, cell(i)), 4e-7, 6e-7)
		}
		check("SRU cell", func(x []float32) { SRU(x, h, b, d, c, e) }, cell)
		for i := range h {
			near(t, "SRU output", h[i], σ(d[i])*math.Tanh(cell(i))+(1-σ(d[i]))*float64(e[i]), 4e-7, 1e-6)
		}
		check("Average", func(x []float32) { Average(x, b, 4) }, func(i int) float64 { return (4*A(i) + float64(b[i])) / 5 })
		check("GatedSum", func(x []float32) { GatedSum(x, b, c, d, e) }, func(i int) float64 { return σ(b[i])*float64(c[i]) + σ(d[i])*float64(e[i]) })
		check("Highway", func(x []float32) { Highway(x, b, c, d) }, func(i int) float64 { return σ(b[i])*float64(c[i]) + (1-σ(b[i]))*float64(d[i]) })
		check("Embed", func(x []float32) { Embed(x, b, 16, c) }, func(i int) float64 { return 16*float64(b[i]) + float64(c[i]) })
		check("AddBias", func(x []float32) { AddBias(x[:80], b, 2, 40) }, func(i int) float64 {
			if i < 80 {
				return A(i) + float64(b[i%40])
			}
			return A(i)
		})
	})
}

func TestNaNAndInfinityShowInTheProduct(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(12)
		const rows, k, n = 3, 40, 33
		w := PackInt8(k, n, int8s(r, k*n), normals(r, n))
		x := normals(r, rows*k)
		x[5], x[k+7] = float32(math.NaN()), float32(math.Inf(-1))
		a, aScales, y := make([]uint8, rows*Int8Stride(k)), make([]float32, rows), make([]float32, rows*n)
		QuantizeRows(a, aScales, x, rows, k)
		MulInt8(y, n, a, aScales, rows, w, normals(r, n), Rectified)
		for i, v := range y {
			if broken := i < 2*n; (v != v) != broken {
				t.Fatalf("row %d, column %d is %v", i/n, i%n, v)
			}
		}
	})
}
