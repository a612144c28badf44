package kernels

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// exact returns n numbers of a dozen bits each, which no two architectures compute differently.
func exact(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.IntN(1<<12)-1<<11) / 512
	}
	return x
}

// The other tests compare implementations on one machine. This one compares machines: compilers may fuse a product with
// a sum where the source does not forbid it, and then the reference itself differs from one architecture to another.
func TestEveryMachineGivesTheSameBits(t *testing.T) {
	const rows, k, n = 7, 112, 80
	want := map[string]uint64{
		"int8":        0x19765511e99d3439,
		"float32":     0xe0f3634642c041ee,
		"norms":       0xd2f644e8d66e0a0c,
		"softmax":     0x51524f4b1a70ff65,
		"activations": 0x8a00854a46a7b94a,
		"cells":       0xe4528fea56447580,
		"attention":   0xf394e3b514b345,
	}
	cputest.Each(t, func(t *testing.T) {
		r := source(42)
		x, y, z := exact(r, rows*k), exact(r, rows*k), exact(r, rows*k)
		weights, scales, bias := int8s(r, k*n), exact(r, n), exact(r, n)
		floats := exact(r, k*n)
		for name, run := range map[string]func() []float32{
			"int8": func() []float32 {
				a, aScales, out := make([]uint8, rows*Int8Stride(k)), make([]float32, rows), make([]float32, rows*n)
				QuantizeRows(a, aScales, x, rows, k)
				MulInt8(out, n, a, aScales, rows, PackInt8(k, n, weights, scales), bias, Rectified)
				chosen := make([]float32, 3)
				DotRowsInt8(chosen, a, aScales[0], choose(PackInt8Rows(n, k, weights, scales), []int32{79, 0, 33}, bias))
				return append(out, chosen...)
			},
			"float32": func() []float32 {
				out, chosen := make([]float32, rows*n), make([]float32, 3)
				MulFloat32(out, n, x, k, rows, PackFloat32(k, n, floats), bias, None)
				AccumulateFloat32Transposed(out, n, y, rows, rows, PackFloat32(k, n, floats))
				DotRowsFloat32(chosen, x, floats, k, []int32{79, 0, 33}, bias)
				return append(out, chosen...)
			},
			"norms": func() []float32 {
				a, b := make([]float32, rows*k), make([]float32, rows*k)
				LayerNorm(a, x, y, z, bias, rows, n, 1e-6)
				RMSNorm(b, x, nil, z, rows, k, 1e-6)
				return append(a, b...)
			},
			"softmax": func() []float32 {
				a, b := append([]float32(nil), x...), append([]float32(nil), y...)
				Softmax(a, rows, k-5, k)
				LogSoftmax(b)
				return append(a, b...)
			},
			"activations": func() (out []float32) {
				for _, f := range []func([]float32){Sigmoid, Tanh, Swish, GELU, GELUSigmoid, ReLU} {
					a := append([]float32(nil), x[:n+3]...)
					f(a)
					out = append(out, a...)
				}
				return out
			},
			"cells": func() []float32 {
				a, b, c := append([]float32(nil), x...), append([]float32(nil), y...), append([]float32(nil), z...)
				SSRU(a, b, c, y)
				SRU(b, c, a, y, z, x)
				GatedSum(c, a, b, x, y)
				Highway(a, b, c, z)
				Average(b, c, 4)
				Embed(c, a, 1.5, b)
				return append(append(a, b...), c...)
			},
			"attention": func() []float32 {
				s := Attention{Heads: 2, HeadDim: 48, Scale: 0.15, QStride: k, KStride: k, VStride: k, OutStride: 96}
				out := make([]float32, rows*96)
				s.Run(out, x, y, z, rows, rows, make([]float32, s.ScratchLen(rows)))
				return out
			},
		} {
			h := fnv.New64a()
			for _, v := range run() {
				var b [4]byte
				binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
				h.Write(b[:])
			}
			if got := h.Sum64(); got != want[name] {
				t.Errorf("%s: the hash of the results is %#x, want %#x", name, got, want[name])
			}
		}
	})
}
