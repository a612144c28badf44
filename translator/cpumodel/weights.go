package cpumodel

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// Precision is the arithmetic of matrix products. Everything between them is float32.
type Precision uint8

// The precisions.
const (
	Float32  Precision = iota + 1
	Int8               // 8-bit weights and activations, exact sums
	Int16              // up to 16 bits, as many as leave the sums exact
	BFloat16           // weights and activations rounded to bfloat16, sums in float32
)

// String returns the name of the precision.
func (p Precision) String() string {
	switch p {
	case Float32:
		return "float32"
	case Int8:
		return "int8"
	case Int16:
		return "int16"
	case BFloat16:
		return "bfloat16"
	}
	return "precision " + strconv.Itoa(int(p))
}

// Options say how a model is to be run.
type Options struct {
	// Suppress lists target tokens that must never be generated.
	Suppress []search.Token

	// Saturation is where weights that are quantised at load are cut off: this many standard deviations from the mean of
	// their column. 0 means DefaultSaturation, a negative number that none is cut off. Weights that are stored quantised are
	// taken as they are.
	Saturation float64

	// IgnoreAlphas quantises activations with a scale for each row even if the model has fixed multipliers.
	IgnoreAlphas bool

	// ForScoring is for scoring given translations: hard attention then forbids nothing. See model.HardAttention.
	ForScoring bool

	// Beam is how many hypotheses of a sentence are expected, which decides what is computed in advance of recurrent models. 0 is one.
	Beam int

	// Without names speedups of recurrent models that are not to be used.
	Without Speedups

	// KnownPieces is how many pieces of each vocabulary KnownEmbeddings is for, a negative number for none. 0 means DefaultKnownPieces, but
	// for cells whose product is measured to be faster than reading what is known.
	KnownPieces int

	// Tune, if not nil, is given the matrices before anybody uses them, to choose how they are multiplied: see kernels.Tuning.
	Tune func(matrices []kernels.Matrix)
}

// ErrPrecision is wrapped by the error of Load for a precision that it does not know.
var ErrPrecision = errors.New("unknown precision")

// Weights is a model packed for one precision. It is read-only and shared by all workers.
type Weights struct {
	precision  Precision
	rowScales  bool // products are in 8 bits, and each row of activations has its own scale
	without    Speedups
	dim        int
	vocabulary int
	hasEncoder bool
	suppressed []search.Token // ascending

	positions positions
	source    *embedding // nil without an encoder
	target    *embedding

	network *network // of a recurrent model, which has nothing of what follows but an output layer

	encoder   []encoderLayer
	decoder   []*decoderLayer
	emb, top  [2]process // of encoder and decoder
	contextKV *linear    // keys and values of all decoder layers from the encoder's output: layer after layer, keys first
	attention kernels.Attention
	alignment int // layer whose attention serves as alignment
	autoreg   model.Autoregression
	ffnWidth  int // of the widest hidden layer
	aanWidth  int
	output    output

	further []*Weights // encoders of the second source and those after it; nothing else is in them

	layerState int // elements of the state that a slot has in a layer
	stateWidth int // and in all layers; 0 for self-attention
}

const encoderSide, decoderSide = 0, 1

// Load packs the parameters of a model, copying them: the file may be closed afterwards.
func Load(m *model.Model, precision Precision, options Options) (*Weights, error) {
	if precision < Float32 || precision > BFloat16 {
		return nil, fmt.Errorf("%w: %v", ErrPrecision, precision)
	}
	w := &Weights{
		precision: precision, dim: m.Dim, vocabulary: m.TargetVocabulary, hasEncoder: m.HasEncoder(),
		alignment: m.AlignmentLayer, autoreg: m.Autoregression, without: options.Without,
	}
	if err := w.suppress(options.Suppress); err != nil {
		return nil, err
	}
	p := &packer{precision: precision, saturation: saturation(options.Saturation), plain: !w.uses(VectorGates), beam: options.Beam, scoring: options.ForScoring, tune: options.Tune}
	if !options.IgnoreAlphas {
		p.alphas = m.Alphas
	}
	w.rowScales = precision == Int8 && len(p.alphas) == 0
	w.embeddings(p, m)
	if m.Recurrence != nil {
		w.recurrentModel(p, m)
	} else {
		w.transformer(p, m)
	}
	w.outputLayer(p, m)
	if err := p.run(); err != nil {
		return nil, err
	}
	w.knowEmbeddings(options.KnownPieces)
	return w, nil
}

// DefaultSaturation is where weights are cut off, in standard deviations of their column, when they are quantised at load.
const DefaultSaturation = 7

func saturation(option float64) float64 {
	switch {
	case option == 0:
		return DefaultSaturation
	case option < 0:
		return 0
	}
	return option
}

