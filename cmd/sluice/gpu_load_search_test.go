package main

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A search finds the load that does most, by a clock of its own.
func TestLoadSearch(t *testing.T) {
	failure := errors.New("lost")
	for name, c := range map[string]struct {
		rate   func(gpuLoad) float64
		given  bool
		takes  time.Duration // each trial
		most   int           // slots of all workers together
		want   gpuLoad
		trials int
	}{
		"one stream":          {func(l gpuLoad) float64 { return 100 / float64(l.Streams) }, true, 10, 1 << 20, gpuLoad{1, 512}, 3},
		"two streams":         {func(l gpuLoad) float64 { return 9 - math.Abs(float64(l.Streams)-2) }, true, 10, 1 << 20, gpuLoad{2, 512}, 3},
		"four streams":        {func(l gpuLoad) float64 { return float64(l.Streams) }, true, 10, 1 << 20, gpuLoad{4, 512}, 3},
		"no gain":             {func(l gpuLoad) float64 { return 100 + 0.5*float64(l.Streams) }, true, 10, 1 << 20, gpuLoad{2, 512}, 3},
		"more slots":          {func(l gpuLoad) float64 { return float64(l.Slots) }, false, 10, 1 << 20, gpuLoad{2, 2048}, 5},
		"fewer slots":         {func(l gpuLoad) float64 { return 1000 - math.Abs(float64(l.Slots-128)) }, false, 10, 1 << 20, gpuLoad{2, 128}, 7},
		"these slots":         {func(l gpuLoad) float64 { return 600 - math.Abs(float64(l.Slots-512)) }, false, 10, 1 << 20, gpuLoad{2, 512}, 5},
		"memory for four":     {func(l gpuLoad) float64 { return float64(l.Slots * l.Streams) }, false, 10, 2048, gpuLoad{4, 512}, 4},
		"memory for two":      {func(l gpuLoad) float64 { return float64(l.Slots * l.Streams) }, false, 10, 1024, gpuLoad{2, 512}, 3},
		"time for two":        {func(l gpuLoad) float64 { return float64(l.Streams) }, false, 200, 1 << 20, gpuLoad{2, 512}, 2},
		"time for three":      {func(l gpuLoad) float64 { return float64(l.Streams) }, false, 101, 1 << 20, gpuLoad{4, 512}, 3},
		"out of memory":       {func(gpuLoad) float64 { return 0 }, false, 10, 1 << 20, gpuLoad{2, 512}, 3},
		"a device that fails": {func(gpuLoad) float64 { return math.NaN() }, false, 10, 1 << 20, gpuLoad{2, 512}, 1},
	} {
		now, trials := time.Unix(1e9, 0), 0
		s := loadSearch{
			over: func() bool { return now.After(time.Unix(1e9, 3e8)) },
			try: func(l gpuLoad) (float64, error) {
				now, trials = now.Add(c.takes*time.Millisecond), trials+1
				if rate := c.rate(l); rate == rate {
					return rate, nil
				}
				return 0, failure
			},
			fits: func(l gpuLoad) bool { return l.Streams*l.Slots <= c.most },
		}
		have, err := s.find(gpuLoad{2, 512}, c.given)
		if name == "a device that fails" != errors.Is(err, failure) || have != c.want || trials != c.trials {
			t.Errorf("%s: %+v after %d trials, %v, want %+v after %d", name, have, trials, err, c.want, c.trials)
		}
	}
}

// Models of one shape that are multiplied and searched alike have one load, others have others, and so have models that find less memory.
func TestLoadKey(t *testing.T) {
	key := func(description, multiplied string, beam, slots, room int) string {
		m, err := model.New([]byte(description))
		if err != nil {
			t.Fatal(err)
		}
		return (&engineParts{models: &ensemble{models: []*model.Model{m}}, config: translator.Config{Search: search.Options{Beam: beam}}}).loadKey(multiplied, room, slots)
	}
	keys := map[string]bool{}
	for _, a := range architectures() {
		for _, beam := range []int{1, 4} {
			for _, of := range []struct {
				multiplied  string
				slots, room int
			}{{"own kernels", 0, 1024}, {"own kernels", 0, 16}, {"own kernels", 64, 1024}, {"cuBLASLt 12.2.5 for 3 of 9 kinds of products", 0, 1024}} {
				k := key(a.description(), of.multiplied, beam, of.slots, of.room)
				if keys[k] {
					t.Errorf("%s, beam %d, slots %+v: %s is another's, too", a.size().Name, beam, of, k)
				}
				if keys[k] = true; key(a.description(), of.multiplied, beam, of.slots, of.room) != k {
					t.Errorf("%s has two keys", a.size().Name)
				}
			}
		}
	}
}

// A load that nobody can have measured is not taken from a file.
func TestPossibleLoads(t *testing.T) {
	for _, l := range []gpuLoad{{0, 5}, {5, 5}, {-1, 5}, {2, 0}, {2, 1 << 20}} {
		if l.possible(0) {
			t.Errorf("%v is possible", l)
		}
	}
	if !(gpuLoad{4, 2048}).possible(0) || !(gpuLoad{1, 5000}).possible(5000) || (gpuLoad{1, 500}).possible(5000) {
		t.Error("what was asked for is not possible")
	}
}
