package cpumodel

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// families are models of usual shapes, with random weights, that a benchmark compares.
var families = []syntheticKind{
	{name: "student 256 (6-2 SSRU)", lines: "dim-emb: 256\nenc-depth: 6\ntransformer-heads: 8\ntransformer-dim-ffn: 1536\ntransformer-ffn-activation: relu\ntransformer-decoder-autoreg: rnn\ndec-cell: ssru"},
	{name: "student 512 (6-2 SSRU)", lines: "dim-emb: 512\nenc-depth: 6\ntransformer-heads: 8\ntransformer-dim-ffn: 2048\ntransformer-ffn-activation: relu\ntransformer-decoder-autoreg: rnn\ndec-cell: ssru"},
	{name: "GRU 256-512", lines: "type: s2s\ndim-emb: 256\ndim-rnn: 512\nenc-depth: 1\ndec-depth: 1"},
	{name: "Nematus 512-1024", lines: "type: nematus\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nlayer-normalization: true\ndim-emb: 512\ndim-rnn: 1024\nenc-depth: 1\ndec-depth: 1"},
	{name: "deep GRU 512-1024", lines: "type: s2s\ndim-emb: 512\ndim-rnn: 1024\nenc-type: alternating\nenc-depth: 4\nenc-cell-depth: 2\ndec-cell-base-depth: 4\ndec-depth: 4\ndec-cell-high-depth: 2\nlayer-normalization: true\nskip: true"},
	{name: "Devlin 512-1024, 6 layers", lines: "type: devlin\ndim-emb: 512\ndim-rnn: 1024\nenc-depth: 1\ndec-fc-depth: 6"},
	{name: "Devlin 256-512, 4 layers", lines: "type: devlin\ndim-emb: 256\ndim-rnn: 512\nenc-depth: 1\ndec-fc-depth: 4"},
	{name: "Devlin 512-1024, 8 layers and a GRU", lines: "type: devlin\ndim-emb: 512\ndim-rnn: 1024\nenc-depth: 1\ndec-fc-depth: 8\ndec-top: gru"},
	{name: "LSTM 256-512", lines: "type: s2s\ndim-emb: 256\ndim-rnn: 512\nenc-cell: lstm\ndec-cell: lstm\nenc-depth: 1\ndec-depth: 1"},
}

// describeFamily sets the large vocabulary of real models.
func describeFamily(lines string) string {
	return describe(lines + "\ndim-vocabs: [32000, 32000]\ntied-embeddings-all: true")
}

// BenchmarkFamilies translates sentences of 26 pieces into as many, greedily, with shortlists, in batches of 64. What a piece
// costs is given in multiply-accumulates of products, and the rate of these in percent of the ceiling. Time is that of the
// processor, since others may use the machine too.
func BenchmarkFamilies(b *testing.B) {
	for _, precision := range precisions {
		for i, family := range families {
			b.Run(precision.String()+" "+family.name, func(b *testing.B) {
				random := rand.New(rand.NewPCG(uint64(i), 9))
				m := synthesise(b, describeFamily(family.lines), false, random)
				benchFamily(b, m, precision, random)
			})
		}
	}
}

func benchFamily(b *testing.B, m *model.Model, precision Precision, random *rand.Rand) {
	benchGreedy(b, m, pack(b, m, precision, Options{}).NewStepper(64), 64, random)
}

// benchGreedy translates that many sentences of 26 pieces into as many, greedily, with shortlists, and reports the pass in the middle, of three
// or more.
func benchGreedy(b *testing.B, m *model.Model, s *Stepper, sentences int, random *rand.Rand) {
	const length = 26
	sources := benchSources(s, random, sentences, length)
	g := greedy{stepper: s, eos: search.NoToken - 1, cap: func(source int) int { return source }}
	g.translate(sources)
	var passes []float64 // seconds of processor time
	before := s.Stats()
	for b.Loop() {
		for range 3 {
			begin := cputime.Process()
			g.translate(sources)
			passes = append(passes, (cputime.Process() - begin).Seconds())
		}
	}
	slices.Sort(passes)
	after, seconds := s.Stats(), passes[len(passes)/2]
	pieces, macs := float64(sentences*length), float64(after.MACs-before.MACs)/float64(len(passes))
	parts := float64(after.EncodeTime - before.EncodeTime + after.StepTime - before.StepTime + after.OutputTime - before.OutputTime)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(pieces/seconds, "pieces/s")
	b.ReportMetric(100*(passes[len(passes)-1]/passes[0]-1), "%spread") // of the slowest pass over the fastest
	b.ReportMetric(macs/pieces/1e6, "MMAC/piece")
	b.ReportMetric(macs/seconds/1e9, "GMAC/s")
	b.ReportMetric(100*float64(after.EncodeTime-before.EncodeTime)/parts, "%encoder")
	b.ReportMetric(100*float64(after.StepTime-before.StepTime)/parts, "%decoder")
	b.ReportMetric(float64(parameterBytes(m, s.w.precision))/1e6, "MB")
	peak := map[Precision]func(time.Duration) float64{Int8: kernels.Int8Peak, Int16: kernels.Int16Peak, BFloat16: kernels.BFloat16Peak, Float32: kernels.Float32Peak}[s.w.precision]
	ceiling := peak(20 * time.Millisecond)
	b.ReportMetric(100*macs/seconds/ceiling, "%peak") // zeros that are left out included
}

// parameterBytes is the size of the parameters in a precision.
func parameterBytes(m *model.Model, precision Precision) int {
	width := map[Precision]int{Int8: 1, Int16: 2, BFloat16: 2, Float32: 4}[precision]
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
