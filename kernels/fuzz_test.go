package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// The fuzz targets compare every implementation with the reference on numbers of any bits.

// fuzzFloats reads n numbers from data, which is repeated as often as needed; without data they are zero.
func fuzzFloats(data []byte, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		var bits [4]byte
		for j := range bits {
			if len(data) > 0 {
				bits[j] = data[(4*i+j)%len(data)]
			}
		}
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(bits[:]))
	}
	return x
}

// agreeEverywhere compares a kernel at every level that the processor has.
func agreeEverywhere(t *testing.T, what string, kernel func(a *arena) []float32) {
	for _, l := range cpu.Levels() {
		if l == cpu.Generic || !cpu.Has(l) {
			continue
		}
		restore := cpu.Limit(l)
		agree(t, fmt.Sprint(what, " on ", l), kernel)
		restore()
	}
}

// seeds adds the special numbers, and some bytes.
func seeds(f *testing.F, arguments ...any) {
	var data []byte
	for _, v := range special {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	f.Add(append([]any{data}, arguments...)...)
	f.Add(append([]any{[]byte("sluice!")}, arguments...)...)
}

func FuzzMulInt8(f *testing.F) {
	seeds(f, uint8(13), uint8(70), uint8(40))
	f.Add([]byte{255, 127, 129, 128, 64}, uint8(12), uint8(255), uint8(9))
	f.Add([]byte{255, 255, 1, 255, 129, 64, 63, 192, 65}, uint8(23), uint8(64), uint8(17))
	f.Fuzz(func(t *testing.T, data []byte, rows, k, n uint8) {
		rows %= 40
		weights, a := make([]int8, int(k)*int(n)), make([]uint8, int(rows)*Int8Stride(int(k)))
		for i := range weights {
			weights[i] = int8(fuzzByte(data, i, 0))
		}
		for i := range a {
			a[i] = fuzzByte(data, i, 1)
		}
		scales, aScales := fuzzFloats(data, int(n)), fuzzFloats(data, int(rows))
		w := PackInt8(int(k), int(n), weights, scales)
		agreeEverywhere(t, "MulInt8", func(g *arena) []float32 {
			y := guard(g, make([]float32, int(rows)*int(n)))
			MulInt8(y, int(n), guard(g, a), guard(g, aScales), int(rows), w, guard(g, scales), Activation(k%2))
			return append(y, quantised(g, guard(g, a), guard(g, aScales), int(rows), w, guard(g, scales), Activation(k%2))...)
		})
		small := slices.Clone(weights) // of which chains can be packed
		for i := range small {
			small[i] >>= i % 4
		}
		agreeEverywhere(t, "MulInt8 packed for it", func(g *arena) []float32 {
			y := guard(g, make([]float32, int(rows)*int(n)))
			w := PackInt8(int(k), int(n), small, scales)
			MulInt8(y, int(n), guard(g, a), guard(g, aScales), int(rows), w, guard(g, scales), Activation(k%2))
			rectified := guard(g, make([]float32, int(rows)*int(n)))
			w = PackInt8Rectified(int(k), int(n), small, scales)
			MulInt8(rectified, int(n), guard(g, atLeastZero(a)), guard(g, aScales), int(rows), w, guard(g, scales), Activation(k%2))
			return append(y, rectified...)
		})
	})
}

func fuzzByte(data []byte, i, shift int) byte {
	if len(data) == 0 {
		return 0
	}
	return data[(i+shift)%len(data)]
}

func FuzzQuantizeRows(f *testing.F) {
	seeds(f, uint8(3), uint8(37), float32(20))
	f.Fuzz(func(t *testing.T, data []byte, rows, k uint8, multiplier float32) {
		rows %= 8
		x, stride := fuzzFloats(data, int(rows)*int(k)), Int8Stride(int(k))
		agreeEverywhere(t, "QuantizeRows", func(g *arena) []float32 {
			dst, scales := guard(g, make([]uint8, int(rows)*stride)), guard(g, make([]float32, rows))
			QuantizeRows(dst, scales, guard(g, x), int(rows), int(k))
			fixed := guard(g, make([]uint8, int(rows)*stride))
			QuantizeRowsFixed(fixed, guard(g, x), int(rows), int(k), multiplier)
			if k == 0 {
				return scales
			}
			return append(append(withoutPadding(dst, stride, int(k)), withoutPadding(fixed, stride, int(k))...), scales...)
		})
	})
}

func FuzzMulFloat32(f *testing.F) {
	seeds(f, uint8(13), uint8(9), uint8(40))
	f.Fuzz(func(t *testing.T, data []byte, rows, k, n uint8) {
		rows, k = rows%30, k%40
		w := PackFloat32(int(k), int(n), fuzzFloats(data, int(k)*int(n)))
		x, bias := fuzzFloats(data, int(rows)*int(k)), fuzzFloats(data, int(n))
		agreeEverywhere(t, "MulFloat32", func(g *arena) []float32 {
			y := guard(g, make([]float32, int(rows)*int(n)))
			MulFloat32(y, int(n), guard(g, x), int(k), int(rows), w, guard(g, bias), Activation(k%2))
			return y
		})
	})
}

func FuzzDotRowsFloat32(f *testing.F) {
	seeds(f, uint8(21), uint8(37))
	f.Fuzz(func(t *testing.T, data []byte, n, k uint8) {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(fuzzByte(data, i, 0)) % 7
		}
		x, table := fuzzFloats(data, int(k)), fuzzFloats(data, 7*int(k))
		if k == 0 {
			ids = nil
		}
		agreeEverywhere(t, "DotRowsFloat32", func(g *arena) []float32 {
			y := guard(g, make([]float32, len(ids)))
			DotRowsFloat32(y, guard(g, x), guard(g, table), int(k), guard(g, ids), nil)
			return y
		})
	})
}

