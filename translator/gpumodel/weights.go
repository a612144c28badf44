package gpumodel

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/kernels"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/search"
)

// ErrUnsupported is wrapped by the errors of Load for models that this package cannot run, but the processor can.
var ErrUnsupported = errors.New("this model cannot run on the GPU")

// Options say how a model is to be run.
type Options struct {
	// Suppress lists target tokens that must never be generated.
	Suppress []search.Token

	// Tuning is how products of 16 bits are computed; nil leaves them to own kernels.
	Tuning *Tuning

	// ForScoring is for scoring given translations: hard attention then forbids nothing. See model.HardAttention.
	ForScoring bool

	// Alphas has activations quantised by the model's own multipliers for products of integers, where it has them, and not by one for each row.
	Alphas bool

	// Saturation is where weights are cut off that are quantised at load for products in 8 bits: see cpumodel.Options.
	Saturation float64
}

// Weights is a model on a device. It is read-only and shared by all workers.
type Weights struct {
	device      *Device
	allocated   []cuda.Pointer
	dim, ownDim int // elements of a row, and how many of them are the model's: see layout.go
	heads       int
	head        unit // of attention
	row         int  // elements of the widest rows but those of merged products and hidden layers
	vocabulary  int
	widest      int // of the rows of merged products and of hidden layers
	suppressed  []search.Token

	positions   bool
	encoders    []encoder // one for each source
	target      cuda.Pointer
	emb, top    process // behind the target embeddings and the decoder
	autoreg     model.Autoregression
	layerState  int // elements of the state of a decoder layer
	decoder     []*decoderLayer
	network     *network // in the place of those layers, of a recurrent model
	alignment   int      // layer whose attention serves as alignment
	table, bias cuda.Pointer
	bytes       gpukernels.ByteMatrix // the table in 8 bits; without an address none
	multiplier  float32               // with which rows are quantised for it; 0: with one of its own for each

	multipliers        []*gpukernels.Multiplier // by cuBLASLt
	kinds, kindsByBLAS int                      // of products
	workspace          int                      // bytes that they need of each stream
}

// An encoder reads a source.
type encoder struct {
	table     cuda.Pointer // of embeddings
	emb, top  process      // behind the embeddings and the stack
	layers    []encoderLayer
	contextKV linear  // keys and values of all decoder layers from the encoder's output
	reader    *reader // in the place of layers and contextKV, of a recurrent model
}

// A linear is matrices that read the same input, side by side.
type linear struct {
	weights, bias cuda.Pointer // of 16 bits, a row for each column of the result; float32
	in, out       int

	bytes gpukernels.ByteMatrix // the weights in 8 bits, in place of those of 16; without an address none
	parts []bytePart            // of these

	storedBias cuda.Pointer           // the bias in 16 bits; 0 if there is no use for it
	by         *gpukernels.Multiplier // nil: own kernels
}

type encoderLayer struct {
	pre, post process
	qkv       linear
	o         *linear // nil without
	ffn       feedForward
}

type feedForward struct {
	pre, post  process
	layers     []linear // each followed by the activation
	last       linear
	activation model.Activation
}

// A decoderLayer has one of self, average and recurrent.
type decoderLayer struct {
	self      *selfAttention
	average   *average
	recurrent *recurrent
	contexts  []contextAttention // one for each source, one after the other
	ffn       feedForward
}

// A contextAttention is attention to a source.
type contextAttention struct {
	pre, post process
	q         linear
	o         *linear // nil without
	first     int     // where the layer's keys begin in a row of contextKV
}

// selfAttention has queries, keys and values in one matrix, or, if a norm stands before it, those of keys and values apart, which do
// not see it.
type selfAttention struct {
	pre, post process
	qkv       linear
	q, kv, v  *linear // nil if there is qkv
	o         *linear
}

