//go:build linux && (amd64 || arm64) && !nogpu

package gpunetwork

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

const vocabulary = 37

// student describes a model like the tiny student, shrunken; more is added to the description, in place of what it repeats.
func student(more string) []byte {
	lines := []string{"type: transformer", "dim-vocabs: [37, 37]", "dim-emb: 32", "transformer-heads: 2", "transformer-dim-ffn: 48",
		"transformer-ffn-activation: relu", "transformer-decoder-autoreg: rnn", "dec-cell: ssru", "enc-depth: 2", "dec-depth: 2",
		"transformer-tied-layers: [1, 1]", "tied-embeddings-all: true", "version: v1.12.43"}
	for line := range strings.Lines(more) {
		key, _, _ := strings.Cut(line, ":")
		lines = slices.DeleteFunc(lines, func(old string) bool { return strings.HasPrefix(old, key+":") })
		lines = append(lines, strings.TrimSpace(line))
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newNetwork(t testing.TB, description []byte) *network.Network {
	t.Helper()
	m, err := model.New(description)
	must(t, err)
	n, err := network.New(m)
	must(t, err)
	return n
}

// Train is Begin, and waits for the loss, which is the only one that there is to wait for.
func (t *Trainer) Train(worker int, b *network.Batch, options network.Options, seed uint64) (network.Loss, error) {
	if err := t.Begin(worker, b, options, seed); err != nil {
		return network.Loss{}, err
	}
	losses, err := t.Losses(worker)
	if err != nil {
		return network.Loss{}, err
	}
	return losses[len(losses)-1], nil
}

// openDriver returns the driver that the environment names, a real one perhaps, or an emulated device with the kernels for a type.
func openDriver(t testing.TB, stored gpukernels.Storage) *cuda.Driver {
	t.Helper()
	driver, err := cuda.Open(libraryFor(t, stored))
	must(t, err)
	return driver
}

// initial returns a state with values as a training begins with them, which bfloat16 can hold, so that both sides begin alike.
func initial(n *network.Network) optimiser.State {
	values := make([]float32, n.Size())
	n.Initialise(values, 1)
	for i, v := range values {
		values[i] = math.Float32frombits(math.Float32bits(v) &^ 0xffff)
	}
	return optimiser.State{Values: values, Mean: make([]float32, n.Size()), Square: make([]float32, n.Size()), Average: slices.Clone(values)}
}

func openTrainer(t testing.TB, n *network.Network, state optimiser.State, stored gpukernels.Storage) *Trainer {
	t.Helper()
	trainer, err := open(openDriver(t, stored), []int{0}, n, state, stored)
	must(t, err)
	t.Cleanup(func() { must(t, trainer.Close()) })
	return trainer
}

// randomBatch returns sentence pairs of given lengths.
func randomBatch(seed uint64, lengths ...[2]int) *network.Batch {
	random := rand.New(rand.NewPCG(seed, 1))
	sentence := func(n int) (tokens []int32) {
		for range n - 1 {
			tokens = append(tokens, 1+random.Int32N(vocabulary-1))
		}
		return append(tokens, 0)
	}
	b := new(network.Batch)
	for _, l := range lengths {
		b.Source.Add(sentence(l[0]))
		b.Target.Add(sentence(l[1]))
	}
	return b
}

var everything = network.Options{
	LabelSmoothing: 0.1, Dropout: 0.1, DropoutAttention: 0.1, DropoutFFN: 0.1, DropoutSource: 0.2, DropoutTarget: 0.2, DropoutRNN: 0.1,
}

// s2s makes a recurrent model of the student.
const s2s = "type: s2s\ndim-rnn: 24\ntied-embeddings-all: false\ntied-embeddings: true\nenc-depth: 1\ndec-depth: 1\ndec-cell: gru\n"

// Loss and gradients are those of the processor, with everything dropped that it drops: each parameter's gradient has nearly the same
// direction and length.
func TestGradients(t *testing.T) {
	for name, more := range map[string]string{
		"student":            "",
		"pre-norm":           "transformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n\ntransformer-postprocess-emb: d\ntransformer-rnn-projection: true\ntransformer-tied-layers: []",
		"self-attention":     "transformer-decoder-autoreg: self-attention\ntied-embeddings-all: false\ntransformer-heads: 4\noutput-omit-bias: true",
		"wide heads":         "transformer-decoder-autoreg: self-attention\ndim-emb: 272\nenc-depth: 1\ndec-depth: 1\ntransformer-tied-layers: []",
		"swish, RMS":         "transformer-ffn-activation: swish\ntransformer-postprocess: dar\ntransformer-postprocess-emb: dr",
		"gelu, highway":      "transformer-ffn-activation: gelu\ntransformer-postprocess: dhn\ntransformer-tied-layers: []",
		"SRU":                "dec-cell: sru\ntransformer-ffn-activation: swish",
		"SRU, pre-norm":      "dec-cell: sru\ntransformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n",
		"AAN":                "transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 48\ntransformer-aan-activation: relu",
		"AAN, no gate":       "transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 48\ntransformer-aan-nogate: true\ntransformer-aan-depth: 3\ntransformer-aan-activation: gelu\ntransformer-preprocess: r\ntransformer-postprocess: da",
		"GRU":                "dec-cell: gru\ntransformer-ffn-activation: swish",
		"LSTM":               "dec-cell: lstm\ntransformer-rnn-projection: true\nlayer-normalization: true\ntransformer-ffn-activation: swish",
		"language model":     "type: lm-transformer\ntied-embeddings-all: false\ntied-embeddings: true\ndim-vocabs: [37]\ntransformer-ffn-activation: swish",
		"two sources":        "type: multi-transformer\ndim-vocabs: [37, 37, 37]\ntied-embeddings-all: false\ntransformer-ffn-activation: swish",
		"two sources, alike": "type: shared-multi-transformer\ndim-vocabs: [37, 37, 37]\ntransformer-ffn-activation: swish",
		"recurrent":          s2s + "enc-depth: 2\nenc-cell-depth: 2\ndec-depth: 2\ndec-cell-base-depth: 3",
		"multiplicative":     s2s + "enc-cell: mlstm\ndec-cell: mgru",
		"recurrent SRU":      s2s + "enc-cell: sru\ndec-cell: sru\ndec-cell-base-depth: 1\ndim-rnn: 32",
		"recurrent SSRU":     s2s + "enc-cell: ssru\ndim-rnn: 32",
		"recurrent LM":       s2s + "type: lm\ndim-vocabs: [37]",
		"recurrent, two":     s2s + "type: multi-s2s\ndim-vocabs: [37, 37, 37]",
		"Devlin":             s2s + "type: devlin\ndec-fc-depth: 3\ndim-fc: 40",
		"Devlin, GRU":        s2s + "type: devlin\ndec-fc-depth: 1\ndec-top: gru",
		"hard attention":     s2s + "type: hard-soft-att\nspecial-vocab: [2, 3, 9, 20]",
		"hard alone":         s2s + "type: hard-att\nspecial-vocab: [2, 3, 9, 20]\ndec-depth: 2",
		"no positions":       "transformer-ffn-activation: swish\ntransformer-disable-position-embeddings: true\ntransformer-no-projection: true\ntransformer-ffn-depth: 3\ntransformer-postprocess-top: da",
	} {
		t.Run(name, func(t *testing.T) { checkGradients(t, name, more, 4) })
	}
}

// The same for widths that are no multiples of 8.
func TestGradientsOfOddWidths(t *testing.T) {
	const odd = "dim-emb: 30\ntransformer-dim-ffn: 45\ntransformer-heads: 3\ntransformer-ffn-activation: swish\n"
	for name, more := range map[string]string{
		"self-attention":  odd + "transformer-decoder-autoreg: self-attention\ntied-embeddings-all: false\ntransformer-decoder-dim-ffn: 51",
		"wide heads":      odd + "transformer-decoder-autoreg: self-attention\ndim-emb: 262\ntransformer-heads: 2\nenc-depth: 1\ndec-depth: 1\ntransformer-tied-layers: []",
		"SRU, highway":    odd + "dec-cell: sru\ntransformer-postprocess: dhn\ntransformer-tied-layers: []",
		"AAN, RMS":        odd + "transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 44\ntransformer-aan-activation: swish\ntransformer-postprocess: dar",
		"sigmoid":         odd + "transformer-ffn-activation: sigmoid\ntransformer-ffn-depth: 3",
		"AAN, sigmoid":    odd + "transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 44\ntransformer-aan-activation: sigmoid\ntransformer-aan-depth: 3",
		"no projection":   odd + "transformer-no-projection: true\ntransformer-ffn-activation: gelu\ndim-emb: 26\ntransformer-heads: 2",
		"GRU with norms":  odd + "dec-cell: gru\nlayer-normalization: true",
		"two sources":     odd + "type: multi-transformer\ndim-vocabs: [37, 37, 37]\ntied-embeddings-all: false",
		"recurrent":       s2s + "dim-emb: 21\ndim-rnn: 27\nenc-depth: 2\ndec-depth: 2\nenc-type: alternating\nskip: true",
		"multiplicative":  s2s + "enc-cell: mlstm\ndec-cell: mgru\ndim-emb: 21\ndim-rnn: 27",
		"recurrent SRU":   s2s + "enc-cell: sru\ndec-cell: sru\ndec-cell-base-depth: 1\ndim-rnn: 29\ndim-emb: 29",
		"recurrent, two":  s2s + "type: multi-s2s\ndim-vocabs: [37, 37, 37]\ndim-rnn: 27",
		"Devlin":          s2s + "type: devlin\ndec-fc-depth: 3\ndim-fc: 39\ndim-rnn: 27\ndim-emb: 21",
		"hard attention":  s2s + "type: hard-soft-att\nspecial-vocab: [2, 3, 9, 20]\ndim-rnn: 27\ndim-emb: 21",
		"recurrent LM":    s2s + "type: lm\ndim-vocabs: [37]\ndim-emb: 21\ndim-rnn: 27",
		"double multiple": s2s + "dim-emb: 15\ndim-rnn: 30",
	} {
		t.Run(name, func(t *testing.T) { checkGradients(t, name, more, 4) })
	}
	t.Run("SSRU, pre-norm", func(t *testing.T) {
		checkGradients(t, "", odd+"transformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n\ntransformer-postprocess-emb: d", 1.0/8)
	})
	t.Run("norms in recurrent cells", func(t *testing.T) {
		checkGradients(t, "", s2s+"enc-cell: lstm\ndec-cell: gru\nlayer-normalization: true\ndim-emb: 21\ndim-rnn: 27\nskip: true", 1.0/8)
	})
}

// The same for layer norms of states that begin as zeros: they multiply gradients by thousands, for which float16 is too small.
func TestGradientsOfNorms(t *testing.T) {
	for name, more := range map[string]string{
		"recurrent, skips": s2s + "enc-type: alternating\nenc-depth: 2\ndec-depth: 2\nskip: true\nlayer-normalization: true",
		"recurrent LSTM":   s2s + "enc-cell: lstm\ndec-cell: lstm\nlayer-normalization: true\nenc-type: bi-unidirectional\nenc-depth: 2",
		"tanh, ReLU":       s2s + "enc-cell: tanh\ndec-cell: relu\nlayer-normalization: true",
		"Nematus":          s2s + "type: nematus\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nlayer-normalization: true\nenc-cell-depth: 2\ndec-cell-base-depth: 3",
	} {
		t.Run(name, func(t *testing.T) { checkGradients(t, name, more, 1.0/8) })
	}
}

// checkGradients compares loss and gradients of an architecture. The words' weights keep gradients where float16 is exact: with small ones, and
// without words that are dropped, norms do not multiply them beyond it.
func checkGradients(t *testing.T, name, more string, weight float32) {
	t.Helper()
	n := newNetwork(t, student(more))
	state := initial(n)
	gpu := openTrainer(t, n, state, gpukernels.Float16)
	cpu := network.NewReplica(n, autodiff.Device[float32](autodiff.Plain[float32]{}), state.Values)
	batch := randomBatch(5, [2]int{5, 4}, [2]int{1, 1}, [2]int{3, 9}, [2]int{7, 2})
	if n.Model.Sources() > 1 {
		batch.Further = append(batch.Further, randomBatch(6, [2]int{2, 1}, [2]int{4, 1}, [2]int{1, 1}, [2]int{6, 1}).Source)
	}
	if n.Model.Sources() == 0 {
		batch.Source = network.Side{}
	}
	for range batch.Target.Tokens {
		batch.Weights = append(batch.Weights, weight)
	}
	batch.Weights[2], batch.Weights[5] = weight/2, 0
	options := everything
	if weight < 1 {
		options.DropoutSource, options.DropoutTarget = 0, 0
	}
	guide(batch, &options, name)
	sameAgain(t, gpu, batch, options, compareGradients(t, gpu, cpu, batch, options))
}

// compareGradients compares the loss of a batch, and the gradient, with the processor's, and returns the gradient.
func compareGradients(t *testing.T, gpu *Trainer, cpu *network.Replica[float32], batch *network.Batch, options network.Options) []float32 {
	t.Helper()
	want := cpu.Train(batch, options, 5)
	have, err := gpu.Train(0, batch, options, 5)
	must(t, err)
	if !(math.Abs(have.Alignment-want.Alignment) <= 0.001*want.Alignment) || (want.Alignment > 0) != (options.AlignmentWeight > 0) {
		t.Errorf("the loss of the alignment is %v, want %v", have.Alignment, want.Alignment)
	}
	if have.Words != want.Words || have.Sentences != want.Sentences || !(math.Abs(have.CrossEntropy-want.CrossEntropy) < 0.001*want.CrossEntropy) {
		t.Errorf("the loss is %+v, want %+v", have, want)
	}
	gradient, err := gradientOf(gpu)
	must(t, err)
	parameters := gpu.workers[0].layout.network.Parameters
	for i := range parameters {
		compareDirection(t, &parameters[i], network.Values(&parameters[i], gradient), network.Values(&parameters[i], cpu.Gradient))
	}
	return gradient
}

// Of more than a few rows, the logits of no more than half of a vocabulary exist at a time, and loss and gradients are those of all.
func TestLogitsInPieces(t *testing.T) {
	n := newNetwork(t, student("dim-vocabs: [1500, 1500]\nenc-depth: 1\ndec-depth: 1\ntransformer-tied-layers: []"))
	state := initial(n)
	gpu := openTrainer(t, n, state, gpukernels.Float16)
	cpu := network.NewReplica(n, autodiff.Device[float32](autodiff.Plain[float32]{}), state.Values)
	batch := randomBatch(5, [2]int{9, 30}, [2]int{20, 25}, [2]int{3, 15})
	for i := range batch.Target.Tokens { // of all pieces of the vocabulary
		if batch.Target.Tokens[i] != 0 {
			batch.Target.Tokens[i] = batch.Target.Tokens[i]*997%1499 + 1
		}
		batch.Weights = append(batch.Weights, 4)
	}
	compareGradients(t, gpu, cpu, batch, network.Options{LabelSmoothing: 0.1})
	const logit, gradient = 4, 2 // bytes
	all := len(batch.Target.Tokens) * 1500 * (logit + gradient)
	if taken := gpu.workers[0].tape.logits; taken < all/4 || taken > all*3/5 {
		t.Errorf("logits take %d bytes; all that there are take %d", taken, all)
	}
}

// guide gives a batch of the sentences of TestGradients an alignment, for some architectures.
func guide(b *network.Batch, options *network.Options, name string) {
	switch name {
	case "student", "wide heads", "recurrent, two", "Devlin":
		options.AlignmentWeight = 3
	case "self-attention", "multiplicative":
		options.AlignmentWeight, options.AlignmentCost = 2, autodiff.AlignmentMSE
	default:
		return
	}
	b.Alignment = []autodiff.AlignmentPoint{{Sentence: 0, Query: 0, Key: 2}, {Sentence: 0, Query: 3, Key: 0}, {Sentence: 0, Query: 3, Key: 4},
		{Sentence: 1, Query: 0, Key: 0}, {Sentence: 2, Query: 8, Key: 1}, {Sentence: 3, Query: 1, Key: 6}}
}

// A table that stays as it is has no gradient, and all others have theirs.
func TestFixed(t *testing.T) {
	for _, more := range []string{"", "\ndim-emb: 30"} {
		checkFixed(t, more)
	}
}

func checkFixed(t *testing.T, more string) {
	t.Helper()
	n := newNetwork(t, student("tied-embeddings-all: false\ntied-embeddings: true"+more))
	gpu := openTrainer(t, n, initial(n), gpukernels.BFloat16)
	batch := randomBatch(5, [2]int{5, 4}, [2]int{3, 9})
	_, err := gpu.Train(0, batch, everything, 5)
	must(t, err)
	want, err := gradientOf(gpu)
	must(t, err)
	must(t, gpu.Clear())
	fixed := n.Parameter(n.Model.TargetEmbedding)
	gpu.Fix([]*marian.Tensor{n.Model.TargetEmbedding})
	_, err = gpu.Train(0, batch, everything, 5)
	must(t, err)
	have, err := gradientOf(gpu)
	must(t, err)
	if of := network.Values(fixed, want); !slices.ContainsFunc(of, func(g float32) bool { return g != 0 }) {
		t.Error("the table has no gradient anyway")
	}
	clear(network.Values(fixed, want))
	if !slices.Equal(have, want) {
		t.Error("the gradient of the table is not all that is missing")
	}
}

// gradientOf returns the gradient of the first device. It is an error if there is anything in gaps.
func gradientOf(t *Trainer) ([]float32, error) {
	w := t.workers[0]
	gradient, whole := make([]float32, w.layout.network.Size()), make([]float32, w.n)
	err := w.bound(func() error {
		return w.layout.collect(gradient, func(stored []float32) error {
			defer func() { copy(whole, stored) }()
			return cuda.CopyOut(w.stream, stored, w.gradient)
		})
	})
	if spread := w.layout.spread(gradient); err == nil && !slices.Equal(spread, whole) && !slices.ContainsFunc(whole, func(g float32) bool { return g != g }) {
		return nil, errors.New("the gradient has numbers in gaps")
	}
	return gradient, err
}

// compareDirection compares the gradients of a parameter.
func compareDirection(t *testing.T, p *network.Parameter, have, want []float32) {
	t.Helper()
	compareDirectionWithin(t, p, have, want, 0.001)
}

// compareDirectionWithin is compareDirection for cosines that may be off by more.
func compareDirectionWithin(t *testing.T, p *network.Parameter, have, want []float32, tolerance float64) {
	t.Helper()
	var both, ofHave, ofWant float64
	for i, w := range want {
		both += float64(have[i]) * float64(w)
		ofHave += float64(have[i]) * float64(have[i])
		ofWant += float64(w) * float64(w)
	}
	if strings.HasSuffix(p.Name, "_bk") { // softmax does not see what is added to all scores: what there is, is rounding
		return
	}
	if ofHave == 0 && ofWant == 0 {
		return
	}
	cosine, ratio := both/math.Sqrt(ofHave*ofWant), math.Sqrt(ofHave/ofWant)
	if !(cosine > 1-tolerance) || !(math.Abs(ratio-1) < max(0.03, 5*tolerance)) {
		t.Errorf("%s: the cosine of the gradients is %v, the ratio of their lengths %v, want 1 and 1", p.Name, cosine, ratio)
	}
}

// sameAgain trains on the batch again: the gradient must have the same bits, though the tape's memory has become one block.
func sameAgain(t *testing.T, gpu *Trainer, batch *network.Batch, options network.Options, want []float32) {
	t.Helper()
	must(t, gpu.Clear())
	_, err := gpu.Train(0, batch, options, 5)
	must(t, err)
	have, err := gradientOf(gpu)
	must(t, err)
	if !slices.Equal(have, want) {
		t.Error("the same batch and seed have given another gradient")
	}
}

// The losses of updates follow those of the processor, and so do the parameters and their average.
func TestUpdates(t *testing.T) {
	for name, more := range map[string]string{"student": "", "recurrent": s2s, "language model": s2s + "type: lm\ndim-vocabs: [37]\ndec-cell: lstm",
		"odd widths": "dim-emb: 30\ntransformer-dim-ffn: 45"} {
		t.Run(name, func(t *testing.T) { checkUpdates(t, more) })
	}
}

func checkUpdates(t *testing.T, more string) {
	t.Helper()
	n := newNetwork(t, student(more))
	state := initial(n)
	gpu := openTrainer(t, n, state, gpukernels.BFloat16)
	config := optimiser.Config{Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 0.003, ClipNorm: 1, Smoothing: 0.01}
	values := slices.Clone(state.Values)
	cpu, onCPU, onGPU := network.NewReplica(n, autodiff.Device[float32](autodiff.Plain[float32]{}), values), optimiser.New(config, values),
		optimiser.New(config, slices.Clone(values))
	first, last := 0.0, 0.0
	for step := range 5 {
		batch := randomBatch(3, [2]int{5, 4}, [2]int{2, 8}, [2]int{9, 6})
		if n.Model.Sources() == 0 {
			batch.Source = network.Side{}
		}
		scale := 1 / float64(len(batch.Target.Tokens))
		want := cpu.Train(batch, everything, uint64(step))
		_, err := onCPU.Step([][]float32{cpu.Gradient}, scale)
		must(t, err)
		have, err := gpu.Train(0, batch, everything, uint64(step))
		must(t, err)
		square, err := gpu.Squares(scale)
		must(t, err)
		move, _, err := onGPU.Decide(square)
		must(t, err)
		must(t, gpu.Move(move, scale))
		if !(math.Abs(have.CrossEntropy-want.CrossEntropy) < 0.01*want.CrossEntropy) {
			t.Errorf("update %d: the loss is %v, want %v", step+1, have.CrossEntropy, want.CrossEntropy)
		}
		if last = have.CrossEntropy; step == 0 {
			first = last
		}
	}
	if !(last < 0.97*first) {
		t.Errorf("after five updates the loss is %v, which began with %v", last, first)
	}
	must(t, gpu.Fetch(state))
	for what, vectors := range map[string][2][]float32{"values": {state.Values, values}, "average": {state.Average, onCPU.Average}} {
		apart, moved := 0.0, 0.0
		began := initial(n).Values
		for i, v := range vectors[1] {
			apart += math.Pow(float64(vectors[0][i]-v), 2)
			moved += math.Pow(float64(v-began[i]), 2)
		}
		if !(apart < 0.05*moved) {
			t.Errorf("%s: %v apart after a way of %v", what, math.Sqrt(apart), math.Sqrt(moved))
		}
	}
}

// Quantised training: losses and gradients are those of rounded parameters that meet rounded rows, as on the processor, and the step moves the
// others, which stay with what losses are of until that is told anew.
func TestQuantised(t *testing.T) {
	for name, more := range map[string]string{"student": "transformer-ffn-activation: swish", "recurrent": s2s, "Devlin": s2s + "type: devlin\ndec-fc-depth: 2",
		"odd widths": "dim-emb: 30\ntransformer-dim-ffn: 45\ntransformer-ffn-activation: swish"} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, student(more))
			state := initial(n)
			trained := make([]float32, n.Size())
			for i, v := range state.Values {
				trained[i] = float32(math.Round(float64(v)*16)) / 16
			}
			gpu := openTrainer(t, n, state, gpukernels.Float16)
			gpu.Quantise()
			must(t, gpu.Put(optimiser.State{}, trained))
			cpu := network.NewReplica(n, autodiff.Device[float32](autodiff.Plain[float32]{}), trained)
			cpu.Quantised = true
			batch := randomBatch(5, [2]int{5, 4}, [2]int{1, 1}, [2]int{3, 9}, [2]int{7, 2})
			want := cpu.Train(batch, network.Options{Dropout: 0.1, DropoutRNN: 0.1}, 5)
			train := func() float64 {
				have, err := gpu.Train(0, batch, network.Options{Dropout: 0.1, DropoutRNN: 0.1}, 5)
				must(t, err)
				return have.CrossEntropy
			}
			have := train()
			if !(math.Abs(have-want.CrossEntropy) < 0.002*want.CrossEntropy) {
				t.Errorf("the loss is %v, want %v", have, want.CrossEntropy)
			}
			gradient, err := gradientOf(gpu)
			must(t, err)
			for i := range n.Parameters {
				p := &n.Parameters[i]
				compareDirectionWithin(t, p, network.Values(p, gradient), network.Values(p, cpu.Gradient), 0.02)
			}
			must(t, gpu.Move(optimiser.Move{Clip: 1, Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, Rate: 0.01, Root: 1}, 1))
			fetched := optimiser.State{Values: make([]float32, n.Size())}
			must(t, gpu.Fetch(fetched))
			moved, most := 0, 0.0
			for i, v := range fetched.Values {
				if v != state.Values[i] {
					moved++
				}
				most = max(most, math.Abs(float64(v-state.Values[i])))
			}
			if moved < n.Count()/2 || most > 0.1 {
				t.Errorf("%d of %d parameters moved, by %v at most", moved, n.Count(), most)
			}
			if again := train(); again != have {
				t.Errorf("after a step the loss of the same rounded parameters is %v, not %v", again, have)
			}
			must(t, gpu.Put(optimiser.State{}, fetched.Values))
			if again := train(); again == have {
				t.Errorf("the loss of other parameters is %v, too", again)
			}
			must(t, gpu.Put(state, nil))
			must(t, gpu.Fetch(fetched))
			if !slices.Equal(fetched.Values, state.Values) {
				t.Error("the state that was put there is not what is fetched")
			}
			if err := gpu.Put(optimiser.State{}, trained[1:]); err == nil {
				t.Error("fewer parameters than there are were taken")
			}
		})
	}
}

