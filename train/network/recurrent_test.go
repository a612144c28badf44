package network

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/translator/cpumodel"
	"github.com/sluice-mt/sluice/translator/model"
)

// recurrentArchitectures are descriptions of recurrent models, and of transformers with recurrent cells, beside the lines of small.
var recurrentArchitectures = []string{
	"type: s2s\ndim-rnn: 3\nenc-depth: 1\ndec-depth: 1",
	"type: s2s\ndim-rnn: 3\nenc-depth: 2\nenc-cell-depth: 2\ndec-cell-base-depth: 4\ndec-depth: 2\nlayer-normalization: true\nskip: true",
	"type: amun\ndim-rnn: 3\nenc-depth: 1\ndec-depth: 1\ntied-embeddings-all: false\ndim-vocabs: [6, 7]",
	"type: nematus\ndim-rnn: 3\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nenc-depth: 1\ndec-depth: 1\nlayer-normalization: true\nenc-cell-depth: 2\ndec-cell-base-depth: 3\ntied-embeddings-all: false",
	"type: nematus\ndim-rnn: 3\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nenc-depth: 1\ndec-depth: 1\nenc-cell-depth: 2\ndec-cell-base-depth: 3\ntied-embeddings-all: false",
	"type: s2s\ndim-rnn: 3\nenc-cell: lstm\ndec-cell: lstm\nskip: true\nenc-cell-depth: 2\ndec-cell-base-depth: 3\nenc-type: bi-unidirectional\nenc-depth: 3\ndec-cell-high-depth: 2",
	"type: s2s\ndim-rnn: 3\nenc-cell: lstm\ndec-cell: lstm\nlayer-normalization: true\nenc-type: alternating\ntied-embeddings-all: false\ntied-embeddings: true",
	"type: s2s\ndim-rnn: 3\nenc-cell: tanh\ndec-cell: relu\nlayer-normalization: true\nenc-cell-depth: 2",
	"type: s2s\ndim-rnn: 3\nenc-cell: relu\ndec-cell: tanh\ndec-cell-base-depth: 3",
	"type: s2s\ndim-rnn: 3\nenc-cell: mlstm\ndec-cell: mgru\nenc-depth: 1\ndec-depth: 2\nlayer-normalization: true",
	"type: s2s\ndim-rnn: 3\nenc-cell: mgru\ndec-cell: mlstm\nenc-depth: 1\ndec-depth: 1",
	"type: s2s\ndim-rnn: 4\nenc-cell: sru\ndec-cell: sru\ndec-cell-base-depth: 1\nlayer-normalization: true",
	"type: s2s\ndim-rnn: 4\nenc-cell: ssru\ndec-cell: ssru\nenc-type: alternating\ndec-cell-base-depth: 1\ndec-depth: 1",
	"type: s2s\ndim-rnn: 4\nenc-type: bi-unidirectional\ndec-cell: sru\ndec-depth: 1",
	"type: multi-s2s\ndim-rnn: 3\ndim-vocabs: [7, 6, 7]\nenc-depth: 1\ndec-depth: 1\nlayer-normalization: true\ntied-embeddings-all: false",
	"type: shared-multi-s2s\ndim-rnn: 3\ndim-vocabs: [7, 7, 7]\nenc-depth: 1\ndec-depth: 1",
	"type: multi-transformer\ndim-vocabs: [7, 6, 7]\ntied-embeddings-all: false",
	"type: shared-multi-transformer\ndim-vocabs: [7, 7, 7]\ntransformer-preprocess: n\ntransformer-postprocess: da\ntransformer-decoder-autoreg: average-attention",
	"type: lm\ndim-rnn: 3\ndim-vocabs: [7]\ndec-cell: gru\nskip: true\ntied-embeddings-all: false",
	"type: lm\ndim-rnn: 3\ndim-vocabs: [7]\ndec-cell: lstm\ndec-depth: 1\nlayer-normalization: true\ntied-embeddings-all: false\ntied-embeddings: true",
	"transformer-decoder-autoreg: rnn\ndec-cell: gru",
	"transformer-decoder-autoreg: rnn\ndec-cell: gru-nematus\nlayer-normalization: true\ntransformer-preprocess: n\ntransformer-postprocess: da\ntransformer-tied-layers: [1, 1]",
	"transformer-decoder-autoreg: rnn\ndec-cell: lstm\ntransformer-rnn-projection: true\nlayer-normalization: true",
	"transformer-decoder-autoreg: rnn\ndec-cell: ssru\nlayer-normalization: true",
	"transformer-decoder-autoreg: rnn\ndec-cell: sru\nlayer-normalization: true",
	"type: hard-att\ndim-rnn: 3\nspecial-vocab: [2, 6]\ndec-depth: 2\nskip: true",
	"type: hard-soft-att\ndim-rnn: 3\nspecial-vocab: [2, 6]\nlayer-normalization: true\ndec-depth: 1\ntied-embeddings-all: false",
	"type: multi-hard-att\ndim-rnn: 3\ndim-vocabs: [7, 6, 7]\nspecial-vocab: [2]\nenc-depth: 1\ndec-depth: 1\ndec-cell: lstm\ntied-embeddings-all: false",
	"type: devlin\ndim-rnn: 3\nenc-depth: 1\ndec-fc-depth: 5\ndim-fc: 4",
	"type: devlin\ndim-rnn: 3\nenc-depth: 1\ndec-fc-depth: 2\ndec-top: gru",
	"type: devlin\ndim-rnn: 3\nenc-depth: 1\ndec-fc-depth: 0\ntied-embeddings-all: false",
}

