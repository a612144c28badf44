package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The benchmarks use the shapes of a student with d = 256, ffn = 1536, a vocabulary of 32,000 and heads of 32.

// best runs op for the time of the benchmark and returns the seconds of its fastest run. (On a machine that others use
// too, the fastest of many short runs is what the kernel can do.) Short operations are timed in batches, which last as long as the bursts of a
// ceiling: reading the clock takes the same share of both.
func best(b *testing.B, op func()) float64 {
	batch, fastest := 1, time.Duration(math.MaxInt64)
	for b.Loop() {
		begin := time.Now()
		for range batch {
			op()
		}
		took := time.Since(begin)
		if took < 20*time.Microsecond {
			batch *= 2
			fastest = math.MaxInt64
			continue
		}
		fastest = min(fastest, took)
	}
	return fastest.Seconds() / float64(batch)
}

// reportMACs reports int8 multiply-accumulates per second, and how many percent of the int8 ceiling they are.
func reportMACs(b *testing.B, macs int, op func()) { reportBeside(b, Int8Peak, macs, op) }

// reportBeside reports multiply-accumulates per second, and how many percent of a ceiling they are. The ceiling is measured beside each
// benchmark, since clocks wander.
func reportBeside(b *testing.B, ceiling func(time.Duration) float64, macs int, op func()) {
	seconds := best(b, op)
	rate := float64(macs) / seconds
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(seconds*1e9, "best-ns")
	b.ReportMetric(rate/1e9, "GMAC/s")
	b.ReportMetric(100*rate/ceiling(10*time.Millisecond), "%peak")
}

// The shapes are those of tiny, small, base and big models. The weights are spread as in the demo model's feed-forward layers, which matters
// where there is no VNNI: see int8Chains. Matrices that are longer than wide stand for the second ones of feed-forward sublayers, after a ReLU.
func BenchmarkMulInt8(b *testing.B) {
	for _, shape := range [][2]int{
		{256, 256}, {256, 1536}, {1536, 256}, {384, 384}, {384, 1536}, {1536, 384}, {512, 512}, {512, 2048}, {2048, 512}, {1024, 1024}, {1024, 4096}, {4096, 1024},
		{256, 32000},
	} {
		for _, rows := range []int{1, 2, 4, 8, 16, 32, 64, 256} {
			k, n := shape[0], shape[1]
			if n == 32000 && rows > 32 {
				continue
			}
			b.Run(fmt.Sprintf("%dx%d/rows=%d", k, n, rows), func(b *testing.B) {
				r := source(1)
				w, a := benchInt8(r, k, n, rows)
				Tuning{}.Tune(150*time.Millisecond, w)
				aScales, bias, y := normals(r, rows), normals(r, n), make([]float32, rows*apart(n))
				reportMACs(b, rows*k*n, func() { MulInt8(y, apart(n), a, aScales, rows, w, bias, Rectified) })
				if rows == 1 {
					reportRead(b, func() []int8 { return *w.weights() })
				}
			})
		}
	}
}

// apart is how many elements it is from row to row of a result, as package cpumodel has it: rows of a wide one that were a multiple of many cache
// lines apart would push each other out of the first-level cache.
func apart(n int) int {
	if n >= 256 && n%128 == 0 {
		return n + 16
	}
	return n
}

// benchInt8 returns a matrix and activations for it.
func benchInt8(r *rand.Rand, k, n, rows int) (w *Int8Matrix, a []uint8) {
	weights, scales := trained(r, k*n, 32), normals(r, n)
	a = uint8s(r, rows*Int8Stride(k))
	if k > n {
		return PackInt8Rectified(k, n, weights, scales), atLeastZero(a)
	}
	return PackInt8(k, n, weights, scales), a
}

// BenchmarkMulInt8Zeros multiplies activations of which some share is something, with lists of them and without. GMAC/s counts zeros.
func BenchmarkMulInt8Zeros(b *testing.B) {
	for _, shape := range [][2]int{{1536, 256}, {2048, 512}, {4096, 1024}} {
		for _, rows := range []int{1, 4, 48} {
			for _, share := range []int{100, 150, 200, 300, 400} {
				for _, way := range []struct {
					name  string
					share nonzeroShare
				}{{"lists", 1000}, {"all", -1}} {
					k, n := shape[0], shape[1]
					b.Run(fmt.Sprintf("%dx%d/rows=%d/something=%d/%s", k, n, rows, share, way.name), func(b *testing.B) {
						r := source(1)
						w := PackInt8Rectified(k, n, trained(r, k*n, 32), normals(r, n))
						if w.sparse == nil {
							b.Skip("this kind of processor has no lists")
						}
						a, aScales, y := thinned(r, rows*k, share), normals(r, rows), make([]float32, rows*n)
						*w.listed() = way.share
						if rows <= fewRows && way.share < 0 {
							w.sparse = nil
						}
						reportMACs(b, rows*k*n, func() { MulInt8(y, n, a, aScales, rows, w, nil, None) })
					})
				}
			}
		}
	}
}

