//go:build !purego

package kernels

import "github.com/sluice-mt/sluice/internal/cpu"

func quantizeRows(dst []uint8, scales []float32, x []float32, rows, k int) {
	level := cpu.Active()
	if level == cpu.Generic || k == 0 {
		quantizeRowsGeneric(dst, scales, x, rows, k)
		return
	}
	for stride := Int8Stride(k); rows > 0; {
		n := evenPart(rows, max(1, callElements/k))
		quantizeRowsCall(level, dst, stride, scales, x, n, k)
		dst, scales, x, rows = dst[n*stride:], scales[n:], x[n*k:], rows-n
	}
}

//go:noinline
func quantizeRowsCall(level cpu.Level, dst []uint8, stride int, scales, x []float32, rows, k int) {
	if level == cpu.AVX2 {
		quantizeRowsAVX2(&dst[0], stride, &scales[0], &x[0], rows, k)
		return
	}
	quantizeRowsAVX512(&dst[0], stride, &scales[0], &x[0], rows, k)
}

func quantizeRowsFixed(dst []uint8, x []float32, rows, k int, multiplier float32) {
	level := cpu.Active()
	if level == cpu.Generic || k == 0 {
		quantizeRowsFixedGeneric(dst, x, rows, k, multiplier)
		return
	}
	for stride := Int8Stride(k); rows > 0; {
		n := evenPart(rows, max(1, callElements/k))
		quantizeRowsFixedCall(level, dst, stride, x, n, k, multiplier)
		dst, x, rows = dst[n*stride:], x[n*k:], rows-n
	}
}

//go:noinline
func quantizeRowsFixedCall(level cpu.Level, dst []uint8, stride int, x []float32, rows, k int, multiplier float32) {
	if level == cpu.AVX2 {
		quantizeRowsFixedAVX2(&dst[0], stride, &x[0], rows, k, multiplier)
		return
	}
	quantizeRowsFixedAVX512(&dst[0], stride, &x[0], rows, k, multiplier)
}
