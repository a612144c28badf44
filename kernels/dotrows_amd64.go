//go:build !purego

package kernels

import (
	"math"
	"unsafe"

	"github.com/sluice-mt/sluice/internal/cpu"
)

func dotRowsInt8(y []float32, a []uint8, aScale float32, c Int8Choice) {
	level := cpu.Integer()
	if level == cpu.Generic || c.table.K == 0 || len(c.table.rows) > math.MaxUint32 {
		dotRowsInt8Generic(y, a, aScale, c)
		return
	}
	perCall := max(choiceGroup, callWork/4/c.table.stride/choiceGroup*choiceGroup)
	for c.n > perCall {
		dotRowsInt8Call(level, y[:perCall], a, aScale, &c)
		y, c = y[perCall:], c.from(perCall)
	}
	dotRowsInt8Call(level, y, a, aScale, &c)
}

// dotRowsInt8Call multiplies as many of the chosen rows as y is long.
//
//go:noinline
func dotRowsInt8Call(level cpu.Level, y []float32, a []uint8, aScale float32, c *Int8Choice) {
	rows, stride, n := &c.table.rows[0], c.table.stride, len(y)
	sums := (*int32)(unsafe.Pointer(&y[0]))
	switch level {
	case cpu.AVX512VNNI:
		dotRowsInt8AVX512(&y[0], &a[0], aScale, rows, stride, &c.ids[0], &c.corrections[0], &c.scales[0], &c.bias[0], n)
	case cpu.AVXVNNI:
		dotsInt8AVXVNNI(sums, &a[0], rows, &c.ids[0], stride, n)
		finishDotsAVX2(&y[0], &c.corrections[0], &c.scales[0], &c.bias[0], n, aScale)
	default:
		dotsInt8AVX2(sums, &a[0], rows, &c.ids[0], stride, n)
		finishDotsAVX2(&y[0], nil, &c.scales[0], &c.bias[0], n, aScale)
	}
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

func dotRowsBFloat16(y, x []float32, t *BFloat16Rows, ids []int32, bias []float32) {
	level := cpu.Active()
	if level == cpu.Generic || t.K == 0 || 2*len(t.rows) > math.MaxUint32 {
		dotRowsBFloat16Generic(y, x, t, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWork/16/t.K&^15))
		dotRowsBFloat16Call(level, y, x, t, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsBFloat16Call(level cpu.Level, y, x []float32, t *BFloat16Rows, ids []int32, bias []float32) {
	if level == cpu.AVX2 {
		dotsBFloat16AVX2(&y[0], &x[0], &t.rows[0], &ids[0], 2*t.stride, len(ids), t.K)
		for i, id := range ids {
			y[i] += biasAt(bias, int(id))
		}
		return
	}
	dotRowsBFloat16AVX512(&y[0], &x[0], &t.rows[0], 2*t.stride, &ids[0], len(ids), t.K, element(bias, 0))
}