// BenchmarkMulInt8FromMemory multiplies with matrices of base and big models in turn, 256 MiB of them, which no cache holds together.
func BenchmarkMulInt8FromMemory(b *testing.B) {
	for _, shape := range [][2]int{{512, 512}, {512, 2048}, {2048, 512}, {1024, 1024}, {1024, 4096}, {4096, 1024}} {
		b.Run(fmt.Sprintf("%dx%d", shape[0], shape[1]), func(b *testing.B) { benchFromMemory(b, shape[0], shape[1]) })
	}
}

func benchFromMemory(b *testing.B, k, n int) {
	const all = 256 << 20
	r := source(1)
	weights, scales := trained(r, k*n, 32), normals(r, n)
	var matrices []Matrix
	for range all / (k * n) {
		matrices = append(matrices, PackInt8(k, n, weights, scales))
	}
	Together(matrices...)
	turn := 0 // from one number of rows to the next: what comes first then is what was used longest ago
	for _, rows := range []int{1, 16, 32, 64} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			a, aScales, y := uint8s(r, rows*Int8Stride(k)), normals(r, rows), make([]float32, rows*apart(n))
			next := func() *Int8Matrix {
				turn = (turn + 1) % len(matrices)
				return matrices[turn].(*Int8Matrix)
			}
			reportMACs(b, rows*k*n, func() { MulInt8(y, apart(n), a, aScales, rows, next(), nil, None) })
			if rows == 1 {
				reportRead(b, func() []int8 { return *next().weights() })
			}
		})
	}
}

// reportRead reports how many GB a core reads in a second where the weights of a product are: what bounds the product with a single row.
func reportRead(b *testing.B, next func() []int8) {
	fastest := math.Inf(1) // seconds for a byte
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
		begin, bytes := time.Now(), 0
		for bytes < 1<<20 {
			weights := next()
			read(weights)
			bytes += len(weights)
		}
		fastest = min(fastest, time.Since(begin).Seconds()/float64(bytes))
	}
	b.ReportMetric(1e-9/fastest, "GB/s-read")
}

func BenchmarkMulFloat32(b *testing.B) {
	for _, shape := range [][2]int{{256, 256}, {256, 1536}, {1536, 256}, {512, 512}} {
		for _, rows := range []int{1, 4, 16, 64, 512} {
			k, n := shape[0], shape[1]
			b.Run(fmt.Sprintf("%dx%d/rows=%d", k, n, rows), func(b *testing.B) {
				r := source(1)
				w, x, bias, y := PackFloat32(k, n, normals(r, k*n)), normals(r, rows*k), normals(r, n), make([]float32, rows*n)
				reportBeside(b, Float32Peak, rows*k*n, func() { MulFloat32(y, n, x, k, rows, w, bias, None) })
			})
		}
	}
}

// BenchmarkMulBFloat16 multiplies as the engine does, with the rounding of the activations.
func BenchmarkMulBFloat16(b *testing.B) {
	for _, shape := range [][2]int{{256, 256}, {256, 1536}, {1536, 256}, {512, 512}} {
		for _, rows := range []int{1, 4, 16, 64, 512} {
			k, n := shape[0], shape[1]
			b.Run(fmt.Sprintf("%dx%d/rows=%d", k, n, rows), func(b *testing.B) {
				r := source(1)
				w, x, halves, bias, y := new(BFloat16Matrix), normals(r, rows*k), make([]uint16, rows*k), normals(r, n), make([]float32, rows*n)
				w.Pack(k, n, normals(r, k*n), n)
				reportBeside(b, BFloat16Peak, rows*k*n, func() {
					ToBFloat16(halves, x, k, rows, k)
					MulBFloat16(y, n, halves, rows, w, bias, None)
				})
			})
		}
	}
}

