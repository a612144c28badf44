package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/gpumodel"
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
		w.refill(&supply{sources: randomText{random: random, vocabulary: 50}.sources(10)})
		if w.decoder.Active() != c.want {
			t.Errorf("%+v: %d are searched, want %d", c.options, w.decoder.Active(), c.want)
		}
	}
}

// A worker has the next sentences encoded before slots are free for them, as many as have room, and in the end has translated all.
func TestWorkersEncodeAhead(t *testing.T) {
	random := rand.New(rand.NewPCG(2018, 1))
	m, err := randomModel((student{"toy", 1, 2, 32, 64, 2, 50, ofSSRUs}).description(), random)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{Suppress: []search.Token{0}})
	if err != nil {
		t.Fatal(err)
	}
	const slots = 4
	w, err := newGPUWorker([]search.Stepper{weights.NewStepper(slots)}, nil, 0, search.Options{Beam: 1, MaxLengthFactor: 1})
	if err != nil {
		t.Fatal(err)
	}
	sources := randomText{random: random, vocabulary: 50}.sources(40)
	all := &supply{sources: sources}
	if advanced := w.step(all); advanced != slots || w.queue.Len() == 0 {
		t.Errorf("a step advances %d hypotheses, and %d sentences wait", advanced, w.queue.Len())
	}
	for all.next < len(sources) {
		w.step(all)
		if encoded := w.queue.Encoded(); encoded > gpumodel.Encoded(slots, 1) {
			t.Fatalf("%d pieces are encoded, where there is room for %d", encoded, gpumodel.Encoded(slots, 1))
		}
	}
	w.translate(nil)
	if encoded := w.queue.Encoded(); encoded != 0 || w.queue.Len() != 0 || w.decoder.Active() != 0 {
		t.Errorf("in the end %d pieces are encoded, %d sentences wait and %d are searched", encoded, w.queue.Len(), w.decoder.Active())
	}
}

// Mini-batches have as many pieces as were asked for at most, or one sentence, and an endless supply begins again.
func TestSupply(t *testing.T) {
	var sources []search.Source
	for _, length := range []int{9, 4, 4, 3, 2} {
		sources = append(sources, search.Source{Tokens: make([]search.Token, length)})
	}
	for _, endless := range []bool{false, true} {
		from := &supply{sources: sources, endless: endless}
		var have []int
		for range 4 {
			have = append(have, len(from.miniBatch(8)))
		}
		want := []int{1, 2, 2, 0}
		if endless {
			want[3] = 1
		}
		if !slices.Equal(have, want) {
			t.Errorf("endless %v: mini-batches of %v sentences, want %v", endless, have, want)
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
