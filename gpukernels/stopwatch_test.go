//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
)

// Time in which several streams are at work counts once, and time in which none is does not count.
func TestBusy(t *testing.T) {
	for name, c := range map[string]struct {
		stretches []Stretch
		want      int
	}{
		"nothing":              {},
		"one behind the other": {[]Stretch{{10, 20}, {20, 25}}, 15},
		"a gap":                {[]Stretch{{10, 20}, {30, 35}}, 15},
		"overlapping":          {[]Stretch{{15, 30}, {10, 20}}, 20},
		"one in the other":     {[]Stretch{{10, 40}, {15, 20}, {18, 25}, {39, 41}}, 31},
		"the same twice":       {[]Stretch{{10, 20}, {10, 20}}, 10},
		"before the clock":     {[]Stretch{{-5, 5}, {-3, 6}}, 11},
	} {
		if have := Busy(c.stretches); int(have) != c.want {
			t.Errorf("%s: %d, want %d", name, have, c.want)
		}
	}
}

// A stopwatch with a limit waits for the first of its stretches when there are so many under way; one without waits for nothing.
func TestStopwatch(t *testing.T) {
	r := newRig(t)
	clock, err := StartClock(r.context)
	must(t, err)
	defer func() { must(t, clock.Close()) }()
	memory, err := cuda.Alloc[byte](r.context, 100)
	must(t, err)
	defer func() { must(t, r.context.Free(memory)) }()
	for most, read := range map[int]int{0: 0, 1: 4, 3: 2, 5: 0} {
		var w Stopwatch
		w.Start(clock, most)
		for range 5 {
			must(t, w.Around(r.stream, func() error { return r.stream.Zero(memory, 100) }))
		}
		if have := len(w.Stretches()); have != read {
			t.Errorf("with %d stretches at most, %d of 5 were waited for, want %d", most, have, read)
		}
		must(t, w.Read())
		if len(w.Stretches()) != 5 || w.Total() <= 0 {
			t.Errorf("with %d stretches at most, %d were read, of %v", most, len(w.Stretches()), w.Total())
		}
		if w.Start(clock, most); len(w.Stretches()) != 0 || w.Total() != 0 {
			t.Errorf("once more started, the stopwatch has %d stretches of %v", len(w.Stretches()), w.Total())
		}
		must(t, w.Close())
	}
}
