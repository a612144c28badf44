package cpumodel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// A naive is a model in the plainest arithmetic: float64, one position at a time.
type naive struct {
	m       *model.Model
	further [][]vec // what the encoders of further sources gave
	values  map[*marian.Tensor][]float32
}

type vec = []float64

func newNaive(m *model.Model) *naive { return &naive{m: m, values: map[*marian.Tensor][]float32{}} }

func (n *naive) of(t *marian.Tensor) []float32 {
	v, ok := n.values[t]
	if !ok {
		var err error
		if v, err = t.Float32(); err != nil {
			panic(err)
		}
		n.values[t] = v
	}
	return v
}

func (n *naive) affine(x vec, a *model.Affine) vec {
	if a == nil {
		return x
	}
	w, y := n.of(a.W), make(vec, a.Out)
	for i := range a.In {
		for j := range y {
			y[j] += x[i] * float64(w[i*a.Out+j])
		}
	}
	if a.B != nil {
		for j, b := range n.of(a.B) {
			y[j] += float64(b)
		}
	}
	return y
}

func (n *naive) process(p model.Process, y, x vec) vec {
	for _, step := range p {
		out := make(vec, len(y))
		switch step.Operation {
		case model.Add:
			for i := range y {
				out[i] = y[i] + x[i]
			}
		case model.Highway:
			for i, g := range n.affine(x, &step.Gate) {
				out[i] = sigma(g)*y[i] + (1-sigma(g))*x[i]
			}
		case model.Normalize:
			mean, square := 0.0, 0.0
			if !step.Norm.RMS {
				for _, v := range y {
					mean += v / float64(len(y))
				}
			}
			for _, v := range y {
				square += (v - mean) * (v - mean) / float64(len(y))
			}
			for i, v := range y {
				out[i] = (v - mean) / math.Sqrt(square+1e-6) * float64(n.of(step.Norm.Scale)[i])
				if !step.Norm.RMS {
					out[i] += float64(n.of(step.Norm.Bias)[i])
				}
			}
		}
		y = out
	}
	return y
}

