//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

func dotRowsInt8(y []float32, a []uint8, aScale float32, t *Int8Rows, ids []int32, bias []float32) {
	if cpu.Active() < cpu.AVX512 || t.K == 0 {
		dotRowsInt8Generic(y, a, aScale, t, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWork/4/t.stride&^15))
		dotRowsInt8Call(y, a, aScale, t, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsInt8Call(y []float32, a []uint8, aScale float32, t *Int8Rows, ids []int32, bias []float32) {
	dotRowsInt8AVX512(&y[0], &a[0], aScale, &t.rows[0], t.stride, &t.corrections[0], &t.scales[0], &ids[0], len(ids), element(bias, 0))
}

func dotRowsFloat32(y, x, table []float32, k int, ids []int32, bias []float32) {
	if cpu.Active() < cpu.AVX512 || k == 0 {
		dotRowsFloat32Generic(y, x, table, k, ids, bias)
		return
	}
	for len(ids) > 0 {
		n := min(len(ids), max(16, callWork/16/k&^15))
		dotRowsFloat32Call(y, x, table, k, ids[:n], bias)
		y, ids = y[n:], ids[n:]
	}
}

//go:noinline
func dotRowsFloat32Call(y, x, table []float32, k int, ids []int32, bias []float32) {
	dotRowsFloat32AVX512(&y[0], &x[0], &table[0], 4*k, &ids[0], len(ids), element(bias, 0))
}