func FuzzAttention(f *testing.F) {
	seeds(f, uint8(2), uint8(32), uint8(5), uint8(21))
	f.Fuzz(func(t *testing.T, data []byte, heads, headDim, nq, nk uint8) {
		heads, headDim, nq, nk = heads%5, headDim%80, nq%20, nk%70
		width := int(heads) * int(headDim)
		s := Attention{Heads: int(heads), HeadDim: int(headDim), Scale: 0.5, QStride: width, KStride: width, VStride: width, OutStride: width}
		q, kv := fuzzFloats(data, int(nq)*width), fuzzFloats(data, int(nk)*width)
		agreeEverywhere(t, "attention", func(g *arena) []float32 {
			out := guard(g, make([]float32, int(nq)*width))
			s.Run(out, guard(g, q), guard(g, kv), guard(g, kv), int(nq), int(nk), guard(g, make([]float32, s.ScratchLen(int(nk)))))
			return out
		})
		if nq == 0 {
			return
		}
		for _, brief := range []bool{false, true} {
			s.KeepBFloat16 = brief
			agreeEverywhere(t, fmt.Sprintf("attention over what is kept, bfloat16: %v", brief), func(g *arena) []float32 {
				out, kept := guard(g, make([]float32, width)), guard(g, make([]float32, s.KeptLen(int(nk))))
				scratch := guard(g, make([]float32, s.ScratchLen(int(nk))))
				s.Keep(kept, guard(g, kv), guard(g, kv), int(nk), scratch)
				s.RunKept(out, guard(g, q), kept, int(nk), scratch)
				return out
			})
		}
	})
}

func FuzzMaxChosen(f *testing.F) {
	seeds(f, uint8(70), uint64(0x8000_0000_0000_0001))
	f.Fuzz(func(t *testing.T, data []byte, n uint8, bits uint64) {
		x, chosen := fuzzFloats(data, int(n)), make([]uint64, (int(n)+63)/64)
		for i := range chosen {
			chosen[i] = bits
		}
		if rest := n % 64; rest > 0 {
			chosen[len(chosen)-1] &= 1<<rest - 1
		}
		agreeEverywhere(t, "MaxChosen", func(g *arena) []float32 {
			largest, finite := MaxChosen(guard(g, x), chosen)
			if !finite {
				return []float32{0, 0} // the largest may be anything
			}
			return []float32{1, largest + 0} // of two zeros any is the largest
		})
	})
}

func FuzzRows(f *testing.F) {
	seeds(f, uint8(37))
	f.Fuzz(func(t *testing.T, data []byte, length uint8) {
		n := int(length)
		if n == 0 {
			return
		}
		x := fuzzFloats(data, n)
		for name, kernel := range map[string]func(y []float32){
			"LayerNorm":  func(y []float32) { LayerNorm(y, y, x, x, x, 1, n, 1e-6) },
			"RMSNorm":    func(y []float32) { RMSNorm(y, y, nil, x, 1, n, 1e-6) },
			"Softmax":    func(y []float32) { Softmax(y, 1, n, n) },
			"LogSoftmax": LogSoftmax,
			"Swish":      Swish,
			"GELU":       GELU,
			"Sigmoid":    Sigmoid,
			"Tanh":       Tanh,
			"ReLU":       ReLU,
			"SSRU":       func(y []float32) { SSRU(y, y, x, x) },
			"SRU":        func(y []float32) { SRU(y, y, x, x, x, x) },
			"GatedSum":   func(y []float32) { GatedSum(y, x, x, x, y) },
			"Highway":    func(y []float32) { Highway(y, x, y, x) },
			"Average":    func(y []float32) { Average(y, x, 3) },
			"Embed":      func(y []float32) { Embed(y, x, 1.5, x) },
			"ArgMax":     func(y []float32) { i, _ := ArgMax(y); y[0] = float32(i) },
			"AbsMax":     func(y []float32) { y[0] = AbsMax(y) },
		} {
			agreeEverywhere(t, name, func(g *arena) []float32 {
				y := guard(g, x)
				kernel(y)
				return y
			})
		}
	})
}

