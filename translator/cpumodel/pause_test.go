package cpumodel

import (
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/translator/search"
)

// The garbage collector has to stop all threads for a moment. While the engine encodes and decodes, it must not wait for long: the
// assembly, which it cannot stop, is called for at most some 100 µs at a time.
func TestTheGarbageCollectorStopsTheEngineQuickly(t *testing.T) {
	if testing.Short() || runtime.GOMAXPROCS(0) < 2 {
		t.Skip("takes a second of two processors")
	}
	const limit = time.Millisecond
	median := time.Duration(0)
	for range 5 { // on a machine with other work, its threads may wait for a processor
		if median = medianStop(t); median <= limit {
			return
		}
	}
	t.Errorf("half of the collector's stops take %v or more to reach a working engine; at most %v is allowed", median, limit)
}

// medianStop is the median of the times from the decision to stop all threads until they have stopped, while the engine works.
func medianStop(t *testing.T) time.Duration {
	stop, stopped := make(chan struct{}), make(chan struct{})
	stepper := benchStepper(t, 57)
	go func() {
		defer close(stopped)
		work(stepper, stop)
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