// In quantised training, every product reads rounded rows: what it gives for any rows it gives without it for the rounded ones, bit for bit.
func TestQuantisedProducts(t *testing.T) {
	n := newNetwork(t, student(""))
	gpu := openTrainer(t, n, initial(n), gpukernels.Float16)
	w := gpu.workers[0]
	tape, random := &w.tape, rand.New(rand.NewPCG(1, 2))
	const rows = 3
	given := make([]uint16, rows*n.Model.Dim)
	for i := range given {
		given[i] = gpukernels.Float16.Round(random.Float32() - 0.5)
	}
	layer := &n.Model.Decoder[0].FFN.Layers[0]
	for name, operation := range map[string]func(x *matrix) (at cuda.Pointer, bytes int){
		"affine": func(x *matrix) (cuda.Pointer, int) {
			y := tape.affine(x, layer, false)
			return y.at, 2 * y.numbers()
		},
		"joint": func(x *matrix) (cuda.Pointer, int) {
			y := tape.multiply(&model.Product{Matrices: []model.Affine{*layer}}, nil, x)
			return y.at, 2 * y.numbers()
		},
		"output": func(x *matrix) (cuda.Pointer, int) {
			return tape.loss(x, &n.Model.Output, []int32{1, 7, 3}, nil, 0.1), 16 * rows
		},
	} {
		run := func(x []uint16, quantised bool) []byte {
			w.quantised = quantised
			var result []byte
			must(t, w.bound(func() error {
				tape.reset(1)
				m := tape.matrix(rows, n.Model.Dim)
				tape.do(func() error { return cuda.CopyIn(w.stream, m.at, x) })
				at, bytes := operation(m)
				result = make([]byte, bytes)
				tape.do(func() error { return cuda.CopyOut(w.stream, result, at) })
				return tape.err
			}))
			return result
		}
		rounded := make([]uint16, len(given))
		must(t, w.bound(func() error {
			tape.reset(1)
			x, y := tape.matrix(rows, n.Model.Dim), tape.matrix(rows, n.Model.Dim)
			tape.do(func() error { return cuda.CopyIn(w.stream, x.at, given) })
			tape.do(func() error { return w.kernels.RoundRows(w.stream, y.at, x.view()) })
			tape.do(func() error { return cuda.CopyOut(w.stream, rounded, y.at) })
			return tape.err
		}))
		want, exact := run(rounded, false), run(given, false)
		if have := run(given, true); !slices.Equal(have, want) || slices.Equal(want, exact) {
			t.Errorf("%s: equal to that of rounded rows: %v, which differs from that of others: %v", name, slices.Equal(have, want), !slices.Equal(want, exact))
		}
	}
}

