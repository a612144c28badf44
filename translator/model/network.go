package model

import (
	"strconv"

	"github.com/sluice-mt/sluice/translator/marian"
)

// A RecurrentNetwork is the parameters of a recurrent model, all but embeddings and output matrix.
type RecurrentNetwork struct {
	RecurrentEncoder                    // of the first source; empty without an encoder
	Further          []RecurrentEncoder // of the second source and those after it

	// Devlin is the decoder of a model of type devlin, which has nothing of what follows.
	Devlin *DevlinDecoder

	// Base is the decoder's first layer. Its first cell reads the embedding, with hard attention (see HardAttention) that and what the
	// encoder gave for a token; its second what the attention of each encoder found with the state after the first, side by side;
	// the others read nothing.
	Base []Cell
	High []RecurrentLayer

	// Hidden gives what the output layer multiplies: the hyperbolic tangent of the sum of what they make of what the first cell reads,
	// the result of the last layer, and what the attentions found.
	Hidden []Product
}

// A RecurrentEncoder reads a source.
type RecurrentEncoder struct {
	Embedding         *marian.Tensor   // of a further source; the first one's is the Model's
	Forward, Backward []RecurrentLayer // stacks whose results stand side by side
	Upper             []RecurrentLayer // layers that read both, in bi-unidirectional encoders

	// Start gives the state with which all layers of the decoder begin: the hyperbolic tangent of what it makes of the mean of
	// the encoder's results, added up over all encoders. Without an encoder they begin with zeros.
	Start     *Product
	Attention *AdditiveAttention // nil for type hard-att
}

// A RecurrentLayer is cells that are run one after another for each word; the state of the last one goes to the first for the
// next word.
type RecurrentLayer struct {
	Cells    []Cell
	Backward bool // reads the sentence from its end
	Skip     bool // adds its input to its result
}

// AdditiveAttention weighs the results of the encoder with the softmax of Score·tanh(Context(result) + State(state)), as in
// Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate", 2014.
type AdditiveAttention struct {
	Context, State Product
	Score          *marian.Tensor // Dim × 1
	Dim            int            // of the encoder's results
}

// network binds the parameters of a recurrent model.
func (b *binder) network(m *Model) *RecurrentNetwork {
	n, r := new(RecurrentNetwork), m.Recurrence
	for i := range m.Sources() {
		number, attention := "", "decoder"
		if m.Sources() > 1 {
			number, attention = strconv.Itoa(i), "decoder_att"+strconv.Itoa(i+1)
		}
		e := b.recurrentEncoder(m, m.encoderPrefix(i))
		width := r.ContextDim(m.EncoderStack.Depth)
		start := b.dense(r, "decoder_ff_state", number, width, r.Dim)
		e.Start = &start
		if r.Hard == nil || r.Hard.Soft {
			e.Attention = b.additive(r, attention, width)
		}
		if i == 0 {
			n.RecurrentEncoder = e
			continue
		}
		e.Embedding = b.table(m.embeddingOf(i), &m.FurtherVocabularies[i-1], m.Dim)
		n.Further = append(n.Further, e)
	}
	if r.Devlin != nil {
		n.Devlin = b.devlinDecoder(m, n.found())
		return n
	}
	inputs := []int{m.Dim, r.Dim}
	if r.Hard != nil {
		b.hardDecoder(m, n)
		inputs[0] += r.ContextDim(m.EncoderStack.Depth)
	} else {
		b.recurrentDecoder(m, n)
	}
	if found := n.found(); found > 0 {
		inputs = append(inputs, found)
	}
	for i, in := range inputs {
		n.Hidden = append(n.Hidden, b.dense(r, "decoder_ff_logit_l1", strconv.Itoa(i), in, m.Dim))
	}
	return n
}

// found is the number of elements that all attentions find together.
func (n *RecurrentNetwork) found() int {
	if n.Attention == nil {
		return 0
	}
	width := n.Attention.Dim
	for i := range n.Further {
		width += n.Further[i].Attention.Dim
	}
	return width
}

// recurrentEncoder binds the layers of an encoder.
func (b *binder) recurrentEncoder(m *Model, prefix string) (n RecurrentEncoder) {
	r, double := m.Recurrence, m.EncoderStack.Depth
	if r.Encoder == BiUnidirectional {
		double = 1
	}
	for i := 1; i <= double; i++ {
		forward, backward := prefix+"_bi", prefix+"_bi_r"
		if i > 1 {
			forward, backward = forward+"_l"+strconv.Itoa(i), backward+"_l"+strconv.Itoa(i)
		}
		in := m.Dim
		if i > 1 {
			in = r.Dim
		}
		turned := r.Encoder == Alternating && i%2 == 0
		n.Forward = append(n.Forward, b.encoderRNN(r, forward, in, i, turned))
		n.Backward = append(n.Backward, b.encoderRNN(r, backward, in, i, !turned))
	}
	in := 2 * r.Dim
	for i := double + 1; i <= m.EncoderStack.Depth; i++ {
		layer := b.layer(r, r.EncoderCell, prefix+"_l"+strconv.Itoa(i), in, r.EncoderCells, true)
		layer.Skip = r.Skip && i > double+1
		n.Upper, in = append(n.Upper, layer), r.Dim
	}
	return n
}

