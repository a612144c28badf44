package kernels

import (
	"runtime"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/cpu/cputest"
)

// Assembly cannot be interrupted, so a loop that does nothing but call it would make the garbage collector wait for as
// long as it happens to be between two calls when asked (seconds, without a function prologue on the way).
func TestGarbageCollectorNeedNotWait(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("needs two processors")
	}
	cputest.Each(t, func(t *testing.T) {
		r := source(1)
		const rows, k, n = 64, 256, 1024
		a, aScales, y := uint8s(r, rows*k), normals(r, rows), make([]float32, rows*n)
		w, listed, zeros := PackInt8(k, n, int8s(r, k*n), normals(r, n)), PackInt8Rectified(k, n, int8s(r, k*n), normals(r, n)), thinned(r, rows*k, 100)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
				}
				for range 50 {
					MulInt8(y, n, a, aScales, rows, w, nil, None)
					MulInt8(y, n, zeros, aScales, rows, listed, nil, None)
				}
			}
		}()
		begin := time.Now()
		for range 10 {
			runtime.GC()
		}
		took := time.Since(begin)
		close(stop)
		<-stopped
		if took > 5*time.Second {
			t.Errorf("10 collections beside a running kernel took %v", took)
		}
		t.Logf("10 collections took %v", took)
	})
}
