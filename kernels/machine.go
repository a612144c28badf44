package kernels

import (
	"time"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// Implementations names the implementation in use for each kind of kernel, for example "int8: AVX-512 VNNI".
func Implementations() []string {
	return []string{"int8: " + cpu.Integer().String(), "float32: " + cpu.Active().String()}
}

// Int8Peak measures for about the time d how many int8 multiply-accumulates per second one core can do at most: the best
// instruction that the CPU has for it, on registers alone. Products are measured against it.
func Int8Peak(d time.Duration) float64 { return peak(d, int8Burst) }

// Int16Peak is the same for products of MulInt16. Where there is no such loop it is what a product reaches on the first-level cache.
func Int16Peak(d time.Duration) float64 { return peak(d, int16Burst) }

// Float32Peak is the same for float32. Where there is no such loop it is what a product reaches on the first-level cache.
func Float32Peak(d time.Duration) float64 { return peak(d, float32Burst) }

// BFloat16Peak is the same for products of MulBFloat16: with VDPBF16PS where they use it, else what float32 does, to which they widen.
// Where there is no such loop it is what a product reaches on the first-level cache.
func BFloat16Peak(d time.Duration) float64 { return peak(d, bfloat16Burst) }

// peak measures a burst of about so many multiply-accumulates, which returns how many it has done.
func peak(d time.Duration, burst func(n int) int) float64 {
	const fewest = 20 // bursts: one that other processes interrupted says nothing
	size, best, measured := 1<<16, 0.0, 0
	for start := time.Now(); measured < fewest || time.Since(start) < d; {
		begin := time.Now()
		done := burst(size)
		took := time.Since(begin)
		if took < 20*time.Microsecond {
			size *= 2 // long enough to be measured, short enough not to be interrupted
			continue
		}
		best = max(best, float64(done)/took.Seconds())
		measured++
	}
	return best
}

// float32BurstProduct does about n multiply-accumulates as products of a small matrix.
func float32BurstProduct(n int) int {
	const rows, k, columns = 12, 64, 64
	w, x, y := PackFloat32(k, columns, make([]float32, k*columns)), make([]float32, rows*k), make([]float32, rows*columns)
	done := 0
	for ; done < n; done += rows * k * columns {
		MulFloat32(y, columns, x, k, rows, w, nil, None)
	}
	return done
}

// int16BurstProduct is the same for words.
func int16BurstProduct(n int) int {
	const rows, k, columns = 12, 64, 64
	w, a, y := PackInt16(k, columns, make([]int16, k*columns), make([]float32, columns)), make([]int16, rows*Int16Stride(k)), make([]float32, rows*columns)
	scales, done := make([]float32, rows), 0
	for ; done < n; done += rows * k * columns {
		MulInt16(y, columns, a, scales, rows, w, nil, None)
	}
	return done
}

// bfloat16BurstProduct is the same for bfloat16.
func bfloat16BurstProduct(n int) int {
	const rows, k, columns = 12, 64, 64
	var w BFloat16Matrix
	w.Pack(k, columns, make([]float32, k*columns), columns)
	x, y, done := make([]uint16, rows*k), make([]float32, rows*columns), 0
	for ; done < n; done += rows * k * columns {
		MulBFloat16(y, columns, x, rows, &w, nil, None)
	}
	return done
}
