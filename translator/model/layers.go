package model

import "github.com/sluice-mt/sluice/translator/marian"

// A Model is an architecture with its parameters, as they lie in the file.
type Model struct {
	Architecture

	SourceEmbedding *marian.Tensor // SourceVocabulary × Dim; nil without an encoder
	TargetEmbedding *marian.Tensor // TargetVocabulary × Dim; the same tensor as SourceEmbedding if they are tied

	EncoderEmb Process // after the source embeddings
	Encoder    []EncoderLayer
	EncoderTop Process // after the stack; Add adds the embeddings

	Further []FurtherEncoder // of the second source and those after it

	DecoderEmb Process
	Decoder    []*DecoderLayer // tied layers are the same pointer; their states are separate
	DecoderTop Process

	Recurrent *RecurrentNetwork // of a recurrent model, which has none of the layers above

	Output Output

	// Alphas holds the activation multipliers of a quantised model by the name of the parameter whose product they serve,
	// as stored: NAME_QuantMultA under NAME.
	Alphas Alphas

	// Marker is a tensor without elements that a file needs if its parameters go by the names of Nematus; else nil.
	Marker *marian.Tensor

	// Unknown names the tensors of the file that the architecture has no use for, in the order of the file.
	Unknown []string

	parameters []*marian.Tensor // bound ones, in the order of binding
}

// A FurtherEncoder reads a source after the first.
type FurtherEncoder struct {
	Embedding *marian.Tensor
	Emb       Process
	Layers    []EncoderLayer
	Top       Process
}

// An Affine is x·W + B.
type Affine struct {
	W       *marian.Tensor // In × Out
	B       *marian.Tensor // 1 × Out; nil if there is none
	In, Out int
}

// A Norm is a layer norm, or the norm by the root mean square, which has no bias.
type Norm struct {
	Scale *marian.Tensor // 1 × Dim
	Bias  *marian.Tensor // 1 × Dim; nil if RMS
	RMS   bool
}

// Operation is a step of a Process.
type Operation uint8

// The operations. Dropout is not among them: it does nothing at inference.
const (
	Add       Operation = iota // add the input of the block
	Normalize                  // Norm
	Highway                    // σ(g)·x + (1-σ(g))·(input of the block), g = Gate(input of the block)
)

// A ProcessStep is an Operation with its parameters.
type ProcessStep struct {
	Operation Operation
	Norm      Norm   // of Normalize
	Gate      Affine // of Highway
}

// A Process is what happens before or after a sublayer, in order.
type Process []ProcessStep

// Attention is a multi-head attention sublayer.
type Attention struct {
	Pre     Process
	Q, K, V Affine
	O       *Affine // nil if the architecture has no projection
	Post    Process
}

// FFN is a feed-forward sublayer: Layers one after another, with the stack's activation between them.
type FFN struct {
	Pre    Process
	Layers []Affine
	Post   Process
}

// Average is an average attention sublayer: the running mean y of the inputs x goes through Pre, Hidden (each followed by
// the activation) and Out; with gates, the result is σ(GateX(x))·x + σ(GateY(y))·y.
type Average struct {
	Pre          Process
	Hidden       []Affine
	Out          *Affine // nil if the width is right already
	GateX, GateY *Affine // nil without gate
	Post         Process
}

// Recurrent is a sublayer with an SSRU or SRU.
//
//	c = σ(f)·c + (1-σ(f))·(x·W)   with f = x·Wf + bf
//	SSRU: max(0, c)     SRU: σ(r)·tanh(c) + (1-σ(r))·x   with r = x·Wr + br
type Recurrent struct {
	Pre    Process
	Input  Affine // W, without bias
	Forget Affine
	Reset  *Affine // SRU only
	O      *Affine // nil unless the architecture projects
	Post   Process

	// Cell is the unit, in the place of Input, Forget and Reset, if it is another one or has layer norms inside.
	Cell *Cell
}

// An EncoderLayer is a layer of the encoder.
type EncoderLayer struct {
	Self Attention
	FFN  FFN
}

// A DecoderLayer is a layer of the decoder. One of Self, Average and Recurrent is set, as the architecture says.
type DecoderLayer struct {
	Self      *Attention
	Average   *Average
	Recurrent *Recurrent
	Context   *Attention  // attention to the source; nil without an encoder
	Further   []Attention // to the second source and those after it, one after the other
	FFN       FFN
}

// Output is the output layer.
type Output struct {
	W       *marian.Tensor // TargetVocabulary × Dim, or Dim × TargetVocabulary if Columns
	Bias    *marian.Tensor // 1 × TargetVocabulary; nil if the model has none
	Columns bool           // W is the untransposed matrix of old models
}
