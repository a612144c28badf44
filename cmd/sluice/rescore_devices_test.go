package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/rescore"
)

// When memory is short, scoring goes on with less as long as there is less on that GPU: on the usual number of streams, with fewer slots and source
// pieces at a time, on one stream when slots are few, and then with still less. In the end the GPU is given up. The other one keeps what it has.
func TestScoringWithLessMemory(t *testing.T) {
	other := scoringGPU{&gpu{}, 2, translator.Budget{Slots: 8, Tokens: 64}}
	lacking := scoringGPU{&gpu{}, 5, translator.Budget{Slots: 64, Tokens: 2000}}
	g := scoringGPUs{gpus: []*scoringGPU{&other, &lacking}, logger: slog.New(slog.DiscardHandler)}
	for _, want := range []struct{ streams, slots, tokens int }{
		{2, 64, 2000}, {2, 32, 1000}, {2, 16, 500}, {1, 16, 500}, {1, 8, 250}, {1, 4, 125}, {1, 2, 62}, {1, 1, 31},
	} {
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
		devices[1].Workers != 1 || devices[1].Slots != 1 || devices[1].MiniBatchTokens != 31 {
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

// Who scores in float32 already is not told to do so.
func TestAdviceOnScores(t *testing.T) {
	for precision, want := range map[string]string{"int8": "--precision float32 may help", "float32": "sluice model verify"} {
		flags := scorerFlags{models: []string{filepath.Join(sharedtest.Root(), "models", "ende-tiny")}, precision: precision, maxLength: 100, threads: 1}
		models, err := flags.open(t.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if have := models[0].adviceOnScores(); !strings.HasPrefix(have, want) {
			t.Errorf("in %s: %s", precision, have)
		}
		closeScoring(models)
	}
}
