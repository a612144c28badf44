package cpumodel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
)

// sizes are those of students, from Marian's tiny to large, with two decoder layers.
var sizes = []struct{ name, lines string }{
	{"tiny", "dim-emb: 256\nenc-depth: 6\ntransformer-heads: 8\ntransformer-dim-ffn: 1536\ntransformer-dim-aan: 1536"},
	{"small", "dim-emb: 384\nenc-depth: 6\ntransformer-heads: 6\ntransformer-dim-ffn: 1536\ntransformer-dim-aan: 1536"},
	{"base", "dim-emb: 512\nenc-depth: 6\ntransformer-heads: 8\ntransformer-dim-ffn: 2048\ntransformer-dim-aan: 2048"},
	{"large", "dim-emb: 1024\nenc-depth: 12\ntransformer-heads: 16\ntransformer-dim-ffn: 4096\ntransformer-dim-aan: 4096"},
}

// decoders are the kinds of decoders that the students of the WNGT 2018 and 2019 tasks had. Tied layers share parameters.
var decoders = []struct{ name, lines string }{
	{"SSRU", "transformer-decoder-autoreg: rnn\ndec-cell: ssru"},
	{"SSRU-tied", "transformer-decoder-autoreg: rnn\ndec-cell: ssru\ntransformer-tied-layers: [1, 1]"},
	{"AAN", "transformer-decoder-autoreg: average-attention"},
	{"self-attention", "transformer-decoder-autoreg: self-attention"},
}

// together are the numbers of sentences that are translated together: the last is how many slots the engine has unless it is told otherwise.
var together = []int{1, 32, 48}

// tuned measures how matrices are multiplied best, as the engine does when it loads a model.
func tuned(matrices []kernels.Matrix) { kernels.Tuning{}.Tune(300*time.Millisecond, matrices...) }

// BenchmarkArchitectures translates sentences of 26 pieces into as many, greedily, with shortlists of about 760, by one worker, for every
// size, decoder, precision, and number of sentences together. The weights are random. scripts/bench.sh makes a table of it.
func BenchmarkArchitectures(b *testing.B) {
	for i, size := range sizes {
		for _, decoder := range decoders {
			var m *model.Model // made for the first that is asked for
			for _, precision := range precisions {
				var w *Weights
				for _, together := range together {
					b.Run(fmt.Sprintf("%s/%s/%v/%d", size.name, decoder.name, precision, together), func(b *testing.B) {
						random := rand.New(rand.NewPCG(uint64(i), 11))
						if m == nil {
							m = synthesise(b, describeFamily(size.lines+"\ntransformer-ffn-activation: relu\n"+decoder.lines), false, random)
						}
						if w == nil {
							w = pack(b, m, precision, Options{Tune: tuned})
						}
						benchGreedy(b, m, w.NewStepper(together), max(8, together), random)
					})
				}
			}
		}
	}
}
