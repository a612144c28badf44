package model

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-mt/sluice/translator/marian"
)

// Load finds the parameters of the model in a file. description replaces the file's own if it is not nil. The tensors are
// those of the file, and valid as long as it is open.
//
// Errors wrap ErrUnsupported or ErrNoDescription, or hold a *ParameterError for each parameter that is missing or has the
// wrong shape.
func Load(file *marian.File, description []byte) (*Model, error) {
	m, err := load(file, description)
	if err != nil && file.Path != "" {
		return nil, fmt.Errorf("%s: %w", file.Path, err)
	}
	return m, err
}

func load(file *marian.File, description []byte) (*Model, error) {
	if description == nil {
		description = file.Config
	}
	a, err := Describe(description)
	if err != nil {
		return nil, err
	}
	b := newBinder(file)
	b.translate(a, file)
	m, err := b.model(a)
	if err != nil {
		return nil, err
	}
	m.Alphas, m.Unknown = b.rest(file)
	m.Marker = a.marker(file)
	if m.Recurrence != nil {
		m.Unknown = withoutLeftovers(m.Unknown)
	}
	return m, nil
}

// model binds the parameters of an architecture.
func (b *binder) model(a *Architecture) (*Model, error) {
	m := &Model{Architecture: *a}
	b.embeddings(m)
	if m.Recurrence != nil {
		m.Recurrent = b.network(m)
		b.output(m, "decoder_ff_logit_l2")
	} else {
		if m.HasEncoder() {
			b.encoder(m)
		}
		b.decoder(m)
		b.output(m, "decoder_ff_logit_out")
	}
	if err := b.err(); err != nil {
		return nil, err
	}
	m.parameters = b.bound
	return m, nil
}

// alphaSuffix ends the names of activation multipliers.
const alphaSuffix = "_QuantMultA"

// A binder hands out the tensors of a file by name, and notes what is wrong.
type binder struct {
	tensors  map[string]*marian.Tensor
	used     map[string]bool
	bound    []*marian.Tensor
	problems []error
	refused  error // that a part cannot be as it is described, whatever the parameters are
	create   bool  // make tensors that do not exist
}

func newBinder(file *marian.File) *binder {
	b := &binder{tensors: make(map[string]*marian.Tensor, len(file.Tensors)), used: make(map[string]bool)}
	for _, t := range file.Tensors {
		b.tensors[t.Name] = t
	}
	return b
}

// maxProblems bounds how many parameters an error lists.
const maxProblems = 5

func (b *binder) err() error {
	if b.refused != nil {
		return b.refused
	}
	if len(b.problems) <= maxProblems {
		return errors.Join(b.problems...)
	}
	more := fmt.Errorf("and %d more", len(b.problems)-maxProblems)
	return errors.Join(append(b.problems[:maxProblems:maxProblems], more)...)
}

// take returns the tensor of that name if it has the shape rows × columns. A single row may be stored as a vector.
func (b *binder) take(name string, rows, columns int) *marian.Tensor {
	t := b.tensors[name]
	if t == nil && b.create && rows > 0 {
		t = &marian.Tensor{Name: name, Shape: []int{rows, columns}, Type: marian.Float32}
		b.tensors[name] = t
	}
	if t == nil {
		b.problem(name, "is missing; expected %d×%d", rows, columns)
		return nil
	}
	if !hasShape(t.Shape, rows, columns) {
		b.problem(name, "has the shape %s; expected %d×%d", shapeString(t.Shape), rows, columns)
		return nil
	}
	b.use(t)
	return t
}

// use notes that a tensor is a parameter.
func (b *binder) use(t *marian.Tensor) {
	if !b.used[t.Name] {
		b.used[t.Name] = true
		b.bound = append(b.bound, t)
	}
}

// refuse notes a part that no program can run.
func (b *binder) refuse(format string, args ...any) {
	if b.refused == nil {
		b.refused = unsupported("the description is wrong, as no program can run it", format, args...)
	}
}

func (b *binder) problem(name, format string, args ...any) {
	b.problems = append(b.problems, &ParameterError{Name: name, Problem: fmt.Sprintf(format, args...)})
}

func hasShape(shape []int, rows, columns int) bool {
	switch len(shape) {
	case 1:
		return rows == 1 && shape[0] == columns
	case 2:
		return shape[0] == rows && shape[1] == columns
	}
	return false
}

func shapeString(shape []int) string {
	if len(shape) == 0 {
		return "of a single number"
	}
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, "×")
}