// BenchmarkQuantised multiplies as a feed-forward sublayer does, with the result of the first product rounded to bytes after it, in it, and not at all:
// what the last is faster than the first is the most that rounding in a product can be worth.
func BenchmarkQuantised(b *testing.B) {
	const k, n, rows, stride, multiplier = 256, 1536, 96, 1536 + 16, 0.01
	r := source(1)
	first, second := PackInt8(k, n, trained(r, k*n, 32), normals(r, n)), PackInt8(n, k, trained(r, k*n, 32), normals(r, k))
	a, scales, bias := uint8s(r, rows*k), normals(r, rows), normals(r, n)
	hidden, bytes, y := make([]float32, rows*stride), make([]uint8, rows*n), make([]float32, rows*k)
	b.Run("after", func(b *testing.B) {
		reportMACs(b, 2*rows*k*n, func() {
			MulInt8(hidden, stride, a, scales, rows, first, bias, Rectified)
			for i := range rows {
				QuantizeRowsFixed(bytes[i*n:], hidden[i*stride:], 1, n, multiplier)
			}
			MulInt8(y, k, bytes, scales, rows, second, nil, None)
		})
	})
	b.Run("in", func(b *testing.B) {
		reportMACs(b, 2*rows*k*n, func() {
			MulInt8Quantised(bytes, multiplier, hidden, a, scales, rows, first, bias, Rectified)
			MulInt8(y, k, bytes, scales, rows, second, nil, None)
		})
	})
	b.Run("never", func(b *testing.B) {
		reportMACs(b, 2*rows*k*n, func() {
			MulInt8(hidden, stride, a, scales, rows, first, bias, Rectified)
			MulInt8(y, k, bytes, scales, rows, second, nil, None)
		})
	})
}

// BenchmarkResidual multiplies as the last step of a sublayer does and makes a norm's bytes of the result, with the residual and without: the
// difference is the most that adding the residual in the product can be worth.
func BenchmarkResidual(b *testing.B) {
	const n, rows = 256, 96
	for _, k := range []int{256, 1536} {
		r := source(1)
		w, a := benchInt8(r, k, n, rows)
		Tuning{}.Tune(150*time.Millisecond, w)
		scales, bias, x, y := normals(r, rows), normals(r, n), normals(r, rows*n), make([]float32, rows*n)
		bytes, byteScales := make([]uint8, rows*n), make([]float32, rows)
		for _, way := range []struct {
			name     string
			residual []float32
		}{{"with", x}, {"without", nil}} {
			b.Run(fmt.Sprintf("%dx%d/%s", k, n, way.name), func(b *testing.B) {
				reportMACs(b, rows*k*n, func() {
					MulInt8(y, n, a, scales, rows, w, bias, None)
					LayerNormQuantised(bytes, byteScales, y, y, way.residual, bias, bias, rows, n, 1e-6)
				})
			})
		}
	}
}

func BenchmarkDotRows(b *testing.B) {
	const n, k = 32000, 256
	r := source(1)
	weights, floats := int8s(r, n*k), normals(r, n*k)
	table := PackInt8Rows(n, k, weights, normals(r, n))
	a, x, bias, halves := uint8s(r, k), normals(r, k), normals(r, n), PackBFloat16Rows(n, k, floats)
	for _, chosen := range []int{100, 400, 2000} {
		ids, y := make([]int32, chosen), make([]float32, chosen)
		for i := range ids {
			ids[i] = int32(r.IntN(n))
		}
		b.Run(fmt.Sprintf("int8/%d", chosen), func(b *testing.B) {
			choice := choose(table, ids, bias)
			reportMACs(b, chosen*k, func() { DotRowsInt8(y, a, 0.1, choice) })
		})
		b.Run(fmt.Sprintf("bfloat16/%d", chosen), func(b *testing.B) {
			reportBeside(b, Float32Peak, chosen*k, func() { DotRowsBFloat16(y, x, halves, ids, bias) })
		})
		b.Run(fmt.Sprintf("float32/%d", chosen), func(b *testing.B) {
			reportBeside(b, Float32Peak, chosen*k, func() { DotRowsFloat32(y, x, floats, k, ids, bias) })
		})
	}
}