// Mini-batches that are asked for without waiting for the losses of those before give what they give one by one: losses in their order, and the sum
// of the gradients.
func TestAhead(t *testing.T) {
	n := newNetwork(t, student(""))
	var batches []*network.Batch
	for i := range 6 {
		b := randomBatch(uint64(i), [2]int{5, 4}, [2]int{3 + i, 9 - i}, [2]int{2, 2 * (i + 1)})
		for range b.Target.Tokens {
			b.Weights = append(b.Weights, 1/float32(i+1))
		}
		b.Alignment = []autodiff.AlignmentPoint{{Sentence: 0, Query: 1, Key: 2}, {Sentence: 1, Query: 0, Key: int32(i)}}
		batches = append(batches, b)
	}
	options := everything
	options.AlignmentWeight = 2
	train := func(together bool) (losses []network.Loss, gradient []float32) {
		gpu := openTrainer(t, n, initial(n), gpukernels.BFloat16)
		for i, b := range batches {
			must(t, gpu.Begin(0, b, options, uint64(i)))
			if together && i < len(batches)-1 {
				continue
			}
			own, err := gpu.Losses(0)
			must(t, err)
			losses = append(losses, own...)
		}
		gradient, err := gradientOf(gpu)
		must(t, err)
		return losses, gradient
	}
	want, ofWant := train(false)
	have, ofHave := train(true)
	if len(want) != len(batches) || !slices.Equal(have, want) {
		t.Errorf("losses %v, want %v", have, want)
	}
	if !slices.Equal(ofHave, ofWant) {
		t.Error("the gradient differs")
	}
	for i, l := range want {
		if l.Words != len(batches[i].Target.Tokens) || !(l.CrossEntropy > 0) || !(l.Alignment > 0) {
			t.Errorf("mini-batch %d: %+v", i, l)
		}
	}
}