// rest returns the alphas, by the name of their parameter, and the names of all other tensors that were not used.
func (b *binder) rest(file *marian.File) (alphas map[string]*marian.Tensor, unknown []string) {
	alphas = make(map[string]*marian.Tensor)
	for _, t := range file.Tensors {
		if b.used[t.Name] {
			continue
		}
		if name, ok := strings.CutSuffix(t.Name, alphaSuffix); ok && t.Elements() == 1 {
			alphas[name] = t
			continue
		}
		unknown = append(unknown, t.Name)
	}
	return alphas, unknown
}

// table returns an embedding matrix. A vocabulary size of zero is replaced by the matrix's own.
func (b *binder) table(name string, vocabulary *int, dim int) *marian.Tensor {
	if t := b.tensors[name]; *vocabulary == 0 && t != nil && len(t.Shape) == 2 && t.Shape[0] <= maxVocabulary {
		*vocabulary = t.Shape[0]
	}
	return b.take(name, *vocabulary, dim)
}

func (b *binder) embeddings(m *Model) {
	if m.HasEncoder() {
		m.SourceEmbedding = b.table(m.sourceEmbedding(), &m.SourceVocabulary, m.Dim)
	}
	m.TargetEmbedding = b.table(m.targetEmbedding(), &m.TargetVocabulary, m.Dim)
}

func (b *binder) output(m *Model, name string) {
	switch {
	case m.tiedOutput():
		m.Output.W = m.TargetEmbedding
	case b.tensors[name+"_W"] != nil:
		m.Output.W, m.Output.Columns = b.take(name+"_W", m.Dim, m.TargetVocabulary), true
	default:
		m.Output.W = b.take(name+"_Wt", m.TargetVocabulary, m.Dim)
	}
	if !m.OutputOmitBias {
		m.Output.Bias = b.take(name+"_b", 1, m.TargetVocabulary)
	}
}

func (b *binder) affine(prefix, suffix string, in, out int) Affine {
	return Affine{W: b.take(prefix+"_W"+suffix, in, out), B: b.take(prefix+"_b"+suffix, 1, out), In: in, Out: out}
}

// process binds the parameters of a string of operations.
func (b *binder) process(prefix, operations, suffix string, dim int) Process {
	var p Process
	for _, operation := range operations {
		switch operation {
		case 'a':
			p = append(p, ProcessStep{Operation: Add})
		case 'n':
			p = append(p, ProcessStep{Operation: Normalize, Norm: Norm{
				Scale: b.take(prefix+"_ln_scale"+suffix, 1, dim), Bias: b.take(prefix+"_ln_bias"+suffix, 1, dim),
			}})
		case 'r':
			p = append(p, ProcessStep{Operation: Normalize, Norm: Norm{Scale: b.take(prefix+"_rms_scale"+suffix, 1, dim), RMS: true}})
		case 'h':
			p = append(p, ProcessStep{Operation: Highway, Gate: b.affine(prefix, "h", dim, dim)})
		}
	}
	return p
}

func (b *binder) pre(m *Model, prefix string) Process {
	return b.process(prefix, m.Preprocess, "_pre", m.Dim)
}
func (b *binder) post(m *Model, prefix string) Process {
	return b.process(prefix, m.Postprocess, "", m.Dim)
}

func (b *binder) encoder(m *Model) {
	m.EncoderEmb, m.Encoder, m.EncoderTop = b.encoderStack(m, m.encoderPrefix(0))
	for i := 1; i < m.Sources(); i++ {
		var f FurtherEncoder
		f.Embedding = b.table(m.embeddingOf(i), &m.FurtherVocabularies[i-1], m.Dim)
		f.Emb, f.Layers, f.Top = b.encoderStack(m, m.encoderPrefix(i))
		m.Further = append(m.Further, f)
	}
}

// encoderStack binds an encoder's layers and what is before and after them.
func (b *binder) encoderStack(m *Model, prefix string) (emb Process, layers []EncoderLayer, top Process) {
	emb = b.process(prefix+"_emb", m.PostprocessEmb, "_pre", m.Dim)
	for l := 1; l <= m.EncoderStack.Depth; l++ {
		name := prefix + "_l" + strconv.Itoa(l)
		layers = append(layers, EncoderLayer{
			Self: b.attention(m, name+"_self"),
			FFN:  b.ffn(m, name+"_ffn", m.EncoderStack),
		})
	}
	return emb, layers, b.process(prefix+"_top", m.PostprocessTop, "", m.Dim)
}