func FuzzDotRowsInt8(f *testing.F) {
	seeds(f, uint8(21), uint8(37))
	f.Add([]byte{0x80, 0x7f, 0, 0xff, 0x81}, uint8(29), uint8(200)) // the extremes of both, in all combinations
	f.Fuzz(func(t *testing.T, data []byte, n, k uint8) {
		const rows = 7
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(fuzzByte(data, i, 0)) % rows
		}
		weights, a := make([]int8, rows*int(k)), make([]uint8, Int8Stride(int(k)))
		for i := range weights {
			weights[i] = int8(fuzzByte(data, i, 1))
		}
		for i := range a {
			a[i] = fuzzByte(data, i, 2)
		}
		scales := fuzzFloats(data, rows)
		table := PackInt8Rows(rows, int(k), weights, scales)
		agreeEverywhere(t, "DotRowsInt8", func(g *arena) []float32 {
			y := guard(g, make([]float32, len(ids)))
			DotRowsInt8(y, guard(g, a), 0.7, choose(table, guard(g, ids), guard(g, scales)).guarded(g))
			return y
		})
		agreeEverywhere(t, "MulRowsInt8", func(g *arena) []float32 {
			y := guard(g, make([]float32, 2*len(ids)))
			MulRowsInt8(y, len(ids), guard(g, append(slices.Clone(a), a...)), guard(g, []float32{0.7, -3}), 2, choose(table, guard(g, ids), guard(g, scales)).guarded(g))
			return y
		})
	})
}

func FuzzQuantizeRowsInt16(f *testing.F) {
	seeds(f, uint8(3), uint8(37), float32(20), uint16(1000))
	f.Fuzz(func(t *testing.T, data []byte, rows, k uint8, multiplier float32, bound uint16) {
		rows %= 8
		limit := int(bound)%32767 + 1
		x, stride := fuzzFloats(data, int(rows)*int(k)), Int16Stride(int(k))
		agreeEverywhere(t, "QuantizeRowsInt16", func(g *arena) []float32 {
			dst, scales := guard(g, make([]int16, int(rows)*stride)), guard(g, make([]float32, rows))
			QuantizeRowsInt16(dst, scales, guard(g, x), int(rows), int(k), limit)
			fixed := guard(g, make([]int16, int(rows)*stride))
			QuantizeRowsInt16Fixed(fixed, guard(g, x), int(rows), int(k), multiplier, limit)
			if k == 0 {
				return scales
			}
			return append(append(wordsWithoutPadding(dst, stride, int(k)), wordsWithoutPadding(fixed, stride, int(k))...), scales...)
		})
	})
}

func FuzzQuantisedNorms(f *testing.F) {
	seeds(f, uint8(3), uint8(37), true)
	f.Add([]byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0xc0, 0, 0, 0, 0xbf, 0xcd, 0xcc, 0xcc, 0x3d}, uint8(3), uint8(37), true) // 1, 2, -3, -0.5, 0.1
	f.Fuzz(func(t *testing.T, data []byte, rows, length uint8, residual bool) {
		rows %= 8
		n, stride := int(length), Int8Stride(int(length))
		x, scale := fuzzFloats(data, int(rows)*n), fuzzFloats(data, n)
		var added, bias []float32
		if residual {
			added, bias = slices.Clone(x), scale
			slices.Reverse(added)
		}
		for name, norm := range map[string]func(g *arena, bytes []uint8, scales, dst []float32){
			"LayerNormQuantised": func(g *arena, bytes []uint8, scales, dst []float32) {
				LayerNormQuantised(bytes, scales, dst, guard(g, x), guardOrNil(g, added), guard(g, scale), guardOrNil(g, bias), int(rows), n, 1e-6)
			},
			"RMSNormQuantised": func(g *arena, bytes []uint8, scales, dst []float32) {
				RMSNormQuantised(bytes, scales, dst, guard(g, x), guardOrNil(g, added), guard(g, scale), int(rows), n, 1e-6)
			},
		} {
			agreeEverywhere(t, name, func(g *arena) []float32 {
				bytes, scales, dst := guard(g, make([]uint8, int(rows)*stride)), guard(g, make([]float32, rows)), guard(g, make([]float32, int(rows)*n))
				norm(g, bytes, scales, dst)
				if n == 0 {
					return scales
				}
				return slices.Concat(dst, scales, withoutPadding(bytes, stride, n))
			})
		}
	})
}