type recurrent struct {
	pre, post process
	gates     linear // x, f and, of an SRU, r
	sru       bool
	cell      *cell   // in the place of both
	o         *linear // nil without
}

type average struct {
	pre, post    process
	hidden       []linear
	activation   model.Activation
	out          *linear // nil without
	gateX, gateY *linear
}

// Load puts the parameters of a model on the device: the file may be closed afterwards.
func (d *Device) Load(m *model.Model, options Options) (*Weights, error) {
	if err := check(m); err != nil {
		return nil, err
	}
	dim := whole(m.Dim).filled
	w := &Weights{device: d, dim: dim, ownDim: m.Dim, heads: m.Heads, vocabulary: m.TargetVocabulary, row: dim, widest: 2 * dim,
		positions: !m.NoPositions, autoreg: m.Autoregression, layerState: dim,
		alignment: m.AlignmentLayer, suppressed: slices.Clone(options.Suppress)}
	if m.Recurrence == nil {
		w.head, _ = headOf(m) // that there is one, check has seen
		w.row, w.widest = max(w.row, w.attention()), max(w.widest, 2*w.attention())
	}
	for _, token := range options.Suppress {
		if token < 0 || int(token) >= w.vocabulary {
			return nil, fmt.Errorf("token %d cannot be suppressed: the model has %d target pieces", token, w.vocabulary)
		}
	}
	if err := d.bound(func() error {
		if err := w.load(m, options); err != nil {
			return err
		}
		return w.chooseProducts(options.Tuning)
	}); err != nil {
		w.Close()
		return nil, fmt.Errorf("load the model onto %s: %w", d.properties.Name, err)
	}
	return w, nil
}

// Close frees the weights. All Steppers must be closed before.
func (w *Weights) Close() error {
	return w.device.bound(func() error {
		failed := []error{w.closeProducts()}
		for _, p := range w.allocated {
			failed = append(failed, w.device.context.Free(p))
		}
		w.allocated = nil
		return errors.Join(failed...)
	})
}

func (w *Weights) load(m *model.Model, options Options) error {
	stream, err := w.device.context.Stream()
	if err != nil {
		return err
	}
	defer stream.Close()
	u := &uploader{w: w, stream: stream, options: options, tables: map[*marian.Tensor]cuda.Pointer{}}
	if options.Alphas && w.device.as.Products == gpukernels.Int8 {
		u.alphas = m.Alphas
	}
	w.target = u.embedding(m.TargetEmbedding)
	w.emb, w.top = u.process(m.DecoderEmb), u.process(m.DecoderTop)
	if m.Recurrent != nil {
		u.network(m)
	} else {
		u.encoders(m)
		u.decoder(m)
	}
	w.table = w.target
	switch {
	case w.device.inBytes():
		values, scales := u.quantise(m.Output.W, w.vocabulary, m.Dim, m.Output.Columns)
		w.bytes = u.bytes(w.vocabulary, w.dim, fillMatrix(values, unit{1, 1}.of(w.vocabulary), rowOf(m.Dim)), scales)
		w.multiplier = u.known(m.Output.Multiplier(u.alphas))
	case m.Output.W != m.TargetEmbedding || m.Output.Columns:
		w.table = u.table(m.Output.W, m.Output.Columns)
	}
	w.bias = u.vector(m.Output.Bias, unit{1, 1}.of(m.TargetVocabulary))
	if u.err != nil {
		return u.err
	}
	return stream.Synchronize()
}

// An uploader copies parameters to the device, until something fails.
type uploader struct {
	w       *Weights
	stream  *cuda.Stream
	options Options
	alphas  model.Alphas                    // nil where they are not asked for
	tables  map[*marian.Tensor]cuda.Pointer // of embeddings
	err     error
}

// embedding uploads a table of embeddings, which several sources or sides may share.
func (u *uploader) embedding(t *marian.Tensor) cuda.Pointer {
	if _, there := u.tables[t]; !there {
		u.tables[t] = u.table(t, false)
	}
	return u.tables[t]
}

