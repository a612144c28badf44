package main

import (
	"log/slog"
	"testing"

	"github.com/sluice-mt/sluice/translator/rescore"
)

// When no GPU is left, the processor's Scorer goes on that there is: another one would have the weights a second time.
func TestOneScorerOfTheProcessor(t *testing.T) {
	precise := &rescore.Scorer{}
	m := scoringModel{gpus: &scoringGPUs{precise: precise, logger: slog.New(slog.DiscardHandler)}}
	if err := m.reopen(); err != nil || m.scorer != precise || m.gpus.precise != nil {
		t.Errorf("another one scores: %v", err)
	}
}