func FuzzGates(f *testing.F) {
	seeds(f, uint8(37), true)
	f.Fuzz(func(t *testing.T, data []byte, length uint8, input bool) {
		n := int(length)
		u := fuzzFloats(data, 4*n)
		s, m := u[n:2*n], u[2*n:3*n]
		var x []float32
		if input {
			x = slices.Clone(u)
			slices.Reverse(x)
		}
		agreeEverywhere(t, "GRU", func(g *arena) []float32 {
			out := guard(g, s)
			GRU(out, guardOrNil(g, x), guard(g, u[:3*n]))
			return out
		})
		agreeEverywhere(t, "LSTM", func(g *arena) []float32 {
			out, memories := guard(g, s), guard(g, m)
			LSTM(out, memories, guardOrNil(g, x), guard(g, u))
			return slices.Concat(out, memories)
		})
	})
}

func FuzzEmbedInt8(f *testing.F) {
	seeds(f, uint8(37), float32(0.013), float32(16))
	f.Fuzz(func(t *testing.T, data []byte, length uint8, factor, scale float32) {
		row, position := make([]int8, length), fuzzFloats(data, int(length))
		for i := range row {
			row[i] = int8(fuzzByte(data, i, 1))
		}
		agreeEverywhere(t, "EmbedInt8", func(g *arena) []float32 {
			dst := guard(g, make([]float32, length))
			EmbedInt8(dst, guard(g, row), factor, scale, guard(g, position))
			return dst
		})
	})
}

func FuzzPick(f *testing.F) {
	seeds(f, uint8(70), uint8(50))
	f.Add([]byte{0, 1, 2, 3, 4}, uint8(70), uint8(5))
	f.Add([]byte{0, 1, 2, 3, 4}, uint8(70), uint8(4)) // one beyond
	f.Fuzz(func(t *testing.T, data []byte, n, from uint8) {
		src, places := fuzzFloats(data, int(from)), make([]int32, n)
		beyond := false
		for i := range places {
			places[i] = int32(int8(fuzzByte(data, i, 1)))
			beyond = beyond || places[i] < 0 || int(places[i]) >= len(src)
		}
		agreeEverywhere(t, "Pick", func(g *arena) []float32 {
			dst := guard(g, make([]float32, n))
			if panicked := panics(func() { Pick(dst, guard(g, src), guard(g, places)) }); panicked != beyond {
				t.Fatalf("panics: %v, although a place is beyond the elements: %v", panicked, beyond)
			}
			if beyond {
				clear(dst) // which of them have been picked is not said
			}
			return dst
		})
	})
}

func FuzzChosenMatrix(f *testing.F) {
	seeds(f, uint8(3), uint8(70), uint8(37))
	f.Add([]byte{0x80, 0x7f, 0, 0xff, 0x81}, uint8(5), uint8(200), uint8(100)) // the extremes of both, in all combinations
	f.Add([]byte{1}, uint8(1), uint8(0), uint8(2))                             // rows without elements
	f.Fuzz(func(t *testing.T, data []byte, rows, k, n uint8) {
		const tableRows = 90
		rows %= 20
		weights, a, ids := make([]int8, tableRows*int(k)), make([]uint8, int(rows)*Int8Stride(int(k))), make([]int32, n)
		for i := range weights {
			weights[i] = int8(fuzzByte(data, i, 0))
		}
		for i := range a {
			a[i] = fuzzByte(data, i, 1)
		}
		for i := range ids {
			ids[i] = int32(fuzzByte(data, i, 2)) % tableRows
		}
		table, aScales := PackInt8Rows(tableRows, int(k), weights, fuzzFloats(data, tableRows)), fuzzFloats(data, int(rows))
		agreeEverywhere(t, "Matrix", func(g *arena) []float32 {
			var w Int8Matrix
			table.Matrix(&w, guard(g, ids))
			y := guard(g, make([]float32, int(rows)*int(n)))
			MulInt8(y, int(n), guard(g, a), guard(g, aScales), int(rows), &w, nil, None)
			return y
		})
	})
}
