package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/translator/model"
)

const small = `type: transformer
dim-vocabs: [7, 7]
dim-emb: 4
transformer-heads: 2
enc-depth: 2
dec-depth: 2
transformer-dim-ffn: 6
transformer-dim-aan: 6
tied-embeddings-all: true
version: v1.12.43
`

// architectures are descriptions beside the lines of small, which they override.
var architectures = []string{
	"",
	"transformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n\ntransformer-ffn-activation: swish",
	"transformer-preprocess: dn\ntransformer-postprocess: a\ntransformer-postprocess-top: da\ntransformer-postprocess-emb: nd",
	"transformer-postprocess: dar\ntransformer-ffn-activation: relu",
	"transformer-postprocess: hn\ntransformer-no-projection: true\ntransformer-postprocess-top: h",
	"transformer-decoder-autoreg: rnn\ndec-cell: ssru\ntransformer-tied-layers: [1, 1]\ntransformer-ffn-activation: gelu",
	"transformer-decoder-autoreg: rnn\ndec-cell: ssru\ntransformer-preprocess: n\ntransformer-postprocess: da\ntransformer-rnn-projection: true",
	"transformer-decoder-autoreg: rnn\ndec-cell: sru\ntransformer-decoder-dim-ffn: 3\ntransformer-decoder-ffn-depth: 3",
	"transformer-decoder-autoreg: average-attention\ntransformer-aan-activation: relu",
	"transformer-decoder-autoreg: average-attention\ntransformer-aan-depth: 1\ntransformer-aan-nogate: true\ntransformer-preprocess: n\ntransformer-postprocess: da",
	"tied-embeddings-all: false\ntied-embeddings: true\ntransformer-guided-alignment-layer: \"1\"",
	"tied-embeddings-all: false\ntied-embeddings-src: true\noutput-omit-bias: true",
	"tied-embeddings-all: false\ndim-vocabs: [6, 7]\ntransformer-disable-position-embeddings: true",
	"type: lm-transformer\ntied-embeddings-all: false\ntied-embeddings: true\ndim-vocabs: [7]",
	"enc-depth: 0\ntransformer-postprocess-top: da",
}

// describe returns small with lines replaced or added.
func describe(lines string) []byte {
	description := small
	for line := range strings.SplitSeq(lines, "\n") {
		key, _, _ := strings.Cut(line, ":")
		if key == "" {
			continue
		}
		if at := strings.Index(description, key+":"); at >= 0 {
			end := at + strings.IndexByte(description[at:], '\n') + 1
			description = description[:at] + description[end:]
		}
		description += line + "\n"
	}
	return []byte(description)
}

func newNetwork(t testing.TB, description []byte) *Network {
	t.Helper()
	m, err := model.New(description)
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// randomValues fills every parameter, biases and scales included.
func randomValues(n *Network) []float64 {
	random := rand.New(rand.NewPCG(3, 4))
	vector := make([]float64, n.Size())
	for i := range n.Parameters {
		for j := range Values(&n.Parameters[i], vector) {
			vector[n.Parameters[i].Offset+j] = 0.6 * random.NormFloat64()
		}
	}
	return vector
}

func smallBatch() *Batch {
	b := new(Batch)
	b.Further = make([]Side, 1)
	for _, pair := range [][2][]int32{{{3, 5, 0}, {4, 2, 2, 0}}, {{2, 0}, {0}}, {{1, 4, 4, 5, 0}, {6, 0}}} {
		b.Source.Add(pair[0])
		b.Further[0].Add(pair[0][1:])
		b.Target.Add(pair[1])
	}
	return b
}

// TestGradients compares the gradient of every architecture, with dropout of all kinds, label smoothing, weights and guided
// alignment, with central differences in float64.
func TestGradients(t *testing.T) {
	options := Options{
		LabelSmoothing: 0.1, Dropout: 0.2, DropoutAttention: 0.2, DropoutFFN: 0.2, DropoutSource: 0.2, DropoutTarget: 0.2,
		DropoutRNN: 0.2, AlignmentWeight: 0.3,
	}
	for i, lines := range slices.Concat(architectures, recurrentArchitectures) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			n := newNetwork(t, describe(lines))
			values := randomValues(n)
			r := NewReplica(n, autodiff.Device[float64](autodiff.Plain[float64]{}), values)
			batch := smallBatch()
			batch.Weights = []float32{1, 1, 0.5, 2, 1, 1, 0}
			batch.Alignment = []autodiff.AlignmentPoint{{Sentence: 0, Query: 1, Key: 2}, {Sentence: 0, Query: 1, Key: 0}, {Sentence: 2, Query: 0, Key: 3}}
			loss := func() float64 {
				l := r.Train(batch, options, 5)
				return l.Total()
			}
			loss()
			gradient := slices.Clone(r.Gradient)
			for j := range n.Parameters {
				p := &n.Parameters[j]
				compareDifferences(t, p, Values(p, values), Values(p, gradient), loss)
			}
		})
	}
}