func sigma(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func naiveActivation(a model.Activation, x vec) vec {
	y := make(vec, len(x))
	for i, v := range x {
		switch a {
		case model.ReLU:
			y[i] = max(0, v)
		case model.Swish:
			y[i] = v * sigma(v)
		case model.GELU:
			y[i] = v * (1 + math.Erf(v/math.Sqrt2)) / 2
		case model.GELUSigmoid:
			y[i] = v * sigma(1.702*v)
		case model.Sigmoid:
			y[i] = sigma(v)
		case model.Identity:
			y[i] = v
		}
	}
	return y
}

func (n *naive) embed(table *marian.Tensor, token search.Token, position int) vec {
	d := n.m.Dim
	x := make(vec, d)
	if token >= 0 {
		for i := range x {
			x[i] = float64(n.of(table)[int(token)*d+i])
		}
	}
	if n.m.NoPositions {
		return x
	}
	for i := range d / 2 {
		angle := float64(position) * math.Exp(-float64(i)*math.Log(10000)/float64(d/2-1))
		x[i] = x[i]*math.Sqrt(float64(d)) + math.Sin(angle)
		x[d/2+i] = x[d/2+i]*math.Sqrt(float64(d)) + math.Cos(angle)
	}
	return x
}

// attend returns the output of attention and the weights of the first head.
func (n *naive) attend(a *model.Attention, query vec, inputs []vec) (out, weights vec) {
	q := n.affine(query, &a.Q)
	size := n.m.Dim / n.m.Heads
	joined := make(vec, n.m.Dim)
	keys, values := make([]vec, len(inputs)), make([]vec, len(inputs))
	for i, x := range inputs {
		keys[i], values[i] = n.affine(x, &a.K), n.affine(x, &a.V)
	}
	for head := range n.m.Heads {
		scores, total := make(vec, len(inputs)), 0.0
		for i, key := range keys {
			for j := head * size; j < (head+1)*size; j++ {
				scores[i] += q[j] * key[j] / math.Sqrt(float64(size))
			}
			scores[i] = math.Exp(scores[i])
			total += scores[i]
		}
		for i, value := range values {
			scores[i] /= total
			for j := head * size; j < (head+1)*size; j++ {
				joined[j] += scores[i] * value[j]
			}
		}
		if head == 0 {
			weights = scores
		}
	}
	return n.affine(joined, a.O), weights
}

func (n *naive) ffn(f *model.FFN, activation model.Activation, x vec) vec {
	y := n.process(f.Pre, x, nil)
	for i := range f.Layers {
		y = n.affine(y, &f.Layers[i])
		if i+1 < len(f.Layers) {
			y = naiveActivation(activation, y)
		}
	}
	return n.process(f.Post, y, x)
}

func (n *naive) encode(tokens []search.Token) []vec {
	if n.m.Recurrent != nil {
		return n.encodeNetwork(&n.m.Recurrent.RecurrentEncoder, n.m.SourceEmbedding, tokens)
	}
	return n.encodeWith(&model.FurtherEncoder{Embedding: n.m.SourceEmbedding, Emb: n.m.EncoderEmb, Layers: n.m.Encoder, Top: n.m.EncoderTop}, tokens)
}

// encodeWith runs an encoder.
func (n *naive) encodeWith(e *model.FurtherEncoder, tokens []search.Token) []vec {
	xs := make([]vec, len(tokens))
	for i, token := range tokens {
		xs[i] = n.embed(e.Embedding, token, i)
	}
	bottom := append([]vec(nil), xs...)
	for i := range xs {
		xs[i] = n.process(e.Emb, xs[i], nil)
	}
	for l := range e.Layers {
		layer := &e.Layers[l]
		ready, next := make([]vec, len(xs)), make([]vec, len(xs))
		for i, x := range xs {
			ready[i] = n.process(layer.Self.Pre, x, nil)
		}
		for i, x := range xs {
			y, _ := n.attend(&layer.Self, ready[i], ready)
			next[i] = n.ffn(&layer.FFN, n.m.EncoderStack.Activation, n.process(layer.Self.Post, y, x))
		}
		xs = next
	}
	for i := range xs {
		xs[i] = n.process(e.Top, xs[i], bottom[i])
	}
	return xs
}

// A naiveState is what a decoder layer remembers: the inputs so far, and the cell.
type naiveState struct {
	inputs         []vec
	cell           vec
	output, memory vec // of a recurrent cell
	reads          int // the token of the source that hard attention is at; of the first layer alone
}

// step returns the logits after a token and the attention; states has an element for each layer.
func (n *naive) step(encoded []vec, states []naiveState, token search.Token, position int) (logits, weights vec) {
	if n.m.Recurrent != nil {
		return n.stepNetwork(encoded, states, token, position)
	}
	x := n.embed(n.m.TargetEmbedding, token, position)
	bottom := x
	x = n.process(n.m.DecoderEmb, x, nil)
	for l, layer := range n.m.Decoder {
		state := &states[l]
		state.inputs = append(state.inputs, x)
		switch {
		case layer.Self != nil:
			query, inputs := n.process(layer.Self.Pre, x, nil), state.inputs
			if position == 0 {
				inputs = []vec{query}
			}
			y, _ := n.attend(layer.Self, query, inputs)
			x = n.process(layer.Self.Post, y, x)
		case layer.Average != nil:
			x = n.average(layer.Average, state.inputs)
		default:
			x = n.recurrent(layer.Recurrent, state, x)
		}
		if layer.Context != nil {
			y, w := n.attend(layer.Context, n.process(layer.Context.Pre, x, nil), encoded)
			if l == n.m.AlignmentLayer {
				weights = w
			}
			x = n.process(layer.Context.Post, y, x)
		}
		for k := range layer.Further {
			further := &layer.Further[k]
			y, _ := n.attend(further, n.process(further.Pre, x, nil), n.further[k])
			x = n.process(further.Post, y, x)
		}
		x = n.ffn(&layer.FFN, n.m.DecoderStack.Activation, x)
	}
	return n.output(n.process(n.m.DecoderTop, x, bottom)), weights
}

func (n *naive) average(a *model.Average, inputs []vec) vec {
	x := inputs[len(inputs)-1]
	y := make(vec, len(x))
	for _, input := range inputs {
		for i, v := range input {
			y[i] += v / float64(len(inputs))
		}
	}
	y = n.process(a.Pre, y, nil)
	for i := range a.Hidden {
		y = naiveActivation(n.m.AverageNetwork.Activation, n.affine(y, &a.Hidden[i]))
	}
	y = n.affine(y, a.Out)
	if a.GateX != nil {
		gateX, gateY, out := n.affine(x, a.GateX), n.affine(y, a.GateY), make(vec, len(x))
		for i := range out {
			out[i] = sigma(gateX[i])*x[i] + sigma(gateY[i])*y[i]
		}
		y = out
	}
	return n.process(a.Post, y, x)
}

func (n *naive) recurrent(r *model.Recurrent, state *naiveState, x vec) vec {
	input := n.process(r.Pre, x, nil)
	if r.Cell != nil {
		if state.output == nil {
			state.output, state.memory = make(vec, len(x)), make(vec, len(x))
		}
		n.advance(r.Cell, state, input)
		return n.process(r.Post, n.affine(state.output, r.O), x)
	}
	if state.cell == nil {
		state.cell = make(vec, len(x))
	}
	projected, forget, out := n.affine(input, &r.Input), n.affine(input, &r.Forget), make(vec, len(x))
	for i := range out {
		f := sigma(forget[i])
		state.cell[i] = f*state.cell[i] + (1-f)*projected[i]
		out[i] = max(0, state.cell[i])
	}
	if r.Reset != nil {
		for i, g := range n.affine(input, r.Reset) {
			out[i] = sigma(g)*math.Tanh(state.cell[i]) + (1-sigma(g))*input[i]
		}
	}
	return n.process(r.Post, n.affine(out, r.O), x)
}

func (n *naive) output(x vec) vec {
	w, logits := n.of(n.m.Output.W), make(vec, n.m.TargetVocabulary)
	for i := range logits {
		for j, v := range x {
			if n.m.Output.Columns {
				logits[i] += v * float64(w[j*len(logits)+i])
			} else {
				logits[i] += v * float64(w[i*len(x)+j])
			}
		}
		if n.m.Output.Bias != nil {
			logits[i] += float64(n.of(n.m.Output.Bias)[i])
		}
	}
	return logits
}

const synthetic = `type: transformer
dim-vocabs: [19, 23]
dim-emb: 12
enc-depth: 2
dec-depth: 2
transformer-heads: 3
transformer-dim-ffn: 20
transformer-dim-aan: 18
`

// synthesise returns a model of the description with random parameters. Tensors named in oldNames are given that way.
func synthesise(t testing.TB, description string, oldOutput bool, random *rand.Rand) *model.Model {
	t.Helper()
	file := &marian.File{Config: []byte(description)}
	if oldOutput {
		file.Tensors = append(file.Tensors, randomTensor("decoder_ff_logit_out_W", 12, 23, random), randomTensor("decoder_ff_logit_l2_W", 12, 23, random))
	}
	for range 200 {
		m, err := model.Load(file, nil)
		if err == nil {
			return m
		}
		missing := problems(err)
		if len(missing) == 0 {
			t.Fatal(err)
		}
		for _, p := range missing {
			var rows, columns int
			if _, err := fmt.Sscanf(p.Problem, "is missing; expected %d×%d", &rows, &columns); err != nil {
				t.Fatalf("%v: %v", p, err)
			}
			if file.Tensor(p.Name) == nil {
				file.Tensors = append(file.Tensors, randomTensor(p.Name, rows, columns, random))
			}
		}
	}
	t.Fatal("the model is never complete")
	return nil
}

// problems returns the parameter errors in a tree of errors.
func problems(err error) []*model.ParameterError {
	if p, ok := err.(*model.ParameterError); ok {
		return []*model.ParameterError{p}
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*model.ParameterError
		for _, one := range many.Unwrap() {
			all = append(all, problems(one)...)
		}
		return all
	}
	if inner := errors.Unwrap(err); inner != nil {
		return problems(inner)
	}
	return nil
}

func randomTensor(name string, rows, columns int, random *rand.Rand) *marian.Tensor {
	data, scale := make([]byte, 4*rows*columns), isScale(name)
	for i := range rows * columns {
		v := random.NormFloat64() * 0.3
		if rows > 1 {
			v /= 0.3 * math.Sqrt(float64(rows))
		}
		if scale {
			v += 1
		}
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(v)))
	}
	return &marian.Tensor{Name: name, Shape: []int{rows, columns}, Type: marian.Float32, Data: data}
}