// What cannot be trained is refused, with what it is.
func TestRefusals(t *testing.T) {
	for more, want := range map[string]string{
		"dim-emb: 1032\ntransformer-heads: 1": "1 heads for dimension 1032",
	} {
		_, err := Open(nil, []int{0}, newNetwork(t, student(more)), optimiser.State{})
		if !errors.Is(err, network.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", more, err, want)
		}
	}
	n := newNetwork(t, student(""))
	gpu := openTrainer(t, n, initial(n), gpukernels.BFloat16)
	if err := gpu.Fetch(optimiser.State{Values: make([]float32, 3)}); err == nil {
		t.Error("three numbers were taken for all parameters")
	}
}

// A gradient that is not finite shows in its squares, and is gone after Clear.
func TestNotFinite(t *testing.T) {
	n := newNetwork(t, student(""))
	state := initial(n)
	state.Values[n.Parameters[0].Offset] = float32(math.Inf(1))
	gpu := openTrainer(t, n, state, gpukernels.BFloat16)
	_, err := gpu.Train(0, randomBatch(1, [2]int{6, 6}), network.Options{}, 1)
	must(t, err)
	square, err := gpu.Squares(1)
	must(t, err)
	if !math.IsNaN(square) && !math.IsInf(square, 0) {
		t.Errorf("the squares of an infinite gradient are %v", square)
	}
	must(t, gpu.Clear())
	if square, err = gpu.Squares(1); err != nil || square != 0 {
		t.Errorf("the squares of a gradient of zero are %v, %v", square, err)
	}
}

