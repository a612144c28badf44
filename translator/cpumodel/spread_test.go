package cpumodel

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/translator/search"
)

// shareAll has s share everything that can be shared among so many cores.
func shareAll(s *Stepper, cores int) {
	s.Spread(cores)
	for _, of := range append(s.further, s) {
		of.spread.ways, of.spread.parts = []spreadWay{{cores, 1}}, []int{cores}
	}
}

// TestSpread translates with one core and with several: the bits must be the same.
func TestSpread(t *testing.T) {
	all := subjects(t, 14)
	all = append(all, student(t, "model.npz", Float32, 3), student(t, "model.npz", Int16, 3), student(t, "model.npz", BFloat16, 3), student(t, "model.npz", Int8, 3), student(t, "model.intgemm.alphas.bin", Int8, 3))
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			for _, scored := range []bool{false, true} {
				want := c.translate(1, scored, c.sources)
				for _, slots := range []int{1, 7} {
					for _, cores := range []int{2, 4, 8} {
						s := c.weights.NewStepper(slots)
						shareAll(s, cores)
						for i, got := range c.translateWith(s, scored, c.sources) {
							if !sameTranslation(got, want[i]) {
								t.Fatalf("sentence %d with %d cores, %d slots (scored %v):\n%v\nwith one:\n%v", i, cores, slots, scored, got, want[i])
							}
						}
						if len(s.spread.cuts) == 0 {
							t.Errorf("%d cores share no product", cores)
						}
						for k, of := range append(s.further, s) {
							if len(of.w.encoder) > 0 && len(of.spread.hands) != cores-1 {
								t.Errorf("%d cores: %d helpers work in encoder %d", cores, len(of.spread.hands), k)
							}
						}
						s.Close()
						if slices.ContainsFunc(s.further, func(of *Stepper) bool { return of.spread != nil }) {
							t.Error("what reads a further source is not closed")
						}
					}
				}
			}
		})
	}
}

// What several cores do is counted as what one does is.
func TestSpreadCounts(t *testing.T) {
	c := student(t, "model.npz", Int8, 4)
	alone, shared := c.weights.NewStepper(4), c.weights.NewStepper(4)
	defer shared.Close()
	shareAll(shared, 3)
	for range 3 {
		c.translateWith(alone, false, c.sources)
		c.translateWith(shared, false, c.sources)
	}
	if one, several := alone.Stats().MACs, shared.Stats().MACs; one != several || one == 0 {
		t.Errorf("one core counts %d multiply-accumulates, several %d", one, several)
	}
}

// Several cores allocate nothing for a step.
func TestSpreadAllocations(t *testing.T) {
	for _, precision := range precisions {
		c := student(t, "model.npz", precision, 2)
		s := c.weights.NewStepper(1)
		shareAll(s, 2)
		contexts, best := make([]search.Context, 1), make([]search.Scored, 1)
		translate := func() {
			s.Encode(c.sources[1:2], contexts)
			s.Begin(0, contexts[0])
			for range 3 {
				s.Step([]search.Slot{0}, []search.Token{search.NoToken}, false)
				s.Best([]int32{0}, nil, best)
			}
			s.Release(contexts[0])
		}
		for range 10 {
			translate()
		}
		if n := testing.AllocsPerRun(50, translate); n > 0 {
			t.Errorf("%v: %v allocations for a sentence, want none", precision, n)
		}
		s.Close()
	}
}

// A tryout takes the way that is fastest, an earlier one if none is clearly faster, and looks again after a while.
func TestTryout(t *testing.T) {
	for _, c := range []struct {
		took []time.Duration
		want int
	}{
		{[]time.Duration{100, 60, 80}, 1},
		{[]time.Duration{100, 80, 60, 61, 62, 55, 90}, 5},
		{[]time.Duration{100, 80, 60, 61, 62, 59, 90}, 2},
		{[]time.Duration{100, 98}, 0},
		{[]time.Duration{50, 100}, 0},
	} {
		var o tryout
		random := rand.New(rand.NewPCG(1, 1))
		use := func() int {
			way := o.next(len(c.took))
			took := c.took[way] + time.Duration(random.IntN(2))
			if random.IntN(4) == 0 {
				took += 1000 // something else had the core
			}
			o.record(took)
			return way
		}
		settle := func() (tried []int) {
			for !o.settled() {
				tried = append(tried, use())
			}
			return tried
		}
		tried := settle()
		for way := range c.took {
			count := 0
			for _, w := range tried {
				if w == way {
					count++
				}
			}
			if count != tryoutRounds*tryoutRun {
				t.Errorf("%v: way %d was tried %d times", c.took, way, count)
			}
		}
		for range tryoutTrust {
			if way := use(); way != c.want {
				t.Fatalf("%v: way %d, want %d", c.took, way, c.want)
			}
		}
		slices.Reverse(c.took)
		settle()
		if use(); o.settled() {
			t.Fatalf("%v: it never looks again", c.took)
		}
	}
}

// What one number of cores has shown says nothing about another.
func TestTryoutOfOtherWays(t *testing.T) {
	var o tryout
	for range 2 * tryoutRounds * tryoutRun {
		o.record([]time.Duration{100, 50}[o.next(2)])
	}
	if way := o.next(2); way != 1 {
		t.Fatalf("of two ways %d is fastest", way)
	}
	if way := o.next(1); way != 0 {
		t.Errorf("the only way is %d", way)
	}
}

// What some cores have shown is not forgotten while there are fewer of them, or more.
func TestTryoutsOfCores(t *testing.T) {
	s := student(t, "model.npz", Int8, 1).weights.NewStepper(1)
	defer s.Close()
	all := []int{2, 4, MostCores}
	for range len(spreadWays) * tryoutRounds * tryoutRun {
		for _, cores := range all {
			s.Spread(cores)
			s.beginStep(1)
			if _, told := s.layerParts(2); told != nil {
				told.record(1)
			}
		}
	}
	for _, cores := range all {
		s.Spread(cores)
		s.beginStep(1)
		if _, told := s.layerParts(2); !told.settled() || !s.spread.stepClass.settled() {
			t.Errorf("%d cores: the fastest way is still sought", cores)
		}
	}
}
