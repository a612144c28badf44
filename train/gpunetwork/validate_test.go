//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/gpukernels/emulated"
	"github.com/sluice-mt/sluice/train"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// Losses of validation are those of the processor, of whatever parameters, and leave everything as it was: the next mini-batch has the gradient
// that it would have had.
func TestEvaluate(t *testing.T) {
	for name, more := range map[string]string{
		"student": "", "recurrent": s2s, "language model": s2s + "type: lm\ndim-vocabs: [37]\ndec-cell: lstm", "odd widths": "dim-emb: 30\ntransformer-dim-ffn: 45",
	} {
		t.Run(name, func(t *testing.T) { checkEvaluate(t, more, false) })
	}
	t.Run("quantised", func(t *testing.T) { checkEvaluate(t, "transformer-ffn-activation: swish", true) })
}

func checkEvaluate(t *testing.T, more string, quantised bool) {
	t.Helper()
	n := newNetwork(t, student(more))
	state := initial(n)
	gpu := openTrainer(t, n, state, gpukernels.Float16)
	if quantised {
		gpu.Quantise()
	}
	batches := []network.Batch{*randomBatch(5, [2]int{5, 4}, [2]int{1, 1}), *randomBatch(6, [2]int{3, 9}), *randomBatch(7, [2]int{7, 2})}
	longest := *randomBatch(8, [2]int{9, 9}, [2]int{9, 9})
	if n.Model.Sources() == 0 {
		longest.Source = network.Side{}
		for i := range batches {
			batches[i].Source = network.Side{}
		}
	}
	train := func() []float32 {
		_, err := gpu.Train(0, &batches[0], everything, 3)
		must(t, err)
		gradient, err := gradientOf(gpu)
		must(t, err)
		return gradient
	}
	want := train()
	must(t, gpu.Clear())
	for range 2 { // from here on, there is memory for every mini-batch
		_, err := gpu.Train(0, &longest, everything, 3)
		must(t, err)
	}
	must(t, gpu.Clear())
	train()
	others := slices.Clone(state.Values)
	for i, v := range others {
		others[i] = v / 2
	}
	free := freeOn(t, gpu.workers[0].driver, 0)
	for _, of := range [][]float32{nil, others} {
		parameters := of
		if of == nil {
			parameters = state.Values
		}
		cpu := network.NewEvaluator(n, autodiff.Device[float32](autodiff.Plain[float32]{}), parameters)
		cpu.Quantised = quantised
		have, err := gpu.Evaluate(batches, of)
		must(t, err)
		for i := range batches {
			want := cpu.Evaluate(&batches[i], nil)
			if h := have[i]; h.Words != want.Words || h.Sentences != want.Sentences || h.Alignment != 0 || !(math.Abs(h.CrossEntropy-want.CrossEntropy) < 0.001*want.CrossEntropy) {
				t.Errorf("batch %d, others %v: the loss is %+v, want %+v", i, of != nil, h, want)
			}
		}
	}
	if left := freeOn(t, gpu.workers[0].driver, 0); left != free {
		t.Errorf("%d bytes of the device stay taken", free-left)
	}
	if after, err := gradientOf(gpu); err != nil || !slices.Equal(after, want) {
		t.Errorf("validation has changed the gradient: %v", err)
	}
	must(t, gpu.Clear())
	if !slices.Equal(train(), want) {
		t.Error("after validation, a mini-batch has another gradient")
	}
}

