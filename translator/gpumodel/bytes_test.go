//go:build linux && (amd64 || arm64) && !nogpu

package gpumodel

import (
	"maps"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// allProducts are a few models that have all kinds of products.
var allProducts = []string{"pre-norm self-attention", "deep cells", "two sources with tables"}

// byteKinds are the models to multiply in 8 bits: all, or for short those that have all kinds of products.
func byteKinds() []string {
	if testing.Short() {
		return allProducts
	}
	return slices.Sorted(maps.Keys(descriptions))
}

// In 8 bits every kind of model is near the processor's 8 bits, whose weights are the same integers.
func TestInt8Models(t *testing.T) {
	d := openInt8(t)
	for _, name := range byteKinds() {
		t.Run(name, func(t *testing.T) {
			likeProcessorsInt8(t, d, randomModel(t, describe(descriptions[name])))
		})
	}
}

// So it is where the model has multipliers for activations, even others for matrices that are multiplied together.
func TestAlphas(t *testing.T) {
	d := openInt8(t)
	for _, name := range byteKinds() {
		t.Run(name, func(t *testing.T) {
			likeProcessorsInt8(t, d, withAlphas(randomModel(t, describe(descriptions[name]))))
		})
	}
}

func likeProcessorsInt8(t *testing.T, d *Device, m *model.Model) {
	t.Helper()
	packed, err := cpumodel.Load(m, cpumodel.Int8, cpumodel.Options{Suppress: []search.Token{5}})
	must(t, err)
	c := comparison{t: t, p: pair{newStepper(t, d, m, 4, 5), packed.NewStepper(4)}, tolerance: 0.25, most: 4, scored: true}
	c.run(randomSources(3, 17, 1, 9))
	if c.ties > 4 {
		t.Errorf("%d other tokens", c.ties)
	}
}

// In fp8 every kind of model is near the processor's float32: as near as four bits of each number allow.
func TestFP8Models(t *testing.T) {
	d := openFP8(t)
	for _, name := range byteKinds() {
		t.Run(name, func(t *testing.T) {
			c := comparison{t: t, p: newPair(t, d, randomModel(t, describe(descriptions[name])), 4, 5), tolerance: 0.4, relative: 0.02, most: 4, scored: true}
			c.run(randomSources(3, 17, 1, 9))
			if c.ties > 6 {
				t.Errorf("%d other tokens", c.ties)
			}
		})
	}
}

// On the demonstration model, products in 8 bits translate as the processor's do, with the model's multipliers for activations and with one for each
// row: greedily and with beams, with the same scores of words within what rounding to 16 bits, and on the processor keys and values in bfloat16, make
// of integers.
func TestInt8DemoModel(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole model")
	}
	m := demoModel(t)
	if len(m.Alphas) == 0 {
		t.Fatal("the model has no multipliers")
	}
	testDemoSearches(t, openInt8(t), m, cpumodel.Int8, 0.25, 2)
	m.Alphas = nil
	testDemoSearches(t, openInt8(t), m, cpumodel.Int8, 0.25, 2)
}

// In fp8 it translates nearly as the processor does in float32.
func TestFP8DemoModel(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole model")
	}
	testDemoSearches(t, openFP8(t), demoModel(t), cpumodel.Float32, 1, 4)
}

// testDemoSearches compares what a device finds with what the processor does in a precision, within a tolerance of the logarithms of words'
// probabilities, and up to so many ties.
func testDemoSearches(t *testing.T, d *Device, m *model.Model, precision cpumodel.Precision, tolerance float64, ties int) {
	t.Helper()
	models := []*model.Model{m}
	j := judge{precise: precise{t, models, precision}, tolerance: tolerance}
	want := searchAll(t, onProcessor(t, models, 24, precision), demoSearches(t))
	for i, have := range searchAll(t, on(t, d, models, 24), demoSearches(t)) {
		j.compare(have, want[i])
	}
	t.Logf("%d of %d are other translations", j.ties, len(want))
	if j.ties > ties || len(j.lost) > 0 {
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
