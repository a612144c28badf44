package main

import (
	"slices"
	"strings"
	"testing"

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