// encoderRNN binds layer number i, from 1, of a stack. In the first one, the number of the first cell is not in its name.
func (b *binder) encoderRNN(r *Recurrence, prefix string, in, i int, backward bool) RecurrentLayer {
	layer := RecurrentLayer{Backward: backward, Skip: r.Skip && i > 1}
	for j := 1; j <= r.EncoderCells; j++ {
		name := prefix
		if i > 1 || j > 1 {
			name += "_cell" + strconv.Itoa(j)
		}
		layer.Cells = append(layer.Cells, b.cell(r.EncoderCell, cellPlace{prefix: name, in: in, dim: r.Dim, encoder: true, layerNorm: r.LayerNorm}))
		in = 0
	}
	return layer
}

// layer binds cells with their numbers in their names.
func (b *binder) layer(r *Recurrence, kind CellKind, prefix string, in, cells int, encoder bool) RecurrentLayer {
	var layer RecurrentLayer
	for j := 1; j <= cells; j++ {
		name := prefix + "_cell" + strconv.Itoa(j)
		layer.Cells = append(layer.Cells, b.cell(kind, cellPlace{prefix: name, in: in, dim: r.Dim, encoder: encoder, layerNorm: r.LayerNorm}))
		in = 0
	}
	return layer
}

func (b *binder) recurrentDecoder(m *Model, n *RecurrentNetwork) {
	r := m.Recurrence
	for i := 1; i <= r.BaseCells; i++ {
		at := cellPlace{prefix: "decoder_cell" + strconv.Itoa(i), dim: r.Dim, final: i > 1, layerNorm: r.LayerNorm}
		switch {
		case i == 1:
			at.in = m.Dim
		case i == 2:
			at.in = n.found()
		}
		n.Base = append(n.Base, b.cell(r.DecoderCell, at))
	}
	for i := 2; i <= m.DecoderStack.Depth; i++ {
		layer := b.layer(r, r.DecoderCell, "decoder_l"+strconv.Itoa(i), r.Dim, r.HighCells, false)
		layer.Skip = r.Skip
		n.High = append(n.High, layer)
	}
}

// dense binds x·W + b, with a layer norm if the model has them. Then the bias is the norm's, but for the norms of Nematus.
func (b *binder) dense(r *Recurrence, prefix, suffix string, in, out int) Product {
	p := Product{Epsilon: CellNormEpsilon}
	a, bias := b.matrix(prefix+"_W"+suffix, in, out), b.take(prefix+"_b"+suffix, 1, out)
	switch {
	case r.LayerNorm && r.Nematus:
		a.B, p.Epsilon = bias, NematusNormEpsilon
		p.Norms = []Norm{b.nematusNorm(prefix+"_ln_", suffix, out)}
	case r.LayerNorm:
		p.Norms = []Norm{{Scale: b.take(prefix+"_gamma"+suffix, 1, out), Bias: bias}}
	default:
		a.B = bias
	}
	p.Matrices = []Affine{a}
	return p
}

func (b *binder) additive(r *Recurrence, prefix string, width int) *AdditiveAttention {
	a := &AdditiveAttention{Dim: width, Score: b.take(prefix+"_U_att", width, 1)}
	context, state := b.matrix(prefix+"_Wc_att", width, width), b.matrix(prefix+"_W_comb_att", r.Dim, width)
	bias := b.take(prefix+"_b_att", 1, width)
	a.Context.Epsilon, a.State.Epsilon = CellNormEpsilon, CellNormEpsilon
	switch {
	case r.LayerNorm && r.Nematus:
		context.B = bias
		a.Context.Epsilon, a.State.Epsilon = NematusNormEpsilon, NematusNormEpsilon
		a.Context.Norms = []Norm{b.nematusNorm(prefix+"_Wc_att_ln", "", width)}
		a.State.Norms = []Norm{b.nematusNorm(prefix+"_W_comb_att_ln", "", width)}
	case r.LayerNorm:
		a.Context.Norms = []Norm{{Scale: b.take(prefix+"_att_gamma1", 1, width), Bias: bias}}
		a.State.Norms = []Norm{{Scale: b.take(prefix+"_att_gamma2", 1, width)}}
	default:
		context.B = bias
	}
	a.Context.Matrices, a.State.Matrices = []Affine{context}, []Affine{state}
	return a
}
