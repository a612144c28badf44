//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

func dotRowsInt8(y []float32, a []uint8, aScale float32, t *Int8Rows, ids []int32, bias []float32) {
	level := cpu.Integer()
	if level == cpu.Generic || t.K == 0 || len(t.rows) > math.MaxUint32 {
		dotRowsInt8Generic(y, a, aScale, t, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWork/4/t.stride&^15))
		dotRowsInt8Call(level, y, a, aScale, t, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsInt8Call(level cpu.Level, y []float32, a []uint8, aScale float32, t *Int8Rows, ids []int32, bias []float32) {
	if level != cpu.AVX512VNNI {
		sums := unsafe.Slice((*int32)(unsafe.Pointer(&y[0])), len(ids))
		if level != cpu.AVXVNNI {
			dotsInt8AVX2(&sums[0], &a[0], &t.rows[0], &ids[0], t.stride, len(ids))
			for i, id := range ids {
				y[i] = float32(float32(sums[i])*float32(aScale*t.scales[id])) + biasAt(bias, int(id))
			}
			return
		}
		dotsInt8AVXVNNI(&sums[0], &a[0], &t.rows[0], &ids[0], t.stride, len(ids))
		for i, id := range ids {
			y[i] = float32(float32(sums[i]+t.corrections[id])*float32(aScale*t.scales[id])) + biasAt(bias, int(id))
		}
		return
	}
	dotRowsInt8AVX512(&y[0], &a[0], aScale, &t.rows[0], t.stride, &t.corrections[0], &t.scales[0], &ids[0], len(ids), element(bias, 0))
}

func dotRowsFloat32(y, x, table []float32, k int, ids []int32, bias []float32) {
	level := cpu.Active()
	if level == cpu.Generic || k == 0 || 4*len(table) > math.MaxUint32 {
		dotRowsFloat32Generic(y, x, table, k, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWork/16/k&^15))
		dotRowsFloat32Call(level, y, x, table, k, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsFloat32Call(level cpu.Level, y, x, table []float32, k int, ids []int32, bias []float32) {
	if level == cpu.AVX2 {
		dotsFloat32AVX2(&y[0], &x[0], &table[0], &ids[0], 4*k, len(ids), k)
		for i, id := range ids {
			y[i] += biasAt(bias, int(id))
		}
		return
	}
	dotRowsFloat32AVX512(&y[0], &x[0], &table[0], 4*k, &ids[0], len(ids), element(bias, 0))
}
