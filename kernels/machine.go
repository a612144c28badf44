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
func Int8Peak(d time.Duration) float64 {
	burst, best := 1<<16, 0.0
	for start := time.Now(); best == 0 || time.Since(start) < d; {
		begin := time.Now()
		done := int8Burst(burst)
		took := time.Since(begin)
		if took < 20*time.Microsecond {
			burst *= 2 // long enough to be measured, short enough not to be interrupted
			continue
		}
		best = max(best, float64(done)/took.Seconds())
	}
	return best
}
