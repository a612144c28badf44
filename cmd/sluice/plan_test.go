package main

import (
	"math"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	p := newPlan(864e6, "core", []float64{4000, 5000, 9000}, 0.36, 0.5, 3) // 10,000 words a second
	if p.Busy != 2 || p.Units != 4 || p.Machines != 2 || p.Slowest != 4000 || p.Fastest != 9000 {
		t.Errorf("%+v", p)
	}
	// A core-hour translates 18 million words.
	if want := 0.36 / 18; math.Abs(p.Least-want) > 1e-12 || math.Abs(p.Expected-2*want) > 1e-12 {
		t.Errorf("a million words cost %v and %v, want %v and its double", p.Least, p.Expected, want)
	}
	var b strings.Builder
	p.Memory = []planMemory{{1, 120}}
	if err := p.print(&b, 30000, 3); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"words a core      5,000 a second (median of 3 passes over 30,000 words; 4,000 to 9,000)", "cores             4 for 864,000,000 words a day, busy 50 % of their time; 2 if",
		"machines          2 of 3 cores", "a million words   0.04; 0.02 if", "memory            120 MB with workers: 1",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	b.Reset()
	p.Unit = "GPU"
	if err := p.print(&b, 30000, 3); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"words a GPU       5,000 a second", "GPUs              4 for 864,000,000 words", "machines          2 of 3 GPUs", "; 0.02 if GPUs were"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

func TestParseWords(t *testing.T) {
	for text, want := range map[string]float64{"50000000": 5e7, "5e7": 5e7, "50M": 5e7, "50m": 5e7, "1_000": 1000, "1,000": 1000, "2.5G": 2.5e9, "1T": 1e12, "1k": 1000} {
		if got, err := parseWords(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "many", "0", "-5", "1e19", "NaN", "M", "inf"} {
		if got, err := parseWords(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