// encoders uploads those of all sources. A stack that several of them share is there once.
func (u *uploader) encoders(m *model.Model) {
	w := u.w
	if !m.HasEncoder() {
		return
	}
	w.encoders = append(w.encoders, encoder{table: u.embedding(m.SourceEmbedding), emb: u.process(m.EncoderEmb), top: u.process(m.EncoderTop),
		layers: u.encoderLayers(m, m.Encoder)})
	for i := range m.Further {
		from := &m.Further[i]
		to := w.encoders[0]
		if !sharedLayers(from.Layers, m.Encoder) {
			to = encoder{emb: u.process(from.Emb), top: u.process(from.Top), layers: u.encoderLayers(m, from.Layers)}
		}
		to.table = u.embedding(from.Embedding)
		w.encoders = append(w.encoders, to)
	}
}

// sharedLayers says whether two encoders have the same parameters.
func sharedLayers(x, y []model.EncoderLayer) bool {
	return len(x) > 0 && len(y) > 0 && x[0].Self.Q.W == y[0].Self.Q.W
}

func (u *uploader) encoderLayers(m *model.Model, from []model.EncoderLayer) []encoderLayer {
	var to []encoderLayer
	for i := range from {
		l := &from[i]
		to = append(to, encoderLayer{pre: u.process(l.Self.Pre), post: u.process(l.Self.Post),
			qkv: u.heads(l.Self.Q, l.Self.K, l.Self.V), o: u.joined(l.Self.O), ffn: u.feedForward(&l.FFN, m.EncoderStack)})
	}
	return to
}

func (u *uploader) decoder(m *model.Model) {
	w := u.w
	packed := map[*model.DecoderLayer]*decoderLayer{}
	contexts, first := make([][]model.Affine, len(w.encoders)), 0
	for _, l := range m.Decoder {
		if packed[l] == nil {
			d := &decoderLayer{ffn: u.feedForward(&l.FFN, m.DecoderStack)}
			u.autoregression(d, l, m)
			for source := range w.encoders {
				from := l.Context
				if source > 0 {
					from = &l.Further[source-1]
				}
				d.contexts = append(d.contexts, contextAttention{pre: u.process(from.Pre), post: u.process(from.Post), q: u.heads(from.Q),
					o: u.joined(from.O), first: first})
				contexts[source] = append(contexts[source], from.K, from.V)
			}
			first += 2 * w.attention()
			packed[l] = d
		}
		w.decoder = append(w.decoder, packed[l])
	}
	for source := range w.encoders {
		w.encoders[source].contextKV = u.heads(contexts[source]...)
	}
}

// attention is the elements that all heads have on the device.
func (w *Weights) attention() int { return w.heads * w.head.filled }

// contextWidth is the elements that are kept of a source token: keys and values of all decoder layers, or of the attention of a recurrent
// model, as many for each source; with hard attention alone what the encoder gave.
func (w *Weights) contextWidth() int {
	switch {
	case len(w.encoders) == 0:
		return 0
	case w.network != nil:
		if w.onlyHard() {
			return w.encoders[0].reader.width
		}
		return 2 * w.encoders[0].reader.width
	}
	return w.encoders[0].contextKV.out
}

// autoregression fills in how a layer looks at the target words so far.
func (u *uploader) autoregression(d *decoderLayer, l *model.DecoderLayer, m *model.Model) {
	switch {
	case l.Self != nil:
		d.self = u.selfAttention(l.Self)
	case l.Average != nil:
		d.average = u.average(l.Average, m.AverageNetwork.Activation)
	default:
		r := l.Recurrent
		d.recurrent = &recurrent{pre: u.process(r.Pre), post: u.process(r.Post), sru: r.Reset != nil, o: u.optional(r.O)}
		if r.Cell != nil {
			d.recurrent.cell = u.cell(r.Cell, rowOf(m.Dim))
			u.w.layerState = d.recurrent.cell.width
			return
		}
		gates := []model.Affine{r.Input, r.Forget}
		if r.Reset != nil {
			gates = append(gates, *r.Reset)
		}
		d.recurrent.gates = u.linear(gates...)
	}
}