func (w *Weights) suppress(tokens []search.Token) error {
	for _, token := range tokens {
		if token < 0 || int(token) >= w.vocabulary {
			return fmt.Errorf("token %d cannot be suppressed: the model has %d target pieces", token, w.vocabulary)
		}
	}
	w.suppressed = slices.Clone(tokens)
	slices.Sort(w.suppressed)
	w.suppressed = slices.Compact(w.suppressed)
	return nil
}

// Precision is the arithmetic that the weights are packed for.
func (w *Weights) Precision() Precision { return w.precision }

// Vocabulary is the number of target tokens.
func (w *Weights) Vocabulary() int { return w.vocabulary }

// transformer packs the layers of a transformer.
func (w *Weights) transformer(p *packer, m *model.Model) {
	headDim := m.Dim / m.Heads
	w.attention = kernels.Attention{Heads: m.Heads, HeadDim: headDim, Scale: attentionScale(headDim), QStride: m.Dim, OutStride: m.Dim}
	// Rounding what attention keeps changes less than products of 8 bits do, and a decoder step spends a quarter of its time on
	// reading it from the third-level cache.
	w.attention.KeepBFloat16 = w.precision == Int8
	w.positions = newPositions(m.Dim, !m.NoPositions)
	w.layers(p, m)
	switch m.Autoregression {
	case model.SelfAttention:
	case model.RecurrentCell:
		w.layerState = stateWidth(m.DecoderCell, m.Dim)
	default:
		w.layerState = m.Dim
	}
	w.stateWidth = len(w.decoder) * w.layerState
	for i := range m.Further {
		w.further = append(w.further, w.furtherEncoder(p, m, i))
	}
}

// furtherEmbedding packs the embeddings of a further source, unless they are another's.
func (w *Weights) furtherEmbedding(p *packer, m *model.Model, t *marian.Tensor) *embedding {
	switch t {
	case m.TargetEmbedding:
		return w.target
	case m.SourceEmbedding:
		return w.source
	}
	return p.embedding(t, m.Dim)
}

// furtherEncoder packs the encoder of source i, from the second on, with the keys and values of what attends to it.
func (w *Weights) furtherEncoder(p *packer, m *model.Model, i int) *Weights {
	from := &m.Further[i]
	f := &Weights{
		precision: w.precision, rowScales: w.rowScales, dim: w.dim, hasEncoder: true, positions: w.positions, attention: w.attention, ffnWidth: w.ffnWidth,
		emb: [2]process{p.process(from.Emb)}, top: [2]process{p.process(from.Top)},
	}
	f.source = w.furtherEmbedding(p, m, from.Embedding)
	for l := range from.Layers {
		f.encoder = append(f.encoder, p.encoderLayer(m, &from.Layers[l]))
	}
	packed := make(map[*decoderLayer]bool)
	var contexts []model.Affine
	for l, layer := range w.decoder {
		if packed[layer] {
			continue
		}
		packed[layer] = true
		attention := &m.Decoder[l].Further[i]
		context := p.contextAttention(attention)
		context.first = width(contexts)
		layer.further = append(layer.further, context)
		contexts = append(contexts, attention.K, attention.V)
	}
	f.contextKV = p.linear(contexts...)
	return f
}

func (w *Weights) layers(p *packer, m *model.Model) {
	w.emb = [2]process{p.process(m.EncoderEmb), p.process(m.DecoderEmb)}
	w.top = [2]process{p.process(m.EncoderTop), p.process(m.DecoderTop)}
	for i := range m.Encoder {
		w.encoder = append(w.encoder, p.encoderLayer(m, &m.Encoder[i]))
	}
	packed := make(map[*model.DecoderLayer]*decoderLayer)
	var contexts []model.Affine
	for _, layer := range m.Decoder {
		if packed[layer] == nil {
			packed[layer] = p.decoderLayer(m, layer)
			if layer.Context != nil {
				packed[layer].context.first = width(contexts)
				contexts = append(contexts, layer.Context.K, layer.Context.V)
			}
		}
		w.decoder = append(w.decoder, packed[layer])
	}
	if len(contexts) > 0 {
		w.contextKV = p.linear(contexts...)
	}
	for _, stack := range []model.Stack{m.EncoderStack, m.DecoderStack} {
		if stack.FFNDepth > 1 {
			w.ffnWidth = max(w.ffnWidth, stack.FFNDim)
		}
	}
	if m.Autoregression == model.AverageAttention && m.AverageNetwork.Depth > 1 {
		w.aanWidth = m.AverageNetwork.Dim
	}
}

// contextWidth is the number of elements that a source token takes in memory as keys and values, and, for hard attention, as the
// encoder's result.
func (w *Weights) contextWidth() (width int) {
	if n := w.network; n != nil {
		if n.attention != nil {
			width = n.attention.kernel.KeptLen(1)
		}
		if n.hard != nil {
			width += n.contextDim
		}
		return width
	}
	if w.contextKV == nil {
		return 0
	}
	return w.contextKV.n / (2 * w.dim) * w.attention.KeptLen(1)
}

