package kernels

import (
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

func TestKernelsAllocateNothing(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		r := source(1)
		const rows, k, n, heads = 5, 64, 70, 2
		x, y, z, w := normals(r, rows*n), normals(r, rows*n), normals(r, rows*n), normals(r, rows*n)
		a, aScales, none := make([]uint8, rows*Int8Stride(k)), make([]float32, rows), make([]uint64, rows*n/64+1)
		int8Matrix, floatMatrix := PackInt8(k, n, int8s(r, k*n), normals(r, n)), PackFloat32(k, n, normals(r, k*n))
		table, floats, ids, cached := PackInt8Rows(n, k, int8s(r, k*n), normals(r, n)), normals(r, n*k), []int32{3, 1, 4, 1, 5}, []int32{3, 1}
		s := Attention{Heads: heads, HeadDim: k / heads, Scale: 1, QStride: k, KStride: k, VStride: k, OutStride: k}
		scratch, kept := make([]float32, s.ScratchLen(rows)), make([]float32, s.KeptLen(rows))
		brief, choice := s, choose(table, ids, z)
		brief.KeepBFloat16 = true
		bytes := make([]uint8, rows*Int8Stride(n))
		zeros, wide, listed := thinned(r, rows*Int8Stride(k), 50), normals(r, rows*128), PackInt8Rectified(k, 128, int8s(r, k*128), normals(r, 128))
		rounded, halves := PackBFloat16Rows(n, k, floats), make([]uint16, rows*BFloat16Stride(k))
		half := rounded.Whole()
		for name, kernel := range map[string]func(){
			"QuantizeRows":      func() { QuantizeRows(a, aScales, x, rows, k) },
			"QuantizeRowsFixed": func() { QuantizeRowsFixed(a, x, rows, k, 2) },
			"MulInt8":           func() { MulInt8(y, n, a, aScales, rows, int8Matrix, z, Rectified) },
			"MulInt8Quantised":  func() { MulInt8Quantised(bytes, 2, y, a, aScales, rows, int8Matrix, z, Rectified) },
			"MulInt8, zeros":    func() { MulInt8(wide, 128, zeros, aScales, rows, listed, nil, None) },
			"MulFloat32":        func() { MulFloat32(y, n, x, k, rows, floatMatrix, z, None) },
			"DotRowsInt8":       func() { table.Choose(choice, ids, z); DotRowsInt8(y, a, 1, choice) },
			"MulRowsInt8":       func() { MulRowsInt8(y, n, a, aScales, rows, choice) },
			"DotRowsFloat32":    func() { DotRowsFloat32(y, x, floats, k, ids, z) },
			"bfloat16": func() {
				ToBFloat16(halves, x, k, rows, k)
				MulBFloat16(y, n, halves, rows, half, z, Rectified)
				DotRowsBFloat16(y, x, rounded, ids, z)
			},
			"ArgMax, AbsMax": func() { ArgMax(x); AbsMax(x); MaxChosen(x, none) },
			"norms":          func() { LayerNorm(y, x, z, w, w, rows, k, 1e-6); RMSNorm(y, x, z, w, rows, k, 1e-6) },
			"quantised norms": func() {
				LayerNormQuantised(bytes, aScales, y, x, z, w, w, rows, k, 1e-6)
				RMSNormQuantised(bytes, aScales, y, x, z, w, rows, k, 1e-6)
			},
			"softmax":     func() { Softmax(y, rows, k, k); LogSoftmax(y) },
			"elementwise": func() { Add(y, x, z); AddBias(y, z, rows, k); Scale(y, x, 2); Embed(y, x, 2, z); Average(y, x, 3) },
			"activations": func() {
				ReLU(y)
				Swish(y)
				GELU(y)
				GELUSigmoid(y)
				Sigmoid(y)
				Tanh(y)
			},
			"cells":               func() { SSRU(y, z, w, x); SRU(y, z, w, w, x, x); GatedSum(y, z, w, x, x); Highway(y, z, w, x) },
			"Attention.Run":       func() { s.Run(y, x, z, w, rows, rows, scratch) },
			"Attention.Keep":      func() { s.Keep(kept, z, w, rows, scratch) },
			"Attention, bfloat16": func() { brief.Keep(kept, z, w, rows, scratch); brief.RunKept(y, x, kept, rows, scratch) },
			"Attention.RunKept":   func() { s.RunKept(y, x, kept, rows, scratch) },
			"Attention.RunRows":   func() { s.RunRows(y, x, z, w, cached, scratch) },
			"Attention.Weights":   func() { s.Weights(y, x, z, rows, 1) },
		} {
			if n := testing.AllocsPerRun(10, kernel); n != 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	})
}
