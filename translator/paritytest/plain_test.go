package paritytest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A plain model is a Transformer in the plainest arithmetic: one sentence, one position at a time, matrices as they stand in
// the file. It follows the formulas and shares nothing with the engine, so that search can be compared with Marian's without
// the engine's models, and these with it.
type plain struct {
	tensors map[string]matrix
	config  plainConfig
}

type plainConfig struct {
	Dim            int    `yaml:"dim-emb"`
	EncoderDepth   int    `yaml:"enc-depth"`
	DecoderDepth   int    `yaml:"dec-depth"`
	Cell           string `yaml:"dec-cell"`
	Heads          int    `yaml:"transformer-heads"`
	Autoregression string `yaml:"transformer-decoder-autoreg"`
	Activation     string `yaml:"transformer-ffn-activation"`
	AANActivation  string `yaml:"transformer-aan-activation"`
	Pre            string `yaml:"transformer-preprocess"`
	Post           string `yaml:"transformer-postprocess"`
	Top            string `yaml:"transformer-postprocess-top"`
	Tied           []int  `yaml:"transformer-tied-layers"`
}

type matrix struct {
	rows, columns int
	values        []float32
}

func (m matrix) row(i int) []float32 { return m.values[i*m.columns : (i+1)*m.columns] }

// openPlain reads an .npz archive of float32 or float16 arrays.
func openPlain(t *testing.T, path string) *plain {
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	p := &plain{tensors: map[string]matrix{}}
	for _, member := range archive.File {
		r, err := member.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		headerSize := 10 + int(binary.LittleEndian.Uint16(data[8:]))
		header, data := string(data[10:headerSize]), data[headerSize:]
		if name := strings.TrimSuffix(member.Name, ".npy"); name != "special:model.yml" {
			p.tensors[name] = readMatrix(t, name, header, data)
		} else if err := yaml.Unmarshal(bytes.TrimRight(data, "\x00"), &p.config); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

var npyShape = regexp.MustCompile(`'shape': \(([0-9, ]*)\)`)

func readMatrix(t *testing.T, name, header string, data []byte) matrix {
	m := matrix{rows: 1, columns: 1}
	for _, field := range strings.FieldsFunc(npyShape.FindStringSubmatch(header)[1], func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		m.rows, m.columns = m.rows*m.columns, n
	}
	m.values = make([]float32, m.rows*m.columns)
	for i := range m.values {
		switch {
		case strings.Contains(header, "'<f4'"):
			m.values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		case strings.Contains(header, "'<f2'"):
			m.values[i] = fromHalf(binary.LittleEndian.Uint16(data[2*i:]))
		default:
			t.Fatalf("%s: %s", name, header)
		}
	}
	return m
}

func fromHalf(h uint16) float32 {
	sign, exponent, fraction := float64(1), int(h>>10)&31, float64(h&1023)
	if h>>15 != 0 {
		sign = -1
	}
	if exponent == 0 {
		return float32(sign * math.Ldexp(fraction, -24))
	}
	return float32(sign * math.Ldexp(1024+fraction, exponent-25))
}

func (p *plain) tensor(name string) matrix {
	m, ok := p.tensors[name]
	if !ok {
		panic("no tensor " + name)
	}
	return m
}

// firstOf is the first of several tensors that the model has.
func (p *plain) firstOf(names ...string) matrix {
	for _, name := range names {
		if m, ok := p.tensors[name]; ok {
			return m
		}
	}
	panic(fmt.Sprint("none of the tensors ", names))
}

func (p *plain) affine(x []float32, w, b string) []float32 {
	y := p.linear(x, w)
	for j, bias := range p.tensor(b).values {
		y[j] += bias
	}
	return y
}

func (p *plain) linear(x []float32, w string) []float32 {
	m := p.tensor(w)
	y := make([]float32, m.columns)
	for i, a := range x {
		for j, b := range m.row(i) {
			y[j] += a * b
		}
	}
	return y
}

// process applies a string of operations to x; before is the input of the block, for residual connections.
func (p *plain) process(x, before []float32, operations, norm, suffix string) []float32 {
	for _, operation := range operations {
		switch operation {
		case 'a':
			y := make([]float32, len(x))
			for j := range x {
				y[j] = x[j] + before[j]
			}
			x = y
		case 'n':
			x = normalise(x, p.tensor(norm+"_ln_scale"+suffix).values, p.tensor(norm+"_ln_bias"+suffix).values, true)
		case 'r':
			x = normalise(x, p.tensor(norm+"_rms_scale"+suffix).values, nil, false)
		}
	}
	return x
}

func normalise(x, scale, bias []float32, center bool) []float32 {
	mean, square := 0.0, 0.0
	if center {
		for _, a := range x {
			mean += float64(a) / float64(len(x))
		}
	}
	for _, a := range x {
		square += (float64(a) - mean) * (float64(a) - mean) / float64(len(x))
	}
	y := make([]float32, len(x))
	for j, a := range x {
		y[j] = float32((float64(a)-mean)/math.Sqrt(square+1e-6)) * scale[j]
		if bias != nil {
			y[j] += bias[j]
		}
	}
	return y
}

func activate(x []float32, name string) []float32 {
	for j, a := range x {
		switch v := float64(a); name {
		case "relu":
			x[j] = max(a, 0)
		case "swish":
			x[j] = float32(v * sigmoid(v))
		case "gelu":
			x[j] = float32(v * 0.5 * (1 + math.Erf(v/math.Sqrt2)))
		default:
			panic("activation " + name)
		}
	}
	return x
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// embed is the input of a position; no token is a vector of zeros.
func (p *plain) embed(table matrix, token int32, position int) []float32 {
	d := p.config.Dim
	x := make([]float32, d)
	for j := range d / 2 {
		angle := float64(position) * math.Exp(-float64(j)*math.Log(10000)/float64(d/2-1))
		x[j], x[d/2+j] = float32(math.Sin(angle)), float32(math.Cos(angle))
	}
	if token >= 0 {
		for j, a := range table.row(int(token)) {
			x[j] += a * float32(math.Sqrt(float64(d)))
		}
	}
	return x
}

// attend is multi-head attention; the weights of the first head are returned too.
func (p *plain) attend(query []float32, keys, values [][]float32, name string) (out, weights []float32) {
	q := p.affine(query, name+"_Wq", name+"_bq")
	width := len(q) / p.config.Heads
	joined := make([]float32, len(q))
	for head := range p.config.Heads {
		from, to := head*width, (head+1)*width
		scores := make([]float64, len(keys))
		highest, total := math.Inf(-1), 0.0
		for i, key := range keys {
			for j := from; j < to; j++ {
				scores[i] += float64(q[j]) * float64(key[j])
			}
			scores[i] /= math.Sqrt(float64(width))
			highest = max(highest, scores[i])
		}
		for i := range scores {
			scores[i] = math.Exp(scores[i] - highest)
			total += scores[i]
		}
		for i, value := range values {
			weight := scores[i] / total
			for j := from; j < to; j++ {
				joined[j] += float32(weight * float64(value[j]))
			}
			if head == 0 {
				weights = append(weights, float32(weight))
			}
		}
	}
	return p.affine(joined, name+"_Wo", name+"_bo"), weights
}

func (p *plain) keysValues(inputs [][]float32, name string) (keys, values [][]float32) {
	for _, x := range inputs {
		keys = append(keys, p.affine(x, name+"_Wk", name+"_bk"))
		values = append(values, p.affine(x, name+"_Wv", name+"_bv"))
	}
	return keys, values
}

func (p *plain) feedForward(x []float32, layer string) []float32 {
	y := p.process(x, nil, p.config.Pre, layer+"_ffn_ffn", "_pre")
	y = activate(p.affine(y, layer+"_ffn_W1", layer+"_ffn_b1"), p.config.Activation)
	y = p.affine(y, layer+"_ffn_W2", layer+"_ffn_b2")
	return p.process(y, x, p.config.Post, layer+"_ffn_ffn", "")
}

// encode returns the encoder's output for each source token.
func (p *plain) encode(tokens []int32) [][]float32 {
	table := p.firstOf("Wemb", "encoder_Wemb")
	xs := make([][]float32, len(tokens))
	for i, token := range tokens {
		xs[i] = p.embed(table, token, i)
	}
	for l := 1; l <= p.config.EncoderDepth; l++ {
		layer := fmt.Sprintf("encoder_l%d", l)
		ready := make([][]float32, len(xs))
		for i, x := range xs {
			ready[i] = p.process(x, nil, p.config.Pre, layer+"_self_Wo", "_pre")
		}
		keys, values := p.keysValues(ready, layer+"_self")
		next := make([][]float32, len(xs))
		for i, x := range xs {
			y, _ := p.attend(ready[i], keys, values, layer+"_self")
			next[i] = p.feedForward(p.process(y, x, p.config.Post, layer+"_self_Wo", ""), layer)
		}
		xs = next
	}
	for i, x := range xs {
		xs[i] = p.process(x, nil, p.config.Top, "encoder_top", "")
	}
	return xs
}

// A plainState is what a decoder layer remembers.
type plainState struct {
	keys, values [][]float32 // self-attention: of all inputs so far
	vector       []float32   // cell of an RNN, or the sum of all inputs so far
}

// A plainSource is an encoded sentence: keys and values of each decoder layer.
type plainSource struct {
	keys, values [][][]float32
	length       int
}

func (p *plain) layer(l int) string {
	if len(p.config.Tied) > 0 {
		return fmt.Sprintf("decoder_l%d", p.config.Tied[l])
	}
	return fmt.Sprintf("decoder_l%d", l+1)
}

// isLM says whether the model has no source.
func (p *plain) isLM() bool { _, ok := p.tensors["decoder_l1_context_Wq"]; return !ok }

func (p *plain) prepare(tokens []int32) *plainSource {
	s := &plainSource{length: len(tokens)}
	if p.isLM() {
		return s
	}
	encoded := p.encode(tokens)
	for l := range p.config.DecoderDepth {
		keys, values := p.keysValues(encoded, p.layer(l)+"_context")
		s.keys, s.values = append(s.keys, keys), append(s.values, values)
	}
	return s
}

// step reads one target token and returns the new states, the logits and the attention.
func (p *plain) step(s *plainSource, states []plainState, token int32, position int) (next []plainState, logits, weights []float32) {
	x := p.embed(p.firstOf("Wemb", "decoder_Wemb"), token, position)
	for l := range p.config.DecoderDepth {
		layer := p.layer(l)
		var state plainState
		if position > 0 {
			state = states[l]
		}
		switch p.config.Autoregression {
		case "self-attention":
			x, state = p.selfAttention(x, state, layer)
		case "average-attention":
			x, state = p.averageAttention(x, state, layer, position)
		default:
			x, state = p.recurrence(x, state, layer)
		}
		next = append(next, state)
		if !p.isLM() {
			query := p.process(x, nil, p.config.Pre, layer+"_context_Wo", "_pre")
			var y []float32
			y, weights = p.attend(query, s.keys[l], s.values[l], layer+"_context")
			x = p.process(y, x, p.config.Post, layer+"_context_Wo", "")
		}
		x = p.feedForward(x, layer)
	}
	x = p.process(x, nil, p.config.Top, "decoder_top", "")
	return next, p.output(x), weights
}

// selfAttention normalises keys and values of pre-norm models at the first position only, as Marian's decoder does.
func (p *plain) selfAttention(x []float32, state plainState, layer string) ([]float32, plainState) {
	query := p.process(x, nil, p.config.Pre, layer+"_self_Wo", "_pre")
	key, value := p.keysValues([][]float32{x}, layer+"_self")
	state.keys = append(slices.Clip(state.keys), key...)
	state.values = append(slices.Clip(state.values), value...)
	keys, values := state.keys, state.values
	if len(keys) == 1 {
		keys, values = p.keysValues([][]float32{query}, layer+"_self")
	}
	y, _ := p.attend(query, keys, values, layer+"_self")
	return p.process(y, x, p.config.Post, layer+"_self_Wo", ""), state
}

func (p *plain) averageAttention(x []float32, state plainState, layer string, position int) ([]float32, plainState) {
	sum := append([]float32(nil), x...)
	for j := range state.vector {
		sum[j] += state.vector[j]
	}
	y := make([]float32, len(x))
	for j := range y {
		y[j] = sum[j] / float32(position+1)
	}
	if _, ok := p.tensors[layer+"_aan_W1"]; ok {
		y = activate(p.affine(y, layer+"_aan_W1", layer+"_aan_b1"), p.config.AANActivation)
	}
	if _, ok := p.tensors[layer+"_aan_W2"]; ok {
		y = p.affine(y, layer+"_aan_W2", layer+"_aan_b2")
	}
	if _, ok := p.tensors[layer+"_aan_Wi"]; ok {
		input, forget := p.affine(x, layer+"_aan_Wi", layer+"_aan_bi"), p.affine(y, layer+"_aan_Wf", layer+"_aan_bf")
		for j := range y {
			y[j] = float32(sigmoid(float64(input[j])))*x[j] + float32(sigmoid(float64(forget[j])))*y[j]
		}
	}
	return p.process(y, x, p.config.Post, layer+"_aan_ffn", ""), plainState{vector: sum}
}

func (p *plain) recurrence(x []float32, state plainState, layer string) ([]float32, plainState) {
	input, forget := p.linear(x, layer+"_rnn_W"), p.affine(x, layer+"_rnn_Wf", layer+"_rnn_bf")
	cell, y := make([]float32, len(x)), make([]float32, len(x))
	var reset []float32
	if p.config.Cell == "sru" {
		reset = p.affine(x, layer+"_rnn_Wr", layer+"_rnn_br")
	}
	for j := range x {
		f := float32(sigmoid(float64(forget[j])))
		cell[j] = (1 - f) * input[j]
		if state.vector != nil {
			cell[j] += f * state.vector[j]
		}
		if reset == nil {
			y[j] = max(cell[j], 0)
		} else {
			r := float32(sigmoid(float64(reset[j])))
			y[j] = r*float32(math.Tanh(float64(cell[j]))) + (1-r)*x[j]
		}
	}
	return p.process(y, x, p.config.Post, layer+"_rnn_ffn", ""), plainState{vector: cell}
}

func (p *plain) output(x []float32) []float32 {
	table := p.firstOf("decoder_ff_logit_out_Wt", "Wemb", "decoder_Wemb")
	bias := p.tensor("decoder_ff_logit_out_b").values
	logits := make([]float32, table.rows)
	for i := range logits {
		sum := 0.0
		for j, w := range table.row(i) {
			sum += float64(w) * float64(x[j])
		}
		logits[i] = float32(sum) + bias[i]
	}
	return logits
}

// supported says why the plain model cannot run a model, "" if it can.
func (p *plain) supported() string {
	if strings.Contains(p.config.Pre, "n") && p.config.Autoregression != "self-attention" {
		return "pre-norm with " + p.config.Autoregression
	}
	return ""
}
