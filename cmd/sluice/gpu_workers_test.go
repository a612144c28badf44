package main

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/search"
)

// A worker begins with as many sentences as have room: a sentence of a beam takes the slots of that, one of samples those of the samples.
func TestWorkersFillTheirSlots(t *testing.T) {
	random := rand.New(rand.NewPCG(2018, 1))
	m, err := randomModel((student{"toy", 1, 2, 32, 64, 2, 50, ofSSRUs}).description(), random)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	samples := search.Sampling{Method: search.Full}
	for _, c := range []struct {
		options search.Options
		want    int // of eight slots
	}{
		{search.Options{Beam: 1}, 8}, {search.Options{Beam: 3}, 2}, {search.Options{Beam: 9}, 0},
		{search.Options{Beam: 4, Sampling: samples}, 8}, {search.Options{Beam: 1, NBest: 3, Sampling: samples}, 2},
	} {
		c.options.MaxLengthFactor = 1
		w, err := newGPUWorker([]search.Stepper{weights.NewStepper(8)}, nil, 0, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if count := w.refill(randomSources(random, 10, 50)); count != c.want || w.decoder.Active() != c.want {
			t.Errorf("%+v: begun with %d, of which %d are searched, want %d", c.options, count, w.decoder.Active(), c.want)
		}
		if w.refill(nil) != 0 {
			t.Error("nothing is begun with")
		}
	}
}
