package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/translator"
)

// "bench --device gpu" is "bench gpu", with all of its options; what does not ask for a GPU stays as it is.
func TestBenchOfGPU(t *testing.T) {
	for line, want := range map[string]string{
		"bench --device gpu":                              "bench gpu",
		"bench --device=gpu --sizes base --streams 1,2":   "bench gpu --sizes base --streams 1,2",
		"bench --sizes base --device gpu:1 --beams 1":     "bench gpu --device 1 --sizes base --beams 1",
		"--sizes bench bench --device gpu --beams 1":      "bench gpu --sizes bench --beams 1",
		"--seed=3 bench --device gpu:1":                   "bench gpu --device 1 --seed=3",
		"bench --sizes bench --device gpu":                "bench gpu --sizes bench",
		"bench --device 2":                                "bench gpu --device 2",
		"bench gpu --device 2":                            "bench gpu --device 2",
		"bench --device cpu -i corpus.en":                 "bench --device cpu --input=corpus.en",
		"bench --device tpu":                              "bench --device tpu",
		"bench -i corpus.en --device":                     "bench --input=corpus.en --device",
		"bench speedups":                                  "bench speedups",
		"translate --device gpu":                          "translate --device gpu",
		"bench -m model.npz -i corpus.en --devices gpu:0": "bench --models=model.npz --input=corpus.en --devices=gpu:0",
	} {
		root := newRootCommand(func(translator.Config) (liveTranslator, error) { return nil, nil })
		if have := prepareArguments(root, strings.Fields(line)); !slices.Equal(have, strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", line, have, want)
		}
	}
}

// Passes go on until there are enough of them and enough time has passed, but not for too long. The one in the middle counts.
func TestPasses(t *testing.T) {
	usual := passes{3, time.Second / 2, 15 * time.Second}
	for _, c := range []struct {
		of      passes
		count   int
		elapsed time.Duration
		enough  bool
	}{
		{passes{}, 1, time.Nanosecond, true}, {usual, 1, time.Second, false}, {usual, 2, 10 * time.Second, false}, {usual, 3, time.Second / 2, true},
		{usual, 3, time.Second / 10, false}, {usual, 100, time.Second / 10, false}, {usual, 1, 15 * time.Second, true},
	} {
		if have := c.of.enough(c.count, c.elapsed); have != c.enough {
			t.Errorf("%d passes in %v: enough is %v", c.count, c.elapsed, have)
		}
	}
	all := []gpuPass{{elapsed: 30}, {elapsed: 10}, {elapsed: 20}}
	if have := medianPass(all).elapsed; have != 20 {
		t.Errorf("the median of three passes took %d, want 20", have)
	}
	if have := medianPass(append(all, gpuPass{elapsed: 40})).elapsed; have != 30 {
		t.Errorf("the median of four passes took %d, want the slower of two, 30", have)
	}
}