func (u *uploader) average(from *model.Average, activation model.Activation) *average {
	a := &average{pre: u.process(from.Pre), post: u.process(from.Post), activation: activation, out: u.optional(from.Out),
		gateX: u.optional(from.GateX), gateY: u.optional(from.GateY)}
	for _, hidden := range from.Hidden {
		a.hidden = append(a.hidden, u.linear(hidden))
	}
	if rows := rowOf(u.w.ownDim); a.out == nil && activation == model.Sigmoid && rows.width() > rows.own() {
		a.out = u.unchanged(rows) // what fills them up became a half
	}
	return a
}

func (u *uploader) selfAttention(l *model.Attention) *selfAttention {
	a := &selfAttention{pre: u.process(l.Pre), post: u.process(l.Post), o: u.joined(l.O)}
	if len(a.pre) == 0 {
		a.qkv = u.heads(l.Q, l.K, l.V)
	} else {
		a.q, a.kv, a.v = u.pointer(u.heads(l.Q)), u.pointer(u.heads(l.K, l.V)), u.pointer(u.heads(l.V))
	}
	return a
}

func (u *uploader) feedForward(f *model.FFN, stack model.Stack) feedForward {
	to := feedForward{pre: u.process(f.Pre), post: u.process(f.Post), activation: stack.Activation}
	last := len(f.Layers) - 1
	for _, l := range f.Layers[:last] {
		to.layers = append(to.layers, u.linear(l))
	}
	to.last = u.linear(f.Layers[last])
	return to
}

// optional uploads a matrix if there is one.
func (u *uploader) optional(l *model.Affine) *linear {
	if l == nil {
		return nil
	}
	return u.pointer(u.linear(*l))
}

func (u *uploader) pointer(l linear) *linear { return &l }

// heads are matrices that give queries, keys or values of all heads.
func (u *uploader) heads(pieces ...model.Affine) linear {
	return u.laidOut(rowOf(u.w.ownDim), u.w.head, nil, pieces...)
}

// joined is the matrix that is multiplied with what all heads found. If there is none, but heads are filled up, it puts them together again.
func (u *uploader) joined(o *model.Affine) *linear {
	heads, dim := u.w.head.of(u.w.ownDim), rowOf(u.w.ownDim)
	switch {
	case o != nil:
		return u.pointer(u.laidOut(heads, dim[0], nil, *o))
	case heads.width() == dim.width():
		return nil
	}
	return u.unchanged(heads)
}

// unchanged is a product with the identity: it makes rows of another layout, of as many elements, rows of the model's layout, filled up with
// zeros.
func (u *uploader) unchanged(from layout) *linear {
	identity, dim := make([]float32, u.w.ownDim*u.w.ownDim), rowOf(u.w.ownDim)
	for i := range u.w.ownDim {
		identity[i*(u.w.ownDim+1)] = 1
	}
	l := linear{in: from.width(), out: dim.width(), weights: u.halves("the identity", fillMatrix(identity, dim, from))}
	bias := make([]float32, l.out)
	l.storedBias, l.bias = u.roundBias(bias), upload(u, bias)
	return &l // of 16 bits, whatever other products have: it changes no number
}

// linear puts matrices side by side, which all read one row and give one each.
func (u *uploader) linear(pieces ...model.Affine) linear {
	return u.laidOut(rowOf(pieces[0].In), whole(pieces[0].Out), nil, pieces...)
}