// Every parameter of a network with gaps has a place for each of its numbers, and comes back from there.
func TestLayout(t *testing.T) {
	for _, more := range []string{"dim-emb: 30\ntransformer-heads: 3\ntransformer-dim-ffn: 45", s2s + "dim-emb: 21\ndim-rnn: 27",
		"transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 44\ndim-emb: 30\ntransformer-heads: 3"} {
		n := newNetwork(t, student(more))
		l, err := newLayout(n)
		must(t, err)
		vector, seen := make([]float32, n.Size()), map[int]bool{}
		l.each(func(at, place int) {
			if vector[at]++; seen[place] {
				t.Errorf("%q: place %d is taken twice", more, place)
			}
			seen[place] = true
		})
		for i := range n.Parameters {
			if slices.ContainsFunc(network.Values(&n.Parameters[i], vector), func(visits float32) bool { return visits != 1 }) {
				t.Errorf("%q: not every number of %s has one place", more, n.Parameters[i].Name)
			}
		}
		for i := range vector {
			vector[i] *= float32(i)
		}
		stored, again := l.spread(vector), make([]float32, n.Size())
		must(t, l.collect(again, func(to []float32) error { copy(to, stored); return nil }))
		if !slices.Equal(again, vector) || len(stored) <= len(vector) {
			t.Errorf("%q: what is stored comes back otherwise", more)
		}
	}
	if l, err := newLayout(newNetwork(t, student(""))); err != nil || l.spaced() {
		t.Errorf("a network of multiples of 8 has gaps: %v", err)
	}
}