// An encoderLayer is a packed layer of the encoder.
type encoderLayer struct {
	pre, post process
	qkv       *linear
	o         *linear // nil without projection
	ffn       ffn
}

// A decoderLayer is a packed layer of the decoder.
type decoderLayer struct {
	self      *selfAttention // one of the three is set
	average   *average
	recurrent *recurrent

	context *contextAttention   // to the source; nil without an encoder
	further []*contextAttention // to the second source and those after it

	ffn ffn
}

// A contextAttention is a packed attention to a source.
type contextAttention struct {
	pre, post process
	q, o      *linear // o is nil without projection
	first     int     // where the layer's keys begin in a row of contextKV
}

// An ffn is a packed feed-forward sublayer.
type ffn struct {
	pre, post  process
	layers     []*linear
	activation model.Activation
}

// A selfAttention is the decoder's attention to the words before. If it has operations before it, queries are computed from
// another input than keys and values (see Stepper.selfAttention).
type selfAttention struct {
	pre, post process
	qkv       *linear // without operations before
	q, kv     *linear // with them
	o         *linear // nil without projection
}

// An average is a packed average attention sublayer.
type average struct {
	pre, post    process
	hidden       []*linear
	activation   model.Activation
	out          *linear // nil if the width is right already
	gateX, gateY *linear // nil without gate
}

// A recurrent is a packed SSRU or SRU: gates gives x·W, the forget gate and, for SRU, the reset gate.
type recurrent struct {
	pre, post process
	gates     *linear
	sru       bool
	o         *linear
	cell      *cell // in the place of gates, for other cells
}

func (p *packer) optional(a *model.Affine) *linear {
	if a == nil {
		return nil
	}
	return p.linear(*a)
}

func (p *packer) encoderLayer(m *model.Model, l *model.EncoderLayer) encoderLayer {
	return encoderLayer{
		pre: p.process(l.Self.Pre), post: p.process(l.Self.Post),
		qkv: p.linear(l.Self.Q, l.Self.K, l.Self.V), o: p.optional(l.Self.O),
		ffn: p.ffn(&l.FFN, m.EncoderStack.Activation),
	}
}

func (p *packer) decoderLayer(m *model.Model, l *model.DecoderLayer) *decoderLayer {
	d := &decoderLayer{ffn: p.ffn(&l.FFN, m.DecoderStack.Activation)}
	switch {
	case l.Self != nil:
		d.self = p.selfAttention(l.Self)
	case l.Average != nil:
		d.average = p.average(m, l.Average)
	default:
		d.recurrent = p.recurrent(l.Recurrent)
	}
	if l.Context != nil {
		d.context = p.contextAttention(l.Context)
	}
	return d
}

func (p *packer) contextAttention(l *model.Attention) *contextAttention {
	return &contextAttention{pre: p.process(l.Pre), post: p.process(l.Post), q: p.linear(l.Q), o: p.optional(l.O)}
}

func (p *packer) selfAttention(l *model.Attention) *selfAttention {
	s := &selfAttention{pre: p.process(l.Pre), post: p.process(l.Post), o: p.optional(l.O)}
	if len(s.pre) == 0 {
		s.qkv = p.linear(l.Q, l.K, l.V)
	} else {
		s.q, s.kv = p.linear(l.Q), p.linear(l.K, l.V)
	}
	return s
}

func (p *packer) average(m *model.Model, l *model.Average) *average {
	a := &average{
		pre: p.process(l.Pre), post: p.process(l.Post), activation: m.AverageNetwork.Activation,
		out: p.optional(l.Out), gateX: p.optional(l.GateX), gateY: p.optional(l.GateY),
	}
	for _, layer := range l.Hidden {
		a.hidden = append(a.hidden, p.linear(layer))
	}
	return a
}

func (p *packer) recurrent(l *model.Recurrent) *recurrent {
	if l.Cell != nil {
		return &recurrent{pre: p.process(l.Pre), post: p.process(l.Post), cell: p.cell(l.Cell), o: p.optional(l.O)}
	}
	gates := []model.Affine{l.Input, l.Forget}
	if l.Reset != nil {
		gates = append(gates, *l.Reset)
	}
	return &recurrent{
		pre: p.process(l.Pre), post: p.process(l.Post), gates: p.linear(gates...), sru: l.Reset != nil, o: p.optional(l.O),
	}
}

func (p *packer) ffn(l *model.FFN, activation model.Activation) ffn {
	f := ffn{pre: p.process(l.Pre), post: p.process(l.Post), activation: activation}
	for i, layer := range l.Layers {
		packed := p.linear(layer)
		packed.rectified = i > 0 && activation == model.ReLU
		f.layers = append(f.layers, packed)
	}
	return f
}