// Several devices share the mini-batches of validation.
func TestEvaluateOnSeveral(t *testing.T) {
	setEmulated(t, "devices", "2", "1")
	n := newNetwork(t, student(""))
	state := initial(n)
	gpu, err := open(openDriver(t, gpukernels.BFloat16), []int{0, 1}, n, state, gpukernels.BFloat16)
	must(t, err)
	defer func() { must(t, gpu.Close()) }()
	one := openTrainer(t, n, state, gpukernels.BFloat16)
	var batches []network.Batch
	for i := range 5 {
		batches = append(batches, *randomBatch(uint64(i), [2]int{5, 4}, [2]int{3 + i, 6}))
	}
	others := slices.Repeat([]float32{0.01}, n.Size())
	for _, of := range [][]float32{nil, others} {
		have, err := gpu.Evaluate(batches, of)
		must(t, err)
		want, err := one.Evaluate(batches, of)
		must(t, err)
		if !slices.Equal(have, want) {
			t.Errorf("others %v: the losses are %v, want %v", of != nil, have, want)
		}
	}
	if used := gpu.workers[1].tape.used; used == 0 {
		t.Error("the second device has had nothing to do")
	}
}

// Without memory for it, losses of validation are left to the processor, and training goes on as if nothing had been.
func TestEvaluateWithoutMemory(t *testing.T) {
	n := newNetwork(t, student(""))
	state := initial(n)
	gpu := openTrainer(t, n, state, gpukernels.BFloat16)
	batch := randomBatch(1, [2]int{3, 4})
	loss, err := gpu.Train(0, batch, everything, 1)
	must(t, err)
	want, err := gradientOf(gpu)
	must(t, err)
	must(t, gpu.Clear())
	large := []network.Batch{*batch, *randomBatch(2, slices.Repeat([][2]int{{20, 20}}, 30)...)}
	_, err = gpu.Train(0, batch, network.Options{}, 1) // the block is as large as the mini-batch
	must(t, err)
	must(t, gpu.Clear())
	free := freeOn(t, gpu.workers[0].driver, 0)
	for _, nth := range []int{1, 9} { // for the parameters, and for an activation
		setEmulated(t, "fault", fmt.Sprintf("cuMemAlloc:%d:2", nth), "")
		_, err := gpu.Evaluate(large, slices.Clone(state.Values))
		setEmulated(t, "fault", "", "")
		if !errors.Is(err, network.ErrCannotValidate) || !errors.Is(err, cuda.ErrOutOfMemory) {
			t.Errorf("allocation %d: %v", nth, err)
		}
		if left := freeOn(t, gpu.workers[0].driver, 0); left != free {
			t.Errorf("allocation %d: %d bytes of the device stay taken", nth, free-left)
		}
	}
	must(t, gpu.Begin(0, batch, everything, 1))
	if losses, err := gpu.Losses(0); err != nil || !slices.Equal(losses, []network.Loss{loss}) {
		t.Errorf("after that, a mini-batch has losses %v (%v), want %v", losses, err, loss)
	}
	if have, err := gradientOf(gpu); err != nil || !slices.Equal(have, want) {
		t.Errorf("after that, a mini-batch has another gradient: %v", err)
	}
}

// openWithBoth returns a driver whose devices have kernels for both types, as real ones do: a training's and those of translating.
func openWithBoth(t *testing.T) *cuda.Driver {
	t.Helper()
	library := os.Getenv(emulated.LibraryVariable)
	if library == "" {
		library = emulated.LibraryOfBoth(t, emulated.Unwatched, emulated.Sources(t)...)
	}
	driver, err := cuda.Open(library)
	must(t, err)
	return driver
}

// A trainer that leaves validation to the processor.
type withoutValidation struct{ *Trainer }

func (withoutValidation) Evaluate([]network.Batch, []float32) ([]network.Loss, error) {
	return nil, network.ErrCannotValidate
}

func (withoutValidation) Translate(*model.Model, bool, []search.Token) (d translator.Device, release func() error, err error) {
	return d, nil, network.ErrCannotValidate
}

