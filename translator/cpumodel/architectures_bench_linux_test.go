package cpumodel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
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

// BenchmarkArchitectures translates sentences of 26 pieces into as many, greedily, with shortlists of about 760, by one worker, for every
// size, decoder, precision, and number of sentences together. The weights are random. scripts/bench.sh makes a table of it.
func BenchmarkArchitectures(b *testing.B) {
	for i, size := range sizes {
		for _, decoder := range decoders {
			var m *model.Model // made for the first that is asked for
			for _, precision := range []Precision{Int8, Int16, Float32} {
				var w *Weights
				for _, together := range []int{1, 32, 64} {
					b.Run(fmt.Sprintf("%s/%s/%v/%d", size.name, decoder.name, precision, together), func(b *testing.B) {
						random := rand.New(rand.NewPCG(uint64(i), 11))
						if m == nil {
							m = synthesise(b, describeFamily(size.lines+"\ntransformer-ffn-activation: relu\n"+decoder.lines), false, random)
						}
						if w == nil {
							w = pack(b, m, precision, Options{})
						}
						benchArchitecture(b, m, w.NewStepper(together), random)
					})
				}
			}
		}
	}
}

func benchArchitecture(b *testing.B, m *model.Model, s *Stepper, random *rand.Rand) {
	const length = 26
	sources := benchSources(s, random, max(8, s.Slots()), length)
	g := greedy{stepper: s, eos: search.NoToken - 1, cap: func(source int) int { return source }}
	g.translate(sources)
	passes, before, begin := 0.0, s.Stats(), cputime.Process()
	for b.Loop() {
		g.translate(sources)
		passes++
	}
	seconds := (cputime.Process() - begin).Seconds() / passes
	pieces, macs := float64(len(sources)*length), float64(s.Stats().MACs-before.MACs)/passes
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(pieces/seconds, "pieces/s")
	b.ReportMetric(macs/pieces/1e6, "MMAC/piece")
	b.ReportMetric(float64(parameterBytes(m, s.w.precision))/1e6, "MB")
	switch s.w.precision {
	case Int8:
		b.ReportMetric(100*macs/seconds/kernels.Int8Peak(20*time.Millisecond), "%peak")
	case Int16:
		b.ReportMetric(200*macs/seconds/kernels.Int8Peak(20*time.Millisecond), "%peak")
	default:
		b.ReportMetric(100*macs/seconds/kernels.Float32Peak(20*time.Millisecond), "%peak")
	}
}

// parameterBytes is the size of the parameters in a precision.
func parameterBytes(m *model.Model, precision Precision) int {
	width := map[Precision]int{Int8: 1, Int16: 2, Float32: 4}[precision]
	bytes := 0
	for _, p := range m.Parameters() {
		n := width
		for _, d := range p.Shape {
			n *= d
		}
		bytes += n
	}
	return bytes
}
