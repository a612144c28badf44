package main

import (
	"math"
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
		if count := w.refill(randomText{random: random, vocabulary: 50}.sources(10)); count != c.want || w.decoder.Active() != c.want {
			t.Errorf("%+v: begun with %d, of which %d are searched, want %d", c.options, count, w.decoder.Active(), c.want)
		}
		if w.refill(nil) != 0 {
			t.Error("nothing is begun with")
		}
	}
}

// Sentences of a benchmark have modelLength pieces in the mean and the spread that was asked for, the longest first, and of several sources as many
// pieces of each.
func TestRandomText(t *testing.T) {
	const count = 4000
	text := randomText{rand.New(rand.NewPCG(2018, 1)), 50, []int{7}, usualSpread}
	sum, sumOfLogarithms, squares, longest := 0.0, 0.0, 0.0, usualLongest
	for _, source := range text.sources(count) {
		length := len(source.Tokens)
		if length > longest || length < 1 || len(source.Further) != 1 || len(source.Further[0]) != length {
			t.Fatalf("%d pieces after %d, of the other source %v", length, longest, source.Further)
		}
		for i, token := range source.Tokens {
			other := source.Further[0][i]
			if last := i == length-1; last != (token == 0) || last != (other == 0) || token < 0 || token >= 50 || other < 0 || other >= 7 {
				t.Fatalf("piece %d of %d is %d, of the other source %d", i, length, token, other)
			}
		}
		longest = length
		logarithm := math.Log(float64(length))
		sum, sumOfLogarithms, squares = sum+float64(length), sumOfLogarithms+logarithm, squares+logarithm*logarithm
	}
	mean := sumOfLogarithms / count
	if spread := math.Sqrt(squares/count - mean*mean); math.Abs(sum/count-modelLength) > 1 || math.Abs(spread-usualSpread) > 0.03 {
		t.Errorf("%v pieces in the mean, with a spread of %v", sum/count, spread)
	}
	text.spread = 0
	for _, source := range text.sources(10) {
		if len(source.Tokens) != modelLength {
			t.Errorf("%d pieces, want %d", len(source.Tokens), modelLength)
		}
	}
}
