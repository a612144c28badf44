package kernels

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/cpu"
	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

func TestPeaksBoundTheProducts(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		const rows, k, n = 32, 256, 256
		r := source(1)
		a, words, x, aScales, y := uint8s(r, rows*k), int16s(r, rows*k, 1000), normals(r, rows*k), normals(r, rows), make([]float32, rows*n)
		eight, sixteen, float := PackInt8(k, n, int8s(r, k*n), normals(r, n)), PackInt16(k, n, int16s(r, k*n, 1000), normals(r, n)), PackFloat32(k, n, normals(r, k*n))
		half, halves := new(BFloat16Matrix), make([]uint16, rows*k)
		half.Pack(k, n, normals(r, k*n), n)
		ToBFloat16(halves, x, k, rows, k)
		for _, c := range []struct {
			name     string
			peak     func(time.Duration) float64
			multiply func()
		}{
			{"int8", Int8Peak, func() { MulInt8(y, n, a, aScales, rows, eight, nil, None) }},
			{"int16", Int16Peak, func() { MulInt16(y, n, words, aScales, rows, sixteen, nil, None) }},
			{"bfloat16", BFloat16Peak, func() { MulBFloat16(y, n, halves, rows, half, nil, None) }},
			{"float32", Float32Peak, func() { MulFloat32(y, n, x, k, rows, float, nil, None) }},
		} {
			best := 0.0
			for range 20 {
				begin := time.Now()
				c.multiply()
				best = max(best, rows*k*n/time.Since(begin).Seconds())
			}
			peak := c.peak(5 * time.Millisecond)
			if !(best <= 3*peak) { // the clock may have changed in between, and others may use the machine
				t.Errorf("a product in %s reaches %.3g multiply-accumulates a second, the ceiling was measured as %.3g", c.name, best, peak)
			}
			if peak > 50*best { // without VNNI, the ceiling of int8 is that of weights that are seldom so small
				t.Errorf("a product in %s reaches only %.3g multiply-accumulates a second of %.3g", c.name, best, peak)
			}
			if peak < 1e6 {
				t.Errorf("the ceiling in %s was measured as %.3g multiply-accumulates a second", c.name, peak)
			}
		}
	})
}

func TestImplementationsFollowTheLevel(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		names := strings.Join(Implementations(), "; ")
		want := map[cpu.Level]string{
			cpu.Generic:    "int8: generic; float32: generic",
			cpu.AVX2:       "int8: AVX2; float32: AVX2",
			cpu.AVXVNNI:    "int8: AVX-VNNI; float32: AVX2",
			cpu.AVX512:     "int8: AVX-512; float32: AVX-512",
			cpu.AVX512VNNI: "int8: AVX-512 VNNI; float32: AVX-512",
			cpu.NEON:       "int8: NEON; float32: NEON",
			cpu.SDOT:       "int8: SDOT; float32: NEON",
			cpu.SMMLA:      "int8: SMMLA; float32: NEON",
		}[cpu.Integer()]
		if names != want {
			t.Errorf("implementations are %q, want %q", names, want)
		}
	})
}