// TestEngine compares the log-probabilities of words, with random parameters, with those of the engine's model, step by step.
func TestEngine(t *testing.T) {
	for i, lines := range recurrentArchitectures {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			description := describe(lines)
			n := newNetwork(t, description)
			vector := make([]float32, n.Size())
			for i, v := range randomValues(n) {
				vector[i] = float32(v)
			}
			m, err := model.Load(n.File(vector, description), nil)
			if err != nil {
				t.Fatal(err)
			}
			weights, err := cpumodel.Load(m, cpumodel.Float32, cpumodel.Options{ForScoring: true})
			if m.Type == "devlin" && errors.Is(err, model.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			compareForced(t, NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), vector), weights, smallBatch())
		})
	}
}

// TestRecurrentSinglePrecision compares the gradients on the CPU's kernels with those in float64.
func TestRecurrentSinglePrecision(t *testing.T) {
	for _, i := range []int{0, 1, 3, 6, 10} {
		lines := recurrentArchitectures[i] + "\ndim-vocabs: [500, 500]\ndim-emb: 32\ndim-rnn: 48"
		compareSinglePrecision(t, lines, 6)
	}
}

// TestRecurrentBFloat16Precision is TestRecurrentSinglePrecision with products that read bfloat16, but for LSTMs with layer normalisation, whose
// gradients at the start have ten times the errors of the others in float32, too.
func TestRecurrentBFloat16Precision(t *testing.T) {
	for _, i := range []int{0, 1, 3, 10} {
		lines := recurrentArchitectures[i] + "\ndim-vocabs: [500, 500]\ndim-emb: 32\ndim-rnn: 48"
		comparePrecision(t, new(autodiff.BFloat16CPU), lines, 6, 1e-3, 0.15)
	}
}

// TestNoAllocationRecurrent trains again and again: a step must not allocate.
func TestNoAllocationRecurrent(t *testing.T) {
	for _, i := range []int{1, 5, 10} {
		n := newNetwork(t, describe(recurrentArchitectures[i]))
		r := NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), make([]float32, n.Size()))
		batch := smallBatch()
		step := func() { r.Train(batch, Options{DropoutRNN: 0.1}, 1) }
		step()
		step()
		if allocations := testing.AllocsPerRun(10, step); allocations > 0 {
			t.Errorf("%d: %v allocations in a step", i, allocations)
		}
	}
}
