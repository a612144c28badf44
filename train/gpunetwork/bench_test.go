//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
)

// What an update takes of the processor where the device answers at once, and how often it asks the device for something: an emulated device does
// nothing of it. So a card that needs less time for an update waits for the processor.
func BenchmarkHost(b *testing.B) {
	for _, c := range []struct{ name, more string }{
		{"student", "enc-depth: 6\ntransformer-tied-layers: []"},
		{"teacher", "enc-depth: 6\ndec-depth: 6\ntransformer-tied-layers: []\ntransformer-decoder-autoreg: self-attention"},
		{"recurrent", s2s},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := newNetwork(b, student(c.more))
			gpu := openTrainer(b, n, initial(n), gpukernels.BFloat16)
			batch := batchOfSentences(200)
			// The first updates take memory: the block, and both feeds at their second use.
			emulated.MeasureHost(b, libraryFor(b, gpukernels.BFloat16), 4, func(step int) { hostUpdate(b, gpu, batch, uint64(step)) })
		})
	}
}

// hostUpdate asks for an update.
func hostUpdate(b *testing.B, gpu *Trainer, batch *network.Batch, step uint64) {
	must(b, gpu.Begin(0, batch, everything, step))
	_, err := gpu.Squares(1)
	must(b, err)
	_, err = gpu.Losses(0)
	must(b, err)
	must(b, gpu.Move(optimiser.Move{Clip: 1, Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, Rate: 1e-3, Root: 1}, 1))
}

// batchOfSentences returns so many pairs of 10 to 39 pieces.
func batchOfSentences(pairs int) *network.Batch {
	random := rand.New(rand.NewPCG(1, 2))
	var lengths [][2]int
	for range pairs {
		lengths = append(lengths, [2]int{10 + random.IntN(30), 10 + random.IntN(30)})
	}
	return randomBatch(7, lengths...)
}
