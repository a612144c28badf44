package main

import (
	"log/slog"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/rescore"
)

// When memory is short, scoring goes on with less as long as there is less on that GPU: with fewer slots, with fewer source pieces at a time,
// and then on fewer streams. In the end the GPU is given up. The other one keeps what it has.
func TestScoringWithLessMemory(t *testing.T) {
	other := scoringGPU{&gpu{}, 2, translator.Budget{Slots: 8, Tokens: 64}}
	lacking := scoringGPU{&gpu{}, 5, translator.Budget{Slots: 4, Tokens: 300}}
	g := scoringGPUs{gpus: []*scoringGPU{&other, &lacking}, logger: slog.New(slog.DiscardHandler)}
	for _, want := range []struct{ streams, slots, tokens int }{{5, 2, 150}, {5, 1, 75}, {5, 1, 37}, {2, 1, 37}, {1, 1, 37}} {
		g.giveWay(&rescore.DeviceError{Device: 1, Err: cuda.ErrOutOfMemory})
		if lacking.streams != want.streams || lacking.budget != (translator.Budget{Slots: want.slots, Tokens: want.tokens}) || len(g.gpus) != 2 {
			t.Fatalf("%d GPUs go on, with %d streams and %+v, want %+v", len(g.gpus), lacking.streams, lacking.budget, want)
		}
	}
	if lacking.less() {
		t.Errorf("there is less than the least: %d streams, %+v", lacking.streams, lacking.budget)
	}
	if other.streams != 2 || other.budget != (translator.Budget{Slots: 8, Tokens: 64}) {
		t.Errorf("the other GPU goes on with %d streams and %+v", other.streams, other.budget)
	}
	if devices := g.onGPUs().Devices; len(devices) != 2 || devices[0].Workers != 2 || devices[0].Slots != 8 || devices[0].MiniBatchTokens != 64 ||
		devices[1].Workers != 1 || devices[1].Slots != 1 || devices[1].MiniBatchTokens != 37 {
		t.Errorf("the workers are %+v", devices)
	}
}

// When no GPU is left, the processor's Scorer goes on that there is: another one would have the weights a second time.
func TestOneScorerOfTheProcessor(t *testing.T) {
	precise := &rescore.Scorer{}
	m := scoringModel{gpus: &scoringGPUs{precise: precise, logger: slog.New(slog.DiscardHandler)}}
	if err := m.goOnTheProcessor(); err != nil || m.scorer != precise || m.gpus.precise != nil {
		t.Errorf("another one scores: %v", err)
	}
}