// A training validates on its GPU what it would on the processor: translations are the same, losses nearly, and so is what is the best, and when
// to stop.
func TestValidation(t *testing.T) {
	driver := openWithBoth(t)
	for name, change := range map[string]func(*train.Config){
		"averaged": func(c *train.Config) { c.Smoothing = 0.1 },
		"recurrent": func(c *train.Config) {
			c.Description.Type, c.DimRNN, c.DecCell, c.Autoregression = "s2s", 24, "gru", "self-attention"
		},
		"quantised": func(c *train.Config) { c.QuantizeBits, c.Smoothing = 8, 0.1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := toyTraining(t)
			change(&c)
			onGPU := validations(t, c, func(trainer *Trainer) train.Device { return trainer }, driver)
			onCPU := validations(t, c, func(trainer *Trainer) train.Device { return withoutValidation{trainer} }, driver)
			if len(onGPU) == 0 || len(onGPU) != len(onCPU) {
				t.Fatalf("%d measurements on the GPU, %d on the processor", len(onGPU), len(onCPU))
			}
			best := 0.0
			for i, have := range onGPU {
				want, tolerance := onCPU[i], 0.005*onCPU[i].Value
				if want.Metric == "bleu" {
					tolerance, best = 0, max(best, want.Value)
					if c.QuantizeBits > 0 { // what is between two integers may be rounded to either
						tolerance = 3
					}
				}
				if have.Update != want.Update || have.Metric != want.Metric || have.Stalled != want.Stalled || !(math.Abs(have.Value-want.Value) <= tolerance) {
					t.Errorf("on the GPU %+v, want %+v", have, want)
				}
			}
			if best < 20 {
				t.Errorf("the best translations have a BLEU of %v: nothing was learnt that could be compared", best)
			}
		})
	}
}

// toyTraining returns settings of a training that learns to say a number for each letter.
func toyTraining(t *testing.T) train.Config {
	t.Helper()
	folder := t.TempDir()
	write := func(name string, lines []string) string {
		at := filepath.Join(folder, name)
		must(t, os.WriteFile(at, []byte(strings.Join(lines, "\n")+"\n"), 0o666))
		return at
	}
	vocabulary := []string{"</s>: 0", "<unk>: 1"}
	for i := range 6 {
		vocabulary = append(vocabulary, fmt.Sprintf("%c: %d", 'a'+i, 2+i), fmt.Sprintf("\"%d\": %d", i, 8+i))
	}
	var letters, digits []string
	for i := range 36 {
		letters = append(letters, fmt.Sprintf("%c %c %c %c", 'a'+i%6, 'a'+i/6, 'a'+i%5, 'a'+i%4))
		digits = append(digits, fmt.Sprintf("%d %d %d %d", i%6, i/6, i%5, i%4))
	}
	c := train.DefaultConfig()
	c.Description.Type, c.DimEmb, c.Heads, c.DimFFN, c.EncDepth, c.DecDepth = "transformer", 32, 2, 48, 1, 1
	c.FFNActivation, c.Autoregression, c.DecCell, c.TiedEmbeddingsAll = "relu", "rnn", "ssru", true
	c.Model, c.TrainSets, c.Vocabs = filepath.Join(folder, "m.npz"), []string{write("a", letters), write("b", digits)}, []string{write("v.yml", vocabulary)}
	c.MiniBatch, c.AfterBatches, c.LearnRate, c.LRWarmup, c.ValidFreq = 36, 27, 0.02, 5, 9
	c.ValidSets, c.ValidMetrics, c.EarlyStopping = c.TrainSets, []string{"perplexity", "bleu"}, 2
	return c
}

// validations trains and returns what validation has measured.
func validations(t *testing.T, c train.Config, as func(*Trainer) train.Device, driver *cuda.Driver) (measured []train.Measurement) {
	t.Helper()
	c.Model = filepath.Join(t.TempDir(), "m.npz")
	_, err := train.RunOn(t.Context(), c, func(n *network.Network, state optimiser.State) (train.Device, error) {
		trainer, err := Open(driver, []int{0}, n, state)
		return as(trainer), err
	}, slog.New(slog.DiscardHandler))
	must(t, err)
	lines, err := os.ReadFile(c.Model + ".metrics.jsonl")
	must(t, err)
	for line := range bytes.Lines(lines) {
		var m train.Measurement
		must(t, json.Unmarshal(line, &m))
		if m.Kind == "valid" {
			measured = append(measured, m)
		}
	}
	return measured
}