// A slice that is too short must stop a kernel before it touches memory that is not its own.
func TestShortSlicesPanic(t *testing.T) {
	r := source(1)
	x := normals(r, 1000)
	a, w, wf := uint8s(r, 1000), PackInt8(64, 10, int8s(r, 640), normals(r, 10)), PackFloat32(64, 10, normals(r, 640))
	table, ids := PackInt8Rows(10, 64, int8s(r, 640), normals(r, 10)), []int32{1, 9}
	s := Attention{Heads: 2, HeadDim: 8, Scale: 1, QStride: 16, KStride: 16, VStride: 16, OutStride: 16}
	for name, kernel := range map[string]func(){
		"MulInt8 y":                 func() { MulInt8(x[:19], 10, a, x, 2, w, nil, None) },
		"MulInt8 a":                 func() { MulInt8(x, 10, a[:127], x, 2, w, nil, None) },
		"MulInt8 scales":            func() { MulInt8(x, 10, a, x[:1], 2, w, nil, None) },
		"MulInt8 bias":              func() { MulInt8(x, 10, a, x, 2, w, x[:9], None) },
		"MulInt8 rows":              func() { MulInt8(x, 10, a, x, -1, w, nil, None) },
		"MulInt8 stride":            func() { MulInt8(x, 9, a, x, 2, w, nil, None) },
		"MulInt8Quantised dst":      func() { MulInt8Quantised(a[:127], 1, x, a[:128], x, 2, w, nil, None) },
		"MulInt8Quantised y":        func() { MulInt8Quantised(a, 1, x[:19], a[:128], x, 2, w, nil, None) },
		"MulInt8Quantised a":        func() { MulInt8Quantised(a, 1, x, a[:127], x, 2, w, nil, None) },
		"MulInt8Quantised scales":   func() { MulInt8Quantised(a, 1, x, a, x[:1], 2, w, nil, None) },
		"MulInt8Quantised bias":     func() { MulInt8Quantised(a, 1, x, a, x, 2, w, x[:9], None) },
		"MulFloat32 y":              func() { MulFloat32(x[:19], 10, x, 64, 2, wf, nil, None) },
		"MulFloat32 x":              func() { MulFloat32(x, 10, x[:127], 64, 2, wf, nil, None) },
		"QuantizeRows dst":          func() { QuantizeRows(a[:127], x, x, 2, 10) },
		"QuantizeRows scales":       func() { QuantizeRows(a, x[:1], x, 2, 10) },
		"QuantizeRows x":            func() { QuantizeRows(a, x, x[:19], 2, 10) },
		"DotRowsInt8 y":             func() { DotRowsInt8(x[:1], a, 1, choose(table, ids, nil)) },
		"DotRowsInt8 a":             func() { DotRowsInt8(x, a[:63], 1, choose(table, ids, nil)) },
		"MulRowsInt8 y":             func() { MulRowsInt8(x[:11], 10, a, x, 2, choose(table, ids, nil)) },
		"MulRowsInt8 a":             func() { MulRowsInt8(x, 10, a[:127], x, 2, choose(table, ids, nil)) },
		"MulRowsInt8 scales":        func() { MulRowsInt8(x, 10, a, x[:1], 2, choose(table, ids, nil)) },
		"Choose id":                 func() { table.Choose(&Int8Choice{}, []int32{10}, nil) },
		"Choose -id":                func() { table.Choose(&Int8Choice{}, []int32{-1}, nil) },
		"Choose most id":            func() { table.Choose(&Int8Choice{}, []int32{0, math.MaxInt32}, nil) },
		"Choose least id":           func() { table.Choose(&Int8Choice{}, []int32{math.MinInt32, 0}, nil) },
		"Choose bias":               func() { table.Choose(&Int8Choice{}, ids, x[:9]) },
		"DotRowsFloat32 id":         func() { DotRowsFloat32(x, x, x[:640], 64, []int32{10}, nil) },
		"LayerNorm dst":             func() { LayerNorm(x[:19], x, nil, x, nil, 2, 10, 0) },
		"LayerNorm scale":           func() { LayerNorm(x, x, nil, x[:9], nil, 2, 10, 0) },
		"LayerNormQuantised bytes":  func() { LayerNormQuantised(make([]uint8, 127), x, x, x, nil, x, nil, 2, 10, 0) },
		"LayerNormQuantised scales": func() { LayerNormQuantised(make([]uint8, 128), x[:1], x, x, nil, x, nil, 2, 10, 0) },
		"RMSNormQuantised bytes":    func() { RMSNormQuantised(make([]uint8, 127), x, x, x, nil, x, 2, 10, 0) },
		"RMSNormQuantised scales":   func() { RMSNormQuantised(make([]uint8, 128), x[:1], x, x, nil, x, 2, 10, 0) },
		"LayerNorm residual":        func() { LayerNorm(x, x, x[:19], x, nil, 2, 10, 0) },
		"Softmax":                   func() { Softmax(x[:19], 2, 10, 10) },
		"Add":                       func() { Add(x, x[:999], x) },
		"SSRU":                      func() { SSRU(x, x, x, x[:999]) },
		"Attention out":             func() { s.Run(x[:31], x, x, x, 2, 3, x) },
		"Attention q":               func() { s.Run(x, x[:31], x, x, 2, 3, x) },
		"Attention k":               func() { s.Run(x, x, x[:47], x, 2, 3, x) },
		"Attention v":               func() { s.Run(x, x, x, x[:47], 2, 3, x) },
		"Attention scratch":         func() { s.Run(x, x, x, x, 2, 3, x[:s.ScratchLen(3)-1]) },
		"Attention row":             func() { s.RunRows(x, x, x[:48], x, []int32{3}, x) },
		"Attention head":            func() { s.Weights(x, x, x, 3, 2) },
		"PackInt8 k":                func() { PackInt8(MaxInt8K+1, 1, make([]int8, MaxInt8K+1), x) },
		"PackInt8 scales":           func() { PackInt8(10, 10, make([]int8, 100), x[:9]) },
		"PackFloat32 weights":       func() { PackFloat32(10, 10, x[:99]) },
		"PackInt8Rows weights":      func() { PackInt8Rows(10, 10, make([]int8, 99), x) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s too short or out of range: no panic", name)
				}
			}()
			kernel()
		}()
	}
}

// Without VNNI fewer columns are worth a product with all rows; there are never so few that a row would have one for itself.
func TestLeastSharing(t *testing.T) {
	cputest.Each(t, func(t *testing.T) {
		half := cpu.Integer() == cpu.AVX2 || cpu.Integer() == cpu.AVX512
		for _, c := range []struct{ rows, words, products int }{{2, 2, 2}, {6, 3, 2}, {16, 8, 4}, {48, 24, 12}} {
			want := c.products
			if half {
				want = c.words
			}
			if got := LeastSharing(c.rows); got != want {
				t.Errorf("%d of %d rows must share a column, want %d", got, c.rows, want)
			}
		}
	})
}
