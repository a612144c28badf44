package network

import (
	"testing"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/train/autodiff"
)

// studentDescription is the tiny student: see the table of students in browsermt and Firefox.
const studentDescription = `type: transformer
dim-vocabs: [32000, 32000]
dim-emb: 256
transformer-heads: 8
enc-depth: 6
dec-depth: 2
transformer-dim-ffn: 1536
transformer-ffn-activation: relu
transformer-decoder-autoreg: rnn
dec-cell: ssru
tied-embeddings-all: true
version: v1.12.43
`

// BenchmarkStudent trains the tiny student, without its optimiser, on one core. It reports target words per second, the
// multiply-adds of all matrix products per second, and their share of what one large product reaches alone: the ceiling,
// measured in the same run. Times are the processor's, so that other processes on the machine count less.
func BenchmarkStudent(b *testing.B) {
	b.Run("float32", func(b *testing.B) { benchmarkStudent(b, new(autodiff.CPU)) })
	b.Run("bfloat16", func(b *testing.B) { benchmarkStudent(b, new(autodiff.BFloat16CPU)) })
}

func benchmarkStudent(b *testing.B, device autodiff.Device[float32]) {
	b.Helper()
	n := newNetwork(b, []byte(studentDescription))
	values := make([]float32, n.Size())
	n.Initialise(values, 1)
	r := NewReplica(n, device, values)
	batch := randomBatch(64, 32000)
	options := Options{LabelSmoothing: 0.1, Dropout: 0.1}
	r.Train(batch, options, 1)
	begin := cputime.Process()
	for b.Loop() {
		r.Train(batch, options, 1)
	}
	seconds := (cputime.Process() - begin).Seconds() / float64(b.N)
	source, target := float64(len(batch.Source.Tokens)), float64(len(batch.Target.Tokens))
	perSource := 6.0 * (4*256*256 + 2*256*1536)
	perTarget := 2.0*(2*256*256+2*256*256+2*256*1536) + 256*32000
	contexts := 2.0 * 2 * 256 * 256 * source // keys and values
	rate := 3 * (source*perSource + target*perTarget + contexts) / seconds
	b.ReportMetric(target/seconds, "words/s")
	b.ReportMetric(rate/1e9, "GMAC/s")
	b.ReportMetric(100*rate/ceiling(b), "%ceiling")
}

// ceiling returns the multiply-adds per second of a large product of packed float32 matrices.
func ceiling(b *testing.B) float64 {
	b.Helper()
	const rows, k, n, products = 1024, 256, 1536, 20
	w := kernels.PackFloat32(k, n, make([]float32, k*n))
	x, y := make([]float32, rows*k), make([]float32, rows*n)
	best := 0.0
	for range 10 {
		begin := cputime.Process()
		for range products {
			kernels.MulFloat32(y, n, x, k, rows, w, nil, kernels.None)
		}
		best = max(best, products*rows*k*n/(cputime.Process()-begin).Seconds())
	}
	return best
}

// BenchmarkRecurrent trains a recurrent model of the size of the small one in Marian's benchmarks, without its optimiser, on one core,
// and reports target words per second of processor time.
func BenchmarkRecurrent(b *testing.B) {
	n := newNetwork(b, []byte("type: s2s\ndim-vocabs: [32000, 32000]\ndim-emb: 256\ndim-rnn: 512\ntied-embeddings-all: true\nlayer-normalization: true\n"))
	values := make([]float32, n.Size())
	n.Initialise(values, 1)
	r := NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), values)
	batch := randomBatch(64, 32000)
	r.Train(batch, Options{LabelSmoothing: 0.1}, 1)
	begin := cputime.Process()
	for b.Loop() {
		r.Train(batch, Options{LabelSmoothing: 0.1}, 1)
	}
	b.ReportMetric(float64(b.N*len(batch.Target.Tokens))/(cputime.Process()-begin).Seconds(), "words/s")
}