func BenchmarkAttention(b *testing.B) {
	s := Attention{Heads: 8, HeadDim: 32, Scale: 0.17, QStride: 256, KStride: 256, VStride: 256, OutStride: 256}
	r := source(1)
	for _, nk := range []int{5, 10, 20, 30, 60} {
		q, k, v, out, scratch := normals(r, nk*256), normals(r, nk*256), normals(r, nk*256), make([]float32, nk*256), make([]float32, s.ScratchLen(nk))
		for _, nq := range []int{1, nk} {
			b.Run(fmt.Sprintf("queries=%d/keys=%d", nq, nk), func(b *testing.B) {
				reportBeside(b, Float32Peak, 2*nq*nk*256, func() { s.Run(out, q, k, v, nq, nk, scratch) })
			})
		}
		for _, name := range []string{"kept", "kept-bfloat16"} {
			s := s
			s.KeepBFloat16 = name != "kept"
			kept := make([]float32, s.KeptLen(nk))
			s.Keep(kept, k, v, nk, scratch)
			b.Run(fmt.Sprintf("%s/keys=%d", name, nk), func(b *testing.B) {
				reportBeside(b, Float32Peak, 2*nk*256, func() { s.RunKept(out, q, kept, nk, scratch) })
			})
		}
		rows := make([]int32, nk)
		for i := range rows {
			rows[i] = int32(r.IntN(nk))
		}
		b.Run(fmt.Sprintf("rows/keys=%d", nk), func(b *testing.B) {
			reportBeside(b, Float32Peak, 2*nk*256, func() { s.RunRows(out, q, k, v, rows, scratch) })
		})
	}
}

func BenchmarkRows(b *testing.B) {
	const rows, d, ffn, vocabulary = 64, 256, 1536, 32000
	r := source(1)
	x, y, z, w := normals(r, rows*ffn), normals(r, rows*ffn), normals(r, rows*ffn), normals(r, rows*ffn)
	bytes, scales := make([]uint8, rows*ffn), make([]float32, rows)
	logits := normals(r, vocabulary)
	for _, c := range []struct {
		name string
		n    int
		run  func()
	}{
		{"QuantizeRows/256", rows * d, func() { QuantizeRows(bytes, scales, x, rows, d) }},
		{"QuantizeRows/1536", rows * ffn, func() { QuantizeRows(bytes, scales, x, rows, ffn) }},
		{"QuantizeRowsFixed/256", rows * d, func() { QuantizeRowsFixed(bytes, x, rows, d, 20) }},
		{"LayerNorm", rows * d, func() { LayerNorm(y, x, z, w, w, rows, d, 1e-6) }},
		{"LayerNorm, then QuantizeRows", rows * d, func() { LayerNorm(y, x, z, w, w, rows, d, 1e-6); QuantizeRows(bytes, scales, y, rows, d) }},
		{"LayerNormQuantised", rows * d, func() { LayerNormQuantised(bytes, scales, y, x, z, w, w, rows, d, 1e-6) }},
		{"LayerNormQuantised/no residual", rows * d, func() { LayerNormQuantised(bytes, scales, y, x, nil, w, w, rows, d, 1e-6) }},
		{"RMSNorm", rows * d, func() { RMSNorm(y, x, z, w, rows, d, 1e-6) }},
		{"Softmax/32", rows * d, func() { Softmax(y, rows*d/32, 32, 32) }},
		{"Softmax/32000", vocabulary, func() { Softmax(logits, 1, vocabulary, vocabulary) }},
		{"LogSoftmax/32000", vocabulary, func() { LogSoftmax(logits) }},
		{"ArgMax/32000", vocabulary, func() { ArgMax(logits) }},
		{"AbsMax/256", d, func() { AbsMax(x[:d]) }},
		{"Add", rows * d, func() { Add(y[:rows*d], x, z) }},
		{"ReLU", rows * ffn, func() { ReLU(y) }},
		{"Sigmoid", rows * d, func() { Sigmoid(y[:rows*d]) }},
		{"Tanh", rows * d, func() { Tanh(y[:rows*d]) }},
		{"Swish", rows * d, func() { Swish(y[:rows*d]) }},
		{"GELU", rows * d, func() { GELU(y[:rows*d]) }},
		{"SSRU", rows * d, func() { SSRU(y[:rows*d], z, w, x) }},
		{"Highway", rows * d, func() { Highway(y[:rows*d], z, w, x) }},
		{"Embed/256", d, func() { Embed(y[:d], x, 16, z) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			seconds := best(b, c.run)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(seconds*1e9/float64(c.n), "best-ns/element")
		})
	}
}
