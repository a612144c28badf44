package gpumodel

import "testing"

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