func (b *binder) decoder(m *Model) {
	m.DecoderEmb = b.process("decoder_emb", m.PostprocessEmb, "_pre", m.Dim)
	layers := make(map[int]*DecoderLayer)
	for l := range m.DecoderStack.Depth {
		number := m.parameterLayer(l)
		if layers[number] == nil {
			layers[number] = b.decoderLayer(m, "decoder_l"+strconv.Itoa(number))
		}
		m.Decoder = append(m.Decoder, layers[number])
	}
	m.DecoderTop = b.process("decoder_top", m.PostprocessTop, "", m.Dim)
}

func (b *binder) decoderLayer(m *Model, prefix string) *DecoderLayer {
	layer := new(DecoderLayer)
	switch {
	case m.Autoregression == SelfAttention:
		self := b.attention(m, prefix+"_self")
		layer.Self = &self
	case m.Autoregression == AverageAttention:
		layer.Average = b.average(m, prefix+"_aan")
	default:
		layer.Recurrent = b.recurrent(m, prefix+"_rnn")
	}
	if m.HasEncoder() {
		context := b.attention(m, prefix+"_context")
		layer.Context = &context
		for i := 2; i <= m.Sources(); i++ {
			layer.Further = append(layer.Further, b.attention(m, prefix+"_context_enc"+strconv.Itoa(i)))
		}
	}
	layer.FFN = b.ffn(m, prefix+"_ffn", m.DecoderStack)
	return layer
}

func (b *binder) attention(m *Model, prefix string) Attention {
	a := Attention{
		Pre: b.pre(m, prefix+"_Wo"), Q: b.affine(prefix, "q", m.Dim, m.Dim),
		K: b.affine(prefix, "k", m.Dim, m.Dim), V: b.affine(prefix, "v", m.Dim, m.Dim),
	}
	if !m.NoProjection {
		o := b.affine(prefix, "o", m.Dim, m.Dim)
		a.O = &o
	}
	a.Post = b.post(m, prefix+"_Wo")
	return a
}

func (b *binder) ffn(m *Model, prefix string, s Stack) FFN {
	f := FFN{Pre: b.pre(m, prefix+"_ffn")}
	width := m.Dim
	for i := 1; i < s.FFNDepth; i++ {
		f.Layers = append(f.Layers, b.affine(prefix, strconv.Itoa(i), width, s.FFNDim))
		width = s.FFNDim
	}
	f.Layers = append(f.Layers, b.affine(prefix, strconv.Itoa(s.FFNDepth), width, m.Dim))
	f.Post = b.post(m, prefix+"_ffn")
	return f
}

func (b *binder) average(m *Model, prefix string) *Average {
	a := &Average{Pre: b.pre(m, prefix+"_ffn")}
	width := m.Dim
	for i := 1; i < m.AverageNetwork.Depth; i++ {
		a.Hidden = append(a.Hidden, b.affine(prefix, strconv.Itoa(i), width, m.AverageNetwork.Dim))
		width = m.AverageNetwork.Dim
	}
	if width != m.Dim {
		out := b.affine(prefix, strconv.Itoa(m.AverageNetwork.Depth), width, m.Dim)
		a.Out = &out
	}
	if m.AverageNetwork.Gate {
		x, y := b.affine(prefix, "i", m.Dim, m.Dim), b.affine(prefix, "f", m.Dim, m.Dim)
		a.GateX, a.GateY = &x, &y
	}
	a.Post = b.post(m, prefix+"_ffn")
	return a
}

func (b *binder) recurrent(m *Model, prefix string) *Recurrent {
	r := &Recurrent{Pre: b.pre(m, prefix)}
	if m.Autoregression == RecurrentCell {
		cell := b.cell(m.DecoderCell, cellPlace{prefix: prefix, in: m.Dim, dim: m.Dim, layerNorm: m.CellNorm})
		r.Cell = &cell
	} else {
		r.Input = b.matrix(prefix+"_W", m.Dim, m.Dim)
		r.Forget = b.affine(prefix, "f", m.Dim, m.Dim)
	}
	if m.Autoregression == SRU {
		reset := b.affine(prefix, "r", m.Dim, m.Dim)
		r.Reset = &reset
	}
	if m.RNNProjection {
		o := b.affine(prefix, "o", m.Dim, m.Dim)
		r.O = &o
	}
	r.Post = b.post(m, prefix+"_ffn")
	return r
}