// laidOut puts matrices side by side, transposed: the kernels want a row for each column of the result. They read rows of a layout, and what they
// give consists of units, of which each matrix gives whole ones. more is added to the biases, if it is not nil.
func (u *uploader) laidOut(in layout, of unit, more []float32, pieces ...model.Affine) linear {
	n := 0
	for _, piece := range pieces {
		if piece.Out%of.own != 0 && u.err == nil {
			u.err = fmt.Errorf("%s has %d columns, which are to be a multiple of %d", piece.W.Name, piece.Out, of.own)
		}
		n += piece.Out
	}
	out := of.of(n)
	l := linear{in: in.width(), out: out.width()}
	if u.err != nil {
		return l
	}
	var weights, scales, bias []float32
	var quantised []int8
	for _, piece := range pieces {
		if u.w.device.inBytes() {
			q, scale := u.quantise(piece.W, piece.Out, piece.In, true)
			quantised, scales = append(quantised, q...), append(scales, scale...)
			l.addPart(of.of(piece.Out).width(), u.known(u.alphas.Multiplier(piece.W.Name)))
		} else {
			weights = append(weights, transpose(u.floats(piece.W), piece.In, piece.Out)...)
		}
		if piece.B == nil {
			bias = append(bias, make([]float32, piece.Out)...)
		} else {
			bias = append(bias, u.floats(piece.B)...)
		}
	}
	if u.err != nil {
		return l
	}
	for i := range more {
		bias[i] += more[i]
	}
	bias = fill(bias, out)
	if u.w.device.inBytes() {
		l.bytes = u.bytes(l.out, l.in, fillMatrix(quantised, out, in), fill(scales, out))
	} else {
		l.storedBias = u.roundBias(bias)
		l.weights = u.halves(pieces[0].W.Name, fillMatrix(weights, out, in))
	}
	l.bias = upload(u, bias)
	u.w.widest = max(u.w.widest, l.out)
	return l
}

// table uploads a matrix with a row for each token; columns says that it is stored the other way.
func (u *uploader) table(t *marian.Tensor, columns bool) cuda.Pointer {
	values := u.floats(t)
	if columns {
		values = transpose(values, u.w.ownDim, u.w.vocabulary)
	}
	return u.halves(t.Name, fillMatrix(values, unit{1, 1}.of(len(values)/u.w.ownDim), rowOf(u.w.ownDim)))
}

// vector uploads a vector, zeros if there is none.
func (u *uploader) vector(t *marian.Tensor, l layout) cuda.Pointer {
	if t == nil {
		return upload(u, make([]float32, l.width()))
	}
	return upload(u, fill(u.floats(t), l))
}

func (u *uploader) floats(t *marian.Tensor) []float32 {
	if u.err != nil {
		return nil
	}
	values, err := t.Float32()
	u.err = err
	return values
}

// halves uploads numbers as the device stores them, in 16 bits.
func (u *uploader) halves(name string, values []float32) cuda.Pointer {
	stored, as := make([]uint16, len(values)), u.w.device.as.Stored
	for i, v := range values {
		stored[i] = as.Round(v)
		if math.IsInf(float64(as.Float32(stored[i])), 0) && u.err == nil {
			u.err = fmt.Errorf("%w: parameter %s holds %v, which is too large for %v", ErrUnsupported, name, v, as)
		}
	}
	return upload(u, stored)
}

func upload[T any](u *uploader, values []T) cuda.Pointer {
	if u.err != nil {
		return 0
	}
	p, err := cuda.Alloc[T](u.w.device.context, len(values))
	if err == nil {
		u.w.allocated = append(u.w.allocated, p)
		err = cuda.CopyIn(u.stream, p, values)
	}
	u.err = err
	return p
}

// transpose returns the columns of a rows×columns matrix as rows; nothing of nothing.
func transpose[T int8 | float32](from []T, rows, columns int) []T {
	to := make([]T, len(from))
	if len(from) > 0 {
		kernels.Transpose(to, from, rows, columns, columns)
	}
	return to
}