func compareDifferences(t *testing.T, p *Parameter, values, gradient []float64, loss func() float64) {
	t.Helper()
	different, zero := 0, true
	for i, v := range values {
		const h = 2e-5
		values[i] = v + h
		above := loss()
		values[i] = v - h
		below := loss()
		values[i] = v
		want := (above - below) / (2 * h)
		zero = zero && gradient[i] == 0
		if math.Abs(gradient[i]-want) > 2e-6*(1+math.Abs(want)) {
			different++
			t.Logf("%s[%d]: gradient %v, by differences %v", p.Name, i, gradient[i], want)
		}
	}
	// A kink of a ReLU may lie between the two values of a difference, but hardly of two.
	if different > 1 {
		t.Errorf("%s: %d of %d gradients differ", p.Name, different, len(values))
	}
	if zero && !strings.HasSuffix(p.Name, "_bk") { // softmax does not see what is added to all scores
		t.Errorf("%s has no gradient", p.Name)
	}
}

// TestSinglePrecision compares the gradients on the CPU's kernels with those in float64, on a network large enough that
// every kernel is used.
func TestSinglePrecision(t *testing.T) {
	for _, lines := range architectures[:9] {
		compareSinglePrecision(t, lines+"\ndim-vocabs: [500, 500]\ndim-emb: 64\ntransformer-heads: 4\ntransformer-dim-ffn: 96\ntransformer-dim-aan: 96", 6)
	}
}

func compareSinglePrecision(t *testing.T, lines string, sentences int) {
	t.Helper()
	comparePrecision(t, new(autodiff.CPU), lines, sentences, 1e-5, 1e-4)
}

// TestBFloat16Precision is TestSinglePrecision with products that read bfloat16, whose rounding errors are up to 2^-9.
func TestBFloat16Precision(t *testing.T) {
	for _, lines := range architectures[:9] {
		comparePrecision(t, new(autodiff.BFloat16CPU), lines+"\ndim-vocabs: [500, 500]\ndim-emb: 64\ntransformer-heads: 4\ntransformer-dim-ffn: 96\ntransformer-dim-aan: 96", 6, 1e-3, 0.1)
	}
}

// comparePrecision compares the loss and the gradients of all parameters on a device with those in float64.
func comparePrecision(t *testing.T, device autodiff.Device[float32], lines string, sentences int, lossError, gradientError float64) {
	t.Helper()
	n := newNetwork(t, describe(lines))
	single, double := make([]float32, n.Size()), make([]float64, n.Size())
	n.Initialise(single, 1)
	for i, v := range single {
		double[i] = float64(v)
	}
	batch := randomBatch(sentences, 500)
	exact := NewReplica(n, autodiff.Device[float64](autodiff.Plain[float64]{}), double)
	fast := NewReplica(n, device, single)
	want, got := exact.Train(batch, Options{LabelSmoothing: 0.1}, 1), fast.Train(batch, Options{LabelSmoothing: 0.1}, 1)
	if math.Abs(got.Total()-want.Total()) > lossError*want.Total() {
		t.Errorf("%q: loss %v, want %v", lines, got, want)
	}
	for i := range n.Parameters {
		p := &n.Parameters[i]
		if e := relativeError(Values(p, fast.Gradient), Values(p, exact.Gradient)); e > gradientError && !strings.HasSuffix(p.Name, "_bk") {
			t.Errorf("%q: gradient of %s differs by %v", lines, p.Name, e)
		}
	}
}

// relativeError returns |a - b|/|b|.
func relativeError(a []float32, b []float64) float64 {
	var difference, size float64
	for i, v := range b {
		difference += (float64(a[i]) - v) * (float64(a[i]) - v)
		size += v * v
	}
	return math.Sqrt(difference / size)
}

func randomBatch(sentences, vocabulary int) *Batch {
	random := rand.New(rand.NewPCG(8, 9))
	b := new(Batch)
	sentence := func() []int32 {
		tokens := make([]int32, 1+random.IntN(30))
		for i := range tokens[:len(tokens)-1] {
			tokens[i] = int32(1 + random.IntN(vocabulary-1))
		}
		return tokens
	}
	for range sentences {
		b.Source.Add(sentence())
		b.Target.Add(sentence())
	}
	return b
}

// TestNoAllocation trains again and again: a step must not allocate.
func TestNoAllocation(t *testing.T) {
	for name, device := range map[string]autodiff.Device[float32]{"float32": new(autodiff.CPU), "bfloat16": new(autodiff.BFloat16CPU)} {
		t.Run(name, func(t *testing.T) { checkNoAllocation(t, device) })
	}
}

func checkNoAllocation(t *testing.T, device autodiff.Device[float32]) {
	t.Helper()
	n := newNetwork(t, describe("transformer-decoder-autoreg: rnn\ndec-cell: ssru\ndim-emb: 64\ntransformer-dim-ffn: 96"))
	r := NewReplica(n, device, make([]float32, n.Size()))
	batch := smallBatch()
	step := func() { r.Train(batch, Options{Dropout: 0.1, DropoutAttention: 0.1}, 1) }
	step()
	step()
	if allocations := testing.AllocsPerRun(10, step); allocations > 0 {
		t.Errorf("%v allocations in a step", allocations)
	}
}
