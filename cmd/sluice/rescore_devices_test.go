package main

import (
	"log/slog"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/translator/rescore"
)

// When memory is short, scoring goes on with less as long as there is less: with fewer slots, and with fewer source pieces at a time.
func TestScoringWithLessMemory(t *testing.T) {
	g := scoringGPUs{gpus: []*gpu{{}}, streams: 1, slots: 4, tokens: 200, logger: slog.New(slog.DiscardHandler)}
	for _, want := range []struct{ slots, tokens int }{{2, 100}, {1, 50}, {1, 25}} {
		g.giveWay(&rescore.DeviceError{Err: cuda.ErrOutOfMemory})
		if g.slots != want.slots || g.tokens != want.tokens || len(g.gpus) != 1 {
			t.Errorf("%d GPUs go on with %d slots and %d pieces, want %+v", len(g.gpus), g.slots, g.tokens, want)
		}
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
