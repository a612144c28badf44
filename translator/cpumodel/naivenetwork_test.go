package cpumodel

import (
	"math"

	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// product is x·W of matrices side by side, normalised.
func (n *naive) product(p *model.Product, x vec) vec {
	var y vec
	for i := range p.Matrices {
		y = append(y, n.affine(x, &p.Matrices[i])...)
	}
	if len(p.Norms) == 1 {
		return n.layerNorm(&p.Norms[0], y, float64(p.Epsilon))
	}
	first := 0
	for i := range p.Norms {
		end := first + p.Matrices[i].Out
		copy(y[first:end], n.layerNorm(&p.Norms[i], y[first:end], float64(p.Epsilon)))
		first = end
	}
	return y
}

func (n *naive) layerNorm(norm *model.Norm, x vec, epsilon float64) vec {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	y := make(vec, len(x))
	for i, v := range x {
		y[i] = (v - mean) / math.Sqrt(square+epsilon) * float64(n.of(norm.Scale)[i])
		if norm.Bias != nil {
			y[i] += float64(n.of(norm.Bias)[i])
		}
	}
	return y
}

// join puts vectors side by side.
func (n *naive) join(tensors []*marian.Tensor) vec {
	var joined vec
	for _, t := range tensors {
		for _, v := range n.of(t) {
			joined = append(joined, float64(v))
		}
	}
	return joined
}

// advance is one step of a cell; input is nil if it has none.
func (n *naive) advance(c *model.Cell, state *naiveState, input vec) {
	dim := c.Dim
	out := make(vec, dim)
	before := state.output
	var x, u vec
	if c.Input != nil {
		x = n.product(c.Input, input)
	}
	if c.Factors != nil {
		fromInput, fromState := n.product(&c.Factors[0], input), n.product(&c.Factors[1], before)
		before = make(vec, dim)
		for i := range before {
			before[i] = fromInput[i] * fromState[i]
		}
	}
	if c.State != nil {
		u = n.product(c.State, before)
		if x == nil {
			x = make(vec, len(u))
		}
	}
	b := n.join(c.Bias)
	if b == nil {
		b = make(vec, len(u))
	}
	memory := state.memory
	for i := range out {
		at := func(gate int) float64 { return x[gate*dim+i] + u[gate*dim+i] + b[gate*dim+i] }
		switch c.Kind {
		case model.TanhCell:
			out[i] = math.Tanh(at(0))
		case model.ReLUCell:
			out[i] = max(0, at(0))
		case model.LSTMCell, model.MultiplicativeLSTMCell:
			memory[i] = sigma(at(0))*memory[i] + sigma(at(1))*math.Tanh(at(2))
			out[i] = sigma(at(3)) * math.Tanh(memory[i])
		case model.SRUCell:
			f, r := sigma(x[dim+i]), sigma(x[2*dim+i])
			memory[i] = f*memory[i] + (1-f)*x[i]
			out[i] = r*math.Tanh(memory[i]) + (1-r)*input[i]
		case model.SSRUCell:
			f := sigma(x[dim+i])
			memory[i] = f*memory[i] + (1-f)*x[i]
			out[i] = max(0, memory[i])
		default:
			r, z, k := sigma(at(0)), sigma(at(1)), 2*dim+i
			h := math.Tanh(x[k] + r*u[k] + b[k])
			if c.Final {
				h = math.Tanh(x[k] + r*(u[k]+b[k]))
			}
			out[i] = (1-z)*h + z*before[i]
		}
	}
	state.output = out
}

// readWith runs a stack of layers over a sentence.
func (n *naive) readWith(stack []model.RecurrentLayer, xs []vec) []vec {
	for l := range stack {
		layer := &stack[l]
		dim := layer.Cells[0].Dim
		state, results := naiveState{output: make(vec, dim), memory: make(vec, dim)}, make([]vec, len(xs))
		for step := range xs {
			t := step
			if layer.Backward {
				t = len(xs) - 1 - step
			}
			for i := range layer.Cells {
				n.advance(&layer.Cells[i], &state, xs[t])
			}
			results[t] = state.output
			if layer.Skip {
				results[t] = added(results[t], xs[t])
			}
		}
		xs = results
	}
	return xs
}

func added(a, b vec) vec {
	c := make(vec, len(a))
	for i := range c {
		c[i] = a[i] + b[i]
	}
	return c
}

// encodeNetwork runs the encoder of a recurrent model.
func (n *naive) encodeNetwork(e *model.RecurrentEncoder, embedding *marian.Tensor, tokens []search.Token) []vec {
	xs := make([]vec, len(tokens))
	for i, token := range tokens {
		xs[i] = n.embed(embedding, token, i)
	}
	forward, backward := n.readWith(e.Forward, xs), n.readWith(e.Backward, xs)
	for i := range xs {
		xs[i] = append(append(vec(nil), forward[i]...), backward[i]...)
	}
	return n.readWith(e.Upper, xs)
}

// startNetwork sets the states with which a recurrent decoder begins.
func (n *naive) startNetwork(encoded []vec, states []naiveState) {
	start := make(vec, n.m.Recurrence.Dim)
	for k, e := range n.encoders() {
		read := append([][]vec{encoded}, n.further...)[k]
		mean := make(vec, len(read[0]))
		for _, x := range read {
			for i, v := range x {
				mean[i] += v / float64(len(read))
			}
		}
		start = added(start, n.product(e.Start, mean))
	}
	start = tanhs(start)
	for l := range states {
		states[l] = naiveState{output: start, memory: append(vec(nil), start...)}
	}
	if n.m.Recurrence.Devlin != nil { // whose cell on top begins with zeros
		states[1] = naiveState{output: make(vec, n.m.Dim)}
	}
}

// encoders are those of all sources.
func (n *naive) encoders() []model.RecurrentEncoder {
	if n.m.Recurrent.Start == nil {
		return nil
	}
	return append([]model.RecurrentEncoder{n.m.Recurrent.RecurrentEncoder}, n.m.Recurrent.Further...)
}

func tanhs(x vec) vec {
	y := make(vec, len(x))
	for i, v := range x {
		y[i] = math.Tanh(v)
	}
	return y
}

// stepNetwork is step for a recurrent model.
func (n *naive) stepNetwork(encoded []vec, states []naiveState, token search.Token, position int) (logits, weights vec) {
	network, embedded := n.m.Recurrent, n.embed(n.m.TargetEmbedding, token, position)
	if position == 0 {
		n.startNetwork(encoded, states)
	}
	if network.Devlin != nil {
		return n.stepDevlin(network, encoded, states, embedded)
	}
	if n.m.Recurrence.Hard != nil {
		embedded, weights = n.readHard(encoded, &states[0], embedded, token)
	}
	inputs := []vec{embedded}
	n.advance(&network.Base[0], &states[0], embedded)
	var found vec
	for k, e := range n.encoders() {
		if e.Attention == nil {
			continue
		}
		part, w := n.look(e.Attention, states[0].output, append([][]vec{encoded}, n.further...)[k])
		found = append(found, part...)
		if k == 0 {
			weights = w
		}
	}
	for i := range network.Base[1:] {
		n.advance(&network.Base[1+i], &states[0], found)
	}
	x := states[0].output
	for l := range network.High {
		layer := &network.High[l]
		for i := range layer.Cells {
			n.advance(&layer.Cells[i], &states[l+1], x)
		}
		if layer.Skip {
			x = added(x, states[l+1].output)
		} else {
			x = states[l+1].output
		}
	}
	inputs = append(inputs, x, found)
	hidden := make(vec, n.m.Dim)
	for i := range network.Hidden {
		hidden = added(hidden, n.product(&network.Hidden[i], inputs[i]))
	}
	return n.output(tanhs(hidden)), weights
}

// stepDevlin is stepNetwork for a model of type devlin.
func (n *naive) stepDevlin(network *model.RecurrentNetwork, encoded []vec, states []naiveState, embedded vec) (logits, weights vec) {
	d := network.Devlin
	found, weights := n.look(network.Attention, states[0].output, encoded)
	gates := added(n.product(d.Bottom.Input, embedded), n.product(&d.Context, found))
	states[0].output = n.gru(&d.Bottom, gates, states[0].output)
	history := []vec{states[0].output}
	for i := range d.Layers {
		h := n.affine(history[i], &d.Layers[i])
		if number := i + 1; number%2 == 1 && number > 1 {
			h = added(h, history[number-2])
		}
		for j := range h {
			h[j] = max(0, h[j])
		}
		history = append(history, h)
	}
	h := history[len(history)-1]
	if d.Top != nil {
		return n.output(tanhs(n.affine(h, d.Top))), weights
	}
	states[1].output = n.gru(d.TopCell, n.product(d.TopCell.Input, h), states[1].output)
	return n.output(states[1].output), weights
}

// gru is a step of a GRU to which its input is given multiplied.
func (n *naive) gru(c *model.Cell, x, before vec) vec {
	u, b, out := n.product(c.State, before), n.join(c.Bias), make(vec, c.Dim)
	for i := range out {
		r, z := sigma(x[i]+u[i]+b[i]), sigma(x[c.Dim+i]+u[c.Dim+i]+b[c.Dim+i])
		k := 2*c.Dim + i
		out[i] = (1-z)*math.Tanh(x[k]+r*u[k]+b[k]) + z*before[i]
	}
	return out
}

// look is additive attention.
func (n *naive) look(a *model.AdditiveAttention, state vec, encoded []vec) (found, weights vec) {
	query, score := n.product(&a.State, state), n.of(a.Score)
	total := 0.0
	for _, x := range encoded {
		e := 0.0
		for i, v := range tanhs(added(n.product(&a.Context, x), query)) {
			e += v * float64(score[i])
		}
		weights = append(weights, math.Exp(e))
		total += math.Exp(e)
	}
	found = make(vec, a.Dim)
	for t, x := range encoded {
		weights[t] /= total
		for i, v := range x {
			found[i] += weights[t] * v
		}
	}
	return found, weights
}

// recurrentKinds are descriptions that together use all that a recurrent model can ask for.
var recurrentKinds = []syntheticKind{
	{name: "gru", lines: "type: s2s\ndim-rnn: 10\nenc-depth: 1\ndec-depth: 1"},
	{name: "gru deep", lines: "type: s2s\ndim-rnn: 10\nenc-cell-depth: 3\ndec-cell-base-depth: 4\ndec-cell-high-depth: 2\nlayer-normalization: true\nskip: true"},
	{name: "gru tied", lines: "type: amun\ndim-rnn: 10\ndim-vocabs: [23, 23]\ntied-embeddings-all: true\noutput-omit-bias: true"},
	{name: "nematus", lines: "type: nematus\ndim-rnn: 10\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nenc-depth: 1\nlayer-normalization: true\nenc-cell-depth: 2\ndec-cell-base-depth: 3"},
	{name: "nematus without norms", lines: "type: nematus\ndim-rnn: 10\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nenc-cell-depth: 2\ndec-cell-base-depth: 3"},
	{name: "s2s of nematus cells", lines: "type: s2s\ndim-rnn: 10\nenc-cell: gru-nematus\ndec-cell: gru-nematus\nlayer-normalization: true\ndec-cell-high-depth: 2"},
	{name: "lstm", lines: "type: s2s\ndim-rnn: 10\nenc-cell: lstm\ndec-cell: lstm\nskip: true\nenc-cell-depth: 2\ndec-cell-base-depth: 3\nenc-type: bi-unidirectional\nenc-depth: 3"},
	{name: "lstm norms", lines: "type: s2s\ndim-rnn: 10\nenc-cell: lstm\ndec-cell: lstm\nlayer-normalization: true\nenc-type: alternating\nenc-depth: 3\ntied-embeddings: true"},
	{name: "tanh and relu", lines: "type: s2s\ndim-rnn: 10\nenc-cell: tanh\ndec-cell: relu\nlayer-normalization: true\nenc-cell-depth: 2"},
	{name: "relu and tanh", lines: "type: s2s\ndim-rnn: 10\nenc-cell: relu\ndec-cell: tanh\ndec-cell-base-depth: 3"},
	{name: "mlstm and mgru", lines: "type: s2s\ndim-rnn: 10\nenc-cell: mlstm\ndec-cell: mgru\nlayer-normalization: true"},
	{name: "mgru and mlstm", lines: "type: s2s\ndim-rnn: 10\nenc-cell: mgru\ndec-cell: mlstm"},
	{name: "sru", lines: "type: s2s\ndim-rnn: 12\nenc-cell: sru\ndec-cell: sru\ndec-cell-base-depth: 1\nlayer-normalization: true"},
	{name: "ssru", lines: "type: s2s\ndim-rnn: 12\nenc-cell: ssru\ndec-cell: ssru\ndec-cell-base-depth: 1\nenc-type: alternating"},
	{name: "gru of two sources", lines: "type: multi-s2s\ndim-rnn: 10\ndim-vocabs: [19, 17, 23]\nlayer-normalization: true"},
	{name: "gru of two sources shared", lines: "type: shared-multi-s2s\ndim-rnn: 10\ndim-vocabs: [23, 23, 23]\ntied-embeddings-all: true\nenc-type: bi-unidirectional"},
	{name: "recurrent lm", lines: "type: lm\ndim-rnn: 10\ndim-vocabs: [23]\ndec-cell: gru\nskip: true"},
	{name: "recurrent lm of lstms", lines: "type: lm\ndim-rnn: 10\ndim-vocabs: [23]\ndec-cell: lstm\nlayer-normalization: true\ntied-embeddings: true"},
	{name: "transformer gru", lines: "transformer-decoder-autoreg: rnn\ndec-cell: gru"},
	{name: "transformer gru norms", lines: "transformer-decoder-autoreg: rnn\ndec-cell: gru-nematus\nlayer-normalization: true\ntransformer-preprocess: n\ntransformer-postprocess: da"},
	{name: "transformer lstm", lines: "transformer-decoder-autoreg: rnn\ndec-cell: lstm\ntransformer-rnn-projection: true\nlayer-normalization: true"},
	{name: "transformer ssru norms", lines: "transformer-decoder-autoreg: rnn\ndec-cell: ssru\nlayer-normalization: true\ntransformer-tied-layers: [1, 1]"},
	{name: "transformer sru norms", lines: "transformer-decoder-autoreg: rnn\ndec-cell: sru\nlayer-normalization: true"},
	{name: "hard attention", lines: "type: hard-att\ndim-rnn: 10\nspecial-vocab: [2, 5, 8, 11, 14, 17]\ndec-depth: 3\nskip: true", oldOutput: true},
	{name: "hard attention of lstms", lines: "type: hard-att\ndim-rnn: 10\nspecial-vocab: [2, 4, 6, 8, 10, 12]\nenc-cell: lstm\ndec-cell: lstm\nlayer-normalization: true\ndim-vocabs: [23, 23]\ntied-embeddings-all: true"},
	{name: "hard and soft attention", lines: "type: hard-soft-att\ndim-rnn: 10\nspecial-vocab: [2, 5, 8, 11, 14, 17]\nlayer-normalization: true\ndec-depth: 2"},
	{name: "hard and soft attention to two sources", lines: "type: multi-hard-att\ndim-rnn: 10\ndim-vocabs: [19, 17, 23]\nspecial-vocab: [2, 5, 8, 11, 14, 17]\nenc-type: bi-unidirectional"},
	{name: "devlin", lines: "type: devlin\ndim-rnn: 10\ndim-fc: 14\nenc-depth: 1"},
	{name: "devlin deep", lines: "type: devlin\ndim-rnn: 10\ndec-fc-depth: 7\nenc-cell-depth: 2\nskip: true\nenc-type: bi-unidirectional\nenc-depth: 3\ntied-embeddings: true"},
	{name: "devlin with a GRU on top", lines: "type: devlin\ndim-rnn: 10\ndim-fc: 9\ndec-fc-depth: 3\ndec-top: gru\nenc-cell: lstm\ndim-vocabs: [23, 23]\ntied-embeddings-all: true"},
	{name: "devlin without layers", lines: "type: devlin\ndim-rnn: 10\ndec-fc-depth: 0\nenc-depth: 1"},
}
