package crew

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-mt/sluice/internal/cpu"
)

// sums adds up numbers, each part those of its own range.
type sums struct {
	numbers []int
	of      [8]struct {
		sum   int
		times int
		_     [cpu.LinePair]byte
	}
}

func (s *sums) Part(part, parts int) {
	of := &s.of[part]
	of.sum = 0
	of.times++
	for _, n := range s.numbers[len(s.numbers)*part/parts : len(s.numbers)*(part+1)/parts] {
		of.sum += n
	}
}

// Every part is done once, whoever does it, and all are when Do returns.
func TestDo(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := New()
	defer c.Close()
	s := &sums{numbers: make([]int, 1000)}
	for i := range s.numbers {
		s.numbers[i] = i
	}
	var times [8]int
	for round := range 2000 {
		parts := 1 + round%len(s.of)
		c.Do(s, parts)
		total := 0
		for part := range parts {
			total += s.of[part].sum
			times[part]++
		}
		if want := 999 * 1000 / 2; total != want {
			t.Fatalf("round %d: %d parts sum up to %d, want %d", round, parts, total, want)
		}
		s.numbers[0]++
		s.numbers[len(s.numbers)-1]--
	}
	for part, want := range times {
		if got := s.of[part].times; got != want {
			t.Errorf("part %d was done %d times, want %d", part, got, want)
		}
	}
}

// meeting is done when two parts have been begun at the same time.
type meeting struct {
	present atomic.Int32
	met     atomic.Bool
}

func (m *meeting) Part(part, parts int) {
	m.present.Add(1)
	for begin := time.Now(); time.Since(begin) < 30*time.Microsecond && !m.met.Load(); {
		if int(m.present.Load()) == parts {
			m.met.Store(true)
		}
		runtime.Gosched()
	}
	m.present.Add(-1)
}

// Helpers do parts while others are done.
func TestTogether(t *testing.T) {
	c := New()
	defer c.Close()
	m := new(meeting)
	for begin := time.Now(); !m.met.Load(); {
		if time.Since(begin) > time.Minute {
			t.Fatal("no helper has ever come")
		}
		c.Do(m, 2)
	}
}

// Helpers that have nothing to do sleep.
func TestAsleep(t *testing.T) {
	c := New()
	defer c.Close()
	c.Do(new(sums), 4)
	for _, h := range c.helpers {
		for begin := time.Now(); h.state.Load() != asleep; time.Sleep(time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("helper %d is in state %d", h.part, h.state.Load())
			}
		}
	}
}

// A crew allocates nothing for a work, and wakes its helpers again.
func TestAllocations(t *testing.T) {
	c := New()
	defer c.Close()
	s := new(sums)
	c.Do(s, 3)
	if n := testing.AllocsPerRun(1000, func() { c.Do(s, 3) }); n > 0 {
		t.Errorf("%v allocations for a work, want none", n)
	}
}

// BenchmarkDo is what it takes to have nothing done by two.
func BenchmarkDo(b *testing.B) {
	c := New()
	defer c.Close()
	s := new(sums)
	for b.Loop() {
		c.Do(s, 2)
	}
}