func TestRowsOfTokens(t *testing.T) {
	order, starts := rowsOfTokens([]int32{3, -1, 0, 3, 6, 3, 0})
	if !slices.Equal(order, []int32{2, 6, 0, 3, 5, 4}) || !slices.Equal(starts, []int32{0, 2, 5, 6}) {
		t.Errorf("%v, %v", order, starts)
	}
	if order, starts = rowsOfTokens([]int32{-1}); len(order) != 0 || !slices.Equal(starts, []int32{0}) {
		t.Errorf("no tokens: %v, %v", order, starts)
	}
}

// What is measured covers all that an update asks of the device, in the order in which it is asked for, and changes nothing.
func TestTimes(t *testing.T) {
	n := newNetwork(t, student(""))
	batch, moved := randomBatch(1, [2]int{5, 7}, [2]int{9, 3}), optimiser.Move{Clip: 1, Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, Rate: 1e-3, Root: 1}
	plain, measured := openTrainer(t, n, initial(n), gpukernels.BFloat16), openTrainer(t, n, initial(n), gpukernels.BFloat16)
	must(t, measured.Measure())
	read := func(trainer *Trainer) Times {
		t.Helper()
		times, err := trainer.Times(0)
		must(t, err)
		return times
	}
	began, stretches, waited := time.Now(), 0, time.Duration(0)
	for _, part := range []struct {
		name  string
		least int // operations
		waits bool
		work  func(*Trainer) (float64, error)
	}{
		{"gradient", 100, true, func(trainer *Trainer) (float64, error) {
			loss, err := trainer.Train(0, batch, everything, 1)
			return loss.CrossEntropy, err
		}},
		{"squares", 1, true, func(trainer *Trainer) (float64, error) { return trainer.Squares(1) }},
		{"step", 1, false, func(trainer *Trainer) (float64, error) { return 0, trainer.Move(moved, 1) }},
		{"gradient after it", 100, true, func(trainer *Trainer) (float64, error) {
			loss, err := trainer.Train(0, batch, everything, 2)
			return loss.CrossEntropy, err
		}},
	} {
		want, err := part.work(plain)
		must(t, err)
		have, err := part.work(measured)
		must(t, err)
		if have != want {
			t.Errorf("%s: %v where it is measured, %v where not", part.name, have, want)
		}
		times := read(measured)
		if more := len(times.Stretches) - stretches; more < part.least {
			t.Errorf("%s: %d operations were measured, want %d", part.name, more, part.least)
		}
		if part.waits != (times.Waited > waited) {
			t.Errorf("%s: the processor has waited for %v, before for %v", part.name, times.Waited, waited)
		}
		stretches, waited = len(times.Stretches), times.Waited
	}
	elapsed, times := time.Since(began), read(measured)
	const rounding = time.Microsecond
	last := time.Duration(0)
	for _, s := range times.Stretches {
		if s.End < s.Begin || s.End < last-rounding {
			t.Fatalf("a stretch from %v to %v behind one that ends at %v", s.Begin, s.End, last)
		}
		last = s.End
	}
	if busy := gpukernels.Busy(times.Stretches); busy <= 0 || busy > elapsed || waited > elapsed {
		t.Errorf("within %v the device was busy for %v, and the processor waited for %v", elapsed, busy, waited)
	}
	if times := read(plain); len(times.Stretches) > 0 || times.Waited == 0 {
		t.Errorf("without Measure, %+v", times)
	}
}
