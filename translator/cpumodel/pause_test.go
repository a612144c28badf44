package cpumodel

import (
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/search"
)

// The garbage collector has to stop all threads for a moment. While the engine encodes and decodes, it must not wait for long: the
// assembly, which it cannot stop, is called for at most some 100 µs at a time.
func TestTheGarbageCollectorStopsTheEngineQuickly(t *testing.T) {
	stepper := benchStepper(t, 57)
	checkStops(t, func(stop <-chan struct{}) { work(stepper, stop) })
}

// Nor must it wait for products of single rows, which take as long as the weights take to be read from memory.
func TestTheGarbageCollectorStopsSingleRowsQuickly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 128 MiB for each kind of weights")
	}
	const k, n = 4096, 8192
	x, y, scale, scales := make([]float32, k), make([]float32, n), []float32{1}, make([]float32, n)
	for name, pack := range map[string]func() (multiply func()){
		"int8": func() func() {
			w, a := kernels.PackInt8(k, n, make([]int8, k*n), scales), make([]uint8, kernels.Int8Stride(k))
			return func() { kernels.MulInt8(y, n, a, scale, 1, w, nil, kernels.None) }
		},
		"int16": func() func() {
			w, a := kernels.PackInt16(k, n, make([]int16, k*n), scales), make([]int16, kernels.Int16Stride(k))
			return func() { kernels.MulInt16(y, n, a, scale, 1, w, nil, kernels.None) }
		},
		"bfloat16": func() func() {
			w, a := new(kernels.BFloat16Matrix), make([]uint16, k)
			w.Pack(k, n, make([]float32, k*n), n)
			return func() { kernels.MulBFloat16(y, n, a, 1, w, nil, kernels.None) }
		},
		"float32": func() func() {
			w := kernels.PackFloat32(k, n, make([]float32, k*n))
			return func() { kernels.MulFloat32(y, n, x, k, 1, w, nil, kernels.None) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			multiply := pack()
			checkStops(t, func(stop <-chan struct{}) {
				for {
					select {
					case <-stop:
						return
					default:
						multiply()
					}
				}
			})
		})
	}
}

// checkStops reports an error if the garbage collector waits for long while work is done, which ends when stop is closed.
func checkStops(t *testing.T, work func(stop <-chan struct{})) {
	t.Helper()
	if testing.Short() || runtime.GOMAXPROCS(0) < 2 {
		t.Skip("takes a second of two processors")
	}
	const limit = time.Millisecond
	median := time.Duration(0)
	for range 5 { // on a machine with other work, its threads may wait for a processor
		if median = medianStop(t, work); median <= limit {
			return
		}
	}
	t.Errorf("half of the collector's stops take %v or more to reach what works; at most %v is allowed", median, limit)
}

// medianStop is the median of the times from the decision to stop all threads until they have stopped, while work is done.
func medianStop(t *testing.T, work func(stop <-chan struct{})) time.Duration {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		work(stop)
	}()
	defer func() { close(stop); <-stopped }()
	before := stops()
	for range 100 {
		runtime.GC()
	}
	after, count := stops(), uint64(0)
	for i := range after.Counts {
		after.Counts[i] -= before.Counts[i]
		count += after.Counts[i]
	}
	if count < 100 {
		t.Fatalf("100 collections stopped the threads %d times", count)
	}
	passed := uint64(0)
	for i, n := range after.Counts {
		if passed += n; 2*passed >= count {
			return time.Duration(after.Buckets[i+1] * float64(time.Second))
		}
	}
	return 0
}

func stops() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/stopping/gc:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// work encodes and decodes random sentences until stop is closed.
func work(s *Stepper, stop <-chan struct{}) {
	const n = 57
	random := rand.New(rand.NewPCG(1, 1))
	sources, contexts := benchSources(s, random, n, 26), make([]search.Context, n)
	slots, rows, tokens, best := make([]search.Slot, n), make([]int32, n), randomTokens(random, n, s.Vocabulary()), make([]search.Scored, n)
	for {
		s.Encode(sources, contexts)
		for i := range slots {
			slots[i], rows[i] = search.Slot(i), int32(i)
			s.Begin(slots[i], contexts[i])
		}
		for range 26 {
			select {
			case <-stop:
				return
			default:
			}
			s.Step(slots, tokens, false)
			s.Best(rows, nil, best)
		}
		for _, c := range contexts {
			s.Release(c)
		}
	}
}