// isScale says whether a parameter is the scale of a norm, which is close to one.
func isScale(name string) bool {
	for _, part := range []string{"scale", "gamma", "_lns", "_ln_s"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// A syntheticKind is lines that change the synthetic description.
type syntheticKind struct {
	name, lines string
	oldOutput   bool
}

// transformerKinds are descriptions that together use all that a transformer can ask for.
var transformerKinds = []syntheticKind{
	{name: "defaults"},
	{name: "tied", lines: "dim-vocabs: [23, 23]\ntied-embeddings-all: true\ntransformer-ffn-activation: relu"},
	{name: "tied source", lines: "dim-vocabs: [23, 23]\ntied-embeddings-src: true", oldOutput: true},
	{name: "tied output", lines: "tied-embeddings: true\noutput-omit-bias: true"},
	{name: "old output", oldOutput: true},
	{name: "highway", lines: "transformer-postprocess: dhn"},
	{name: "pre-norm", lines: "transformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n"},
	{name: "pre-norm top", lines: "transformer-preprocess: n\ntransformer-postprocess: ah\ntransformer-postprocess-top: an\ntransformer-postprocess-emb: nd"},
	{name: "rms", lines: "transformer-preprocess: r\ntransformer-postprocess: dar\ntransformer-postprocess-top: rha\ntransformer-postprocess-emb: r"},
	{name: "no projection", lines: "transformer-no-projection: true\ntransformer-postprocess: nad"},
	{name: "deep ffn", lines: "transformer-ffn-depth: 4\ntransformer-decoder-ffn-depth: 1\ntransformer-ffn-activation: gelu\nversion: v1.12.43"},
	{name: "old gelu", lines: "transformer-ffn-activation: gelu\nversion: v1.9.56\ntransformer-decoder-ffn-depth: 3\ntransformer-decoder-dim-ffn: 30"},
	{name: "sigmoid", lines: "transformer-ffn-activation: sigmoid\ntransformer-disable-position-embeddings: true"},
	{name: "ssru", lines: "transformer-decoder-autoreg: rnn\ndec-cell: ssru\ntransformer-guided-alignment-layer: 1"},
	{name: "ssru pre-norm", lines: "transformer-decoder-autoreg: rnn\ndec-cell: ssru\ntransformer-preprocess: n\ntransformer-postprocess: a\ntransformer-rnn-projection: true"},
	{name: "sru", lines: "transformer-decoder-autoreg: rnn\ndec-cell: sru\ntransformer-tied-layers: [1, 1]\ntransformer-preprocess: n"},
	{name: "aan", lines: "transformer-decoder-autoreg: average-attention"},
	{name: "aan pre-norm", lines: "transformer-decoder-autoreg: average-attention\ntransformer-preprocess: n\ntransformer-postprocess: dan\ntransformer-aan-depth: 3"},
	{name: "aan plain", lines: "transformer-decoder-autoreg: average-attention\ntransformer-aan-nogate: true\ntransformer-aan-depth: 1"},
	{name: "aan narrow", lines: "transformer-decoder-autoreg: average-attention\ntransformer-dim-aan: 12\ntransformer-aan-activation: relu\ntransformer-tied-layers: [1, 1]"},
	{name: "two sources", lines: "type: multi-transformer\ndim-vocabs: [19, 17, 23]"},
	{name: "two sources shared", lines: "type: shared-multi-transformer\ndim-vocabs: [19, 19, 23]\ntransformer-decoder-autoreg: rnn\ndec-cell: ssru\ntransformer-tied-layers: [1, 1]"},
	{name: "two sources tied pre-norm", lines: "type: multi-transformer\ndim-vocabs: [23, 23, 23]\ntied-embeddings-all: true\ntransformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: an"},
	{name: "lm", lines: "type: lm-transformer\ndim-vocabs: [23]"},
	{name: "lm tied pre-norm", lines: "type: lm-transformer\ndim-vocabs: [23]\ntied-embeddings-all: true\ntransformer-preprocess: n\ntransformer-postprocess: a\ntransformer-tied-layers: [2, 2]"},
}

// syntheticKinds are those of all families.
var syntheticKinds = slices.Concat(transformerKinds, recurrentKinds)

// describe applies lines to the synthetic description.
func describe(lines string) string {
	description := synthetic
	for line := range strings.SplitSeq(lines, "\n") {
		key, _, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		kept := ""
		for other := range strings.Lines(description) {
			if !strings.HasPrefix(other, key+":") {
				kept += other
			}
		}
		description = kept + line + "\n"
	}
	return description
}

// furtherTokens are random sentences for the sources of a model from the second on.
func furtherTokens(random *rand.Rand, m *model.Model) [][]search.Token {
	var further [][]search.Token
	for _, vocabulary := range m.FurtherVocabularies {
		further = append(further, randomTokens(random, 1+random.IntN(9), vocabulary))
	}
	return further
}

func randomTokens(random *rand.Rand, n, vocabulary int) []search.Token {
	tokens := make([]search.Token, n)
	for i := range tokens {
		tokens[i] = search.Token(random.IntN(vocabulary))
	}
	return tokens
}

// TestNaive compares log-probabilities and attention with the plain arithmetic.
func TestNaive(t *testing.T) {
	for i, kind := range syntheticKinds {
		t.Run(kind.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			m := synthesise(t, describe(kind.lines), kind.oldOutput, random)
			s := pack(t, m, Float32, Options{}).NewStepper(3)
			plain := newNaive(m)
			for sentence := range 3 {
				source := randomTokens(random, 1+sentence*4, max(m.SourceVocabulary, 1))
				target := randomTokens(random, 6, m.TargetVocabulary)
				var encoded []vec
				if m.HasEncoder() {
					encoded = plain.encode(source)
				}
				further := furtherTokens(random, m)
				plain.further = nil
				for k := range m.Further {
					plain.further = append(plain.further, plain.encodeWith(&m.Further[k], further[k]))
				}
				for k := range m.Sources() - 1 - len(m.Further) {
					e := &m.Recurrent.Further[k]
					plain.further = append(plain.further, plain.encodeNetwork(e, e.Embedding, further[k]))
				}
				contexts := make([]search.Context, 1)
				s.Encode([]search.Source{{Tokens: source, Further: further}}, contexts)
				slot := search.Slot(sentence)
				s.Begin(slot, contexts[0])
				states := make([]naiveState, m.DecoderStack.Depth)
				token := search.NoToken
				for position, next := range target {
					logits, weights := plain.step(encoded, states, token, position)
					s.Step([]search.Slot{slot}, []search.Token{token}, true)
					compareVectors(t, fmt.Sprint("log-probabilities at ", position), plain.allowAll(t, s.LogProbs(0), logits, &states[0], len(source)),
						naiveLogSoftmax(logits), 1e-4)
					compareVectors(t, fmt.Sprint("attention at ", position), s.Attention(0), weights, 1e-5)
					token = next
				}
				s.Release(contexts[0])
			}
		})
	}
}

func naiveLogSoftmax(x vec) vec {
	total := 0.0
	for _, v := range x {
		total += math.Exp(v)
	}
	out := make(vec, len(x))
	for i, v := range x {
		out[i] = v - math.Log(total)
	}
	return out
}

func compareVectors(t *testing.T, what string, got []float32, want vec, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(abs(float64(got[i])-want[i]) <= tolerance) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
