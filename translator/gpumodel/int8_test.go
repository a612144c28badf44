//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"testing"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// In 8 bits every kind of model is near the processor's 8 bits, whose weights are the same integers.
func TestInt8Models(t *testing.T) {
	d := openInt8(t)
	for name, more := range descriptions {
		t.Run(name, func(t *testing.T) {
			m := randomModel(t, describe(more))
			packed, err := cpumodel.Load(m, cpumodel.Int8, cpumodel.Options{Suppress: []search.Token{5}})
			must(t, err)
			c := comparison{t: t, p: pair{newStepper(t, d, m, 4, 5), packed.NewStepper(4)}, tolerance: 0.25, most: 4, scored: true}
			c.run(randomSources(3, 17, 1, 9))
			if c.ties > 4 {
				t.Errorf("%d other tokens", c.ties)
			}
		})
	}
}

// On the demonstration model, products in 8 bits translate as the processor's do: greedily and with beams, with the same scores of words
// within what rounding to 16 bits, and on the processor keys and values in bfloat16, make of integers.
func TestInt8DemoModel(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole model")
	}
	models := []*model.Model{demoModel(t)}
	j := judge{precise: precise{t, models, cpumodel.Int8}, tolerance: 0.25}
	want := searchAll(t, onProcessor(t, models, 24, cpumodel.Int8), demoSearches(t))
	for i, have := range searchAll(t, on(t, openInt8(t), models, 24), demoSearches(t)) {
		j.compare(have, want[i])
	}
	t.Logf("%d of %d are other translations", j.ties, len(want))
	if j.ties > 2 || len(j.lost) > 0 {
		t.Errorf("%d are other translations; not found: %v", j.ties, j.lost)
	}
}

// demoSearches are sentences for the demonstration model, some of them to be searched for with beams.
func demoSearches(t *testing.T) []*search.Sentence {
	_, sources := demoSources(t)
	var all []*search.Sentence
	for i, source := range sources[:8] {
		options := search.Options{Beam: 1, Normalize: 1, MaxLengthFactor: 2, WordScores: true}
		if i%4 == 1 {
			options.Beam, options.NBest = 4, 2
		}
		all = append(all, &search.Sentence{Source: source, Options: options, Tag: demoLines[i]})
	}
	return all
}
