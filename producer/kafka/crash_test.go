package kafka_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/kafkatest"
)

// A worker is killed between every two events of the protocol, and another goes on.
func TestKilledAtEveryStep(t *testing.T) {
	cluster := kafkatest.StartFake(t)
	testKilledAtEveryStep(t, cluster)
}

func testKilledAtEveryStep(t *testing.T, cluster *kafkatest.Cluster) {
	const partitions, records = 2, 400
	prepare := func() *setup {
		s := newSetup(t, cluster, partitions)
		s.source.Session, s.source.Rebalance = 1500*time.Millisecond, 1500*time.Millisecond
		s.sink.BatchBytes = 2 << 10 // several batches in a transaction
		for p := range partitions {
			cluster.Write(t, kafkatest.Numbers(s.in(), p, 0, records)...)
		}
		return s
	}
	var mutex sync.Mutex
	var names []string
	undisturbed := prepare()
	undisturbed.step = func(_ *worker, name string) {
		mutex.Lock()
		defer mutex.Unlock()
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if err := undisturbed.run(t); err != nil {
		t.Fatal(err)
	}
	if len(names) < 4 {
		t.Fatalf("there are only the steps %q", names)
	}
	occurrences := []int{1, 2}
	if testing.Short() {
		occurrences = occurrences[:1]
	}
	for _, name := range names {
		for _, nth := range occurrences {
			s := prepare()
			killed := make(chan struct{})
			var passed int
			s.step = func(w *worker, now string) {
				mutex.Lock()
				defer mutex.Unlock()
				if now != name {
					return
				}
				if passed++; passed == nth {
					w.kill()
					close(killed)
				}
			}
			w := s.start(t)
			select {
			case <-killed:
			case <-time.After(20 * time.Second):
				t.Errorf("%s: the %dth time does not come", name, nth)
			}
			defer w.end(t) // it takes its time, since it does not know that it is dead
			s.step = nil
			if err := s.run(t); err != nil {
				t.Errorf("killed at %s: %v", name, err)
			}
			s.oracle(t, cluster, partitions, records)
			if t.Failed() {
				t.Fatalf("killed at the %dth %q", nth, name)
			}
		}
	}
	t.Logf("killed at %q", names)
}
