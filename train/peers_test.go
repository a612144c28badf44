package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// peerThreads is how many threads BenchmarkPeers gives to each.
const peerThreads = 2

// BenchmarkPeers trains the tiny student (full softmax over 32,000 words, float32) for whole steps, optimiser included, here, in JAX
// and in PyTorch if python3 has it: the same parameters and batch, on two threads. It reports target words a second by the clock, of
// the fastest step, and fails if the losses are not the same. To mean anything it needs two cores of its own.
func BenchmarkPeers(b *testing.B) {
	program, folder := python(b), b.TempDir()
	n, values, description := tinyStudent(b)
	if err := marian.WriteNPZ(filepath.Join(folder, "model.npz"), n.File(values, description)); err != nil {
		b.Fatal(err)
	}
	const steps = 5
	m := n.Model
	task := jaxTask{
		Dim: m.Dim, Heads: m.Heads, EncDepth: len(m.Encoder), DecDepth: len(m.Decoder), Activation: "relu", Recurrent: true,
		Smoothing: 0.1, Adam: []float64{0.9, 0.98, 1e-9}, Clip: 1, Rates: slices.Repeat([]float64{1e-4}, steps),
		Batches: [][][2]sentence{append(similarPairs(32000), similarPairs(32000)...)}, Threads: peerThreads,
	}
	words := 0
	for _, pair := range task.Batches[0] {
		words += len(pair[1])
	}
	for b.Loop() {
		own := autodiff.Numbers[float32](len(values))
		copy(own, values)
		losses, ours := stepsOnThreads(b, n, own, &task)
		b.ReportMetric(float64(words)/ours, "words/s")
		fastest := math.Inf(1)
		for _, peer := range []struct{ name, module, script string }{{"JAX", "jax", "student.py"}, {"PyTorch", "torch", "student_torch.py"}} {
			theirs, ok := peerSteps(b, program, peer.module, peer.script, folder, &task, losses)
			if !ok {
				b.Logf("python3 has no module %s", peer.module)
				continue
			}
			b.ReportMetric(float64(words)/theirs, peer.name+"-words/s")
			fastest = min(fastest, theirs)
		}
		b.ReportMetric(fastest/ours, "×fastest")
	}
}

// tinyStudent is the smallest student of browsermt and Firefox, with random parameters.
func tinyStudent(b *testing.B) (n *network.Network, values []float32, description []byte) {
	b.Helper()
	a := defaultArchitecture()
	a.DimEmb, a.Heads, a.EncDepth, a.DecDepth, a.DimFFN = 256, 8, 6, 2, 1536
	a.FFNActivation, a.Autoregression, a.DecCell, a.TiedEmbeddingsAll = "relu", "rnn", "ssru", true
	description, err := describe(a, []int{32000, 32000})
	if err != nil {
		b.Fatal(err)
	}
	m, err := model.New(description)
	if err != nil {
		b.Fatal(err)
	}
	if n, err = network.New(m); err != nil {
		b.Fatal(err)
	}
	values = make([]float32, n.Size())
	n.Initialise(values, 1)
	return n, values, description
}

// stepsOnThreads returns the losses of the steps, a word, and the time that the fastest but the first took, in seconds. Each thread
// has every second pair, as in train.Run.
func stepsOnThreads(b *testing.B, n *network.Network, values []float32, task *jaxTask) (losses []float64, seconds float64) {
	b.Helper()
	replicas := make([]*network.Replica[float32], task.Threads)
	batches, gradients := make([]network.Batch, task.Threads), make([][]float32, task.Threads)
	for i := range replicas {
		replicas[i] = network.NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), values)
		gradients[i] = replicas[i].Gradient
	}
	for i, pair := range task.Batches[0] {
		batches[i%task.Threads].Source.Add(pair[0])
		batches[i%task.Threads].Target.Add(pair[1])
	}
	o := optimiser.New(optimiser.Config{Beta1: task.Adam[0], Beta2: task.Adam[1], Epsilon: task.Adam[2], LearnRate: task.Rates[0], ClipNorm: task.Clip}, values)
	parts := make([]network.Loss, task.Threads)
	seconds = math.Inf(1)
	for step := range task.Rates {
		begin := time.Now()
		var group sync.WaitGroup
		for i := range replicas {
			group.Go(func() { parts[i] = replicas[i].Train(&batches[i], network.Options{LabelSmoothing: task.Smoothing}, 1) })
		}
		group.Wait()
		var sum network.Loss
		for _, part := range parts {
			sum.Add(part)
		}
		if _, err := o.Step(gradients, 1/float64(sum.Words)); err != nil {
			b.Fatal(err)
		}
		losses = append(losses, sum.CrossEntropy/float64(sum.Words))
		if step > 0 {
			seconds = min(seconds, time.Since(begin).Seconds())
		}
	}
	return losses, seconds
}

// peerSteps does the same with a script; ok is false if there is no such module. The losses must be those given.
func peerSteps(b *testing.B, program, module, script, folder string, task *jaxTask, losses []float64) (seconds float64, ok bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	if exec.CommandContext(ctx, program, "-c", "import "+module).Run() != nil {
		return 0, false
	}
	text, err := json.Marshal(task)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "task.json"), text, 0o666); err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(ctx, program, filepath.Join("testdata", script), folder)
	command.Env = append(os.Environ(), fmt.Sprintf("OMP_NUM_THREADS=%d", task.Threads))
	if output, err := command.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, bytes.TrimSpace(output))
	}
	for i, theirs := range readNumbers(b, filepath.Join(folder, "losses.json")) {
		if math.Abs(theirs-losses[i]) > 1e-3 {
			b.Fatalf("%s: step %d has a loss of %v, here %v", strings.TrimSuffix(script, ".py"), i+1, theirs, losses[i])
		}
	}
	return slices.Min(readNumbers(b, filepath.Join(folder, "wall.json"))[1:]), true
}
