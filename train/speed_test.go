package train

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// BenchmarkAgainstJAX trains the tiny student (full softmax over 32,000 words, float32) for whole steps, optimiser included, on
// one thread here and in JAX: the same parameters and batches. It reports target words per second of processor time, of which
// waiting for a shared core is no part.
func BenchmarkAgainstJAX(b *testing.B) {
	program := python(b)
	a := defaultArchitecture()
	a.DimEmb, a.Heads, a.EncDepth, a.DecDepth, a.DimFFN = 256, 8, 6, 2, 1536
	a.FFNActivation, a.Autoregression, a.DecCell, a.TiedEmbeddingsAll = "relu", "rnn", "ssru", true
	const vocabulary = 32000
	description, err := describe(a, []int{vocabulary, vocabulary})
	if err != nil {
		b.Fatal(err)
	}
	m, err := model.New(description)
	if err != nil {
		b.Fatal(err)
	}
	n, err := network.New(m)
	if err != nil {
		b.Fatal(err)
	}
	values := make([]float32, n.Size())
	n.Initialise(values, 1)
	folder := b.TempDir()
	if err := marian.WriteNPZ(filepath.Join(folder, "model.npz"), n.File(values, description)); err != nil {
		b.Fatal(err)
	}
	const steps = 6
	task := jaxTask{
		Dim: a.DimEmb, Heads: a.Heads, EncDepth: a.EncDepth, DecDepth: a.DecDepth, Activation: "relu", Recurrent: true,
		Smoothing: 0.1, Adam: []float64{0.9, 0.98, 1e-9}, Clip: 1, Rates: slices.Repeat([]float64{1e-4}, steps),
		Batches: [][][2]sentence{similarPairs(vocabulary)},
	}
	flags := "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
	for b.Loop() {
		runJAX(b, program, folder, task, "XLA_FLAGS="+flags, "OMP_NUM_THREADS=1")
		theirs := slices.Min(readNumbers(b, filepath.Join(folder, "times.json"))[1:])
		words, ours := ownSteps(b, n, values, &task)
		b.ReportMetric(words/theirs, "JAX-words/s")
		b.ReportMetric(words/ours, "words/s")
		b.ReportMetric(theirs/ours, "×JAX")
	}
}

// ownSteps returns the target words of a step, and the least processor time that one took, in seconds.
func ownSteps(b *testing.B, n *network.Network, values []float32, task *jaxTask) (words, seconds float64) {
	b.Helper()
	replica := network.NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), slices.Clone(values))
	o := optimiser.New(optimiser.Config{Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 1e-4, ClipNorm: 1}, values)
	var batch network.Batch
	for _, pair := range task.Batches[0] {
		batch.Source.Add(pair[0])
		batch.Target.Add(pair[1])
	}
	for step := range task.Rates {
		begin := cputime.Process()
		loss := replica.Train(&batch, network.Options{LabelSmoothing: task.Smoothing}, 1)
		if _, err := o.Step([][]float32{replica.Gradient}, 1/float64(loss.Words)); err != nil {
			b.Fatal(err)
		}
		if took := (cputime.Process() - begin).Seconds(); step > 0 && (seconds == 0 || took < seconds) {
			seconds = took
		}
	}
	return float64(len(batch.Target.Tokens)), seconds
}

// similarPairs returns 64 pairs of 23 to 26 words, as sorting by length gives them.
func similarPairs(vocabulary int32) [][2]sentence {
	random := rand.New(rand.NewPCG(7, 7))
	var pairs [][2]sentence
	for range 64 {
		var pair [2]sentence
		for side := range pair {
			for range 22 + random.IntN(4) {
				pair[side] = append(pair[side], 1+random.Int32N(vocabulary-1))
			}
			pair[side] = append(pair[side], 0)
		}
		pairs = append(pairs, pair)
	}
	return pairs
}
