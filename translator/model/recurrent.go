package model

import (
	"fmt"
	"strconv"
)

// A Recurrence is what the description of a recurrent model says: one of type s2s, nematus, amun, lm, multi-s2s,
// shared-multi-s2s, devlin, hard-att, hard-soft-att or multi-hard-att.
type Recurrence struct {
	Dim         int // of states
	Encoder     EncoderType
	EncoderCell CellKind
	DecoderCell CellKind

	EncoderCells int // of each layer of the encoder, one after another
	BaseCells    int // of the decoder's first layer; the first two stand around the attention
	HighCells    int // of the decoder's other layers

	LayerNorm bool
	Skip      bool // layers from the second on add their input to what they give
	Nematus   bool // layer norms outside of cells are those of Nematus

	Devlin *DevlinStack   // of type devlin, nil for the others
	Hard   *HardAttention // of the types that have it, nil for the others
}

// EncoderType is the order in which the layers of a recurrent encoder read a sentence.
type EncoderType uint8

// The types of encoders. Bidirectional has two stacks, which read forwards and backwards and whose results stand side by
// side in the end. In Alternating, the direction changes from layer to layer of each stack. In BiUnidirectional, only the first
// layers are two; the others read both forwards.
const (
	Bidirectional EncoderType = iota
	BiUnidirectional
	Alternating
)

var encoderTypes = [...]string{"bidirectional", "bi-unidirectional", "alternating"}

// String returns the type in Marian's words.
func (e EncoderType) String() string {
	if int(e) < len(encoderTypes) {
		return encoderTypes[e]
	}
	return "encoder type " + strconv.Itoa(int(e))
}

// ContextDim is the number of elements that the encoder gives for a source token.
func (r *Recurrence) ContextDim(encoderDepth int) int {
	if r.Encoder == BiUnidirectional && encoderDepth > 1 {
		return r.Dim
	}
	return 2 * r.Dim
}

// Limits of what a description may claim, far above any recurrent model there is.
const (
	maxRecurrentDepth = 1 << 7
	maxCells          = 1 << 6 // of a layer
)

// RecurrentKeys are the keys of a description that matter to recurrent models alone.
type RecurrentKeys struct {
	DimRNN       int    `yaml:"dim-rnn"`                      // of states
	EncType      string `yaml:"enc-type"`                     // bidirectional, bi-unidirectional or alternating
	EncCell      string `yaml:"enc-cell"`                     // gru, gru-nematus, lstm, mgru, mlstm, tanh, relu, sru or ssru
	EncCellDepth int    `yaml:"enc-cell-depth"`               // cells of each layer of the encoder
	DecBaseDepth int    `yaml:"dec-cell-base-depth"`          // of the decoder's first layer; attention comes after the first cell
	DecHighDepth int    `yaml:"dec-cell-high-depth"`          // of the decoder's other layers
	Skip         bool   `yaml:"skip"`                         // layers from the second on add their input to what they give
	SpecialVocab []int  `yaml:"special-vocab,flow,omitempty"` // of types with hard attention: target pieces after which it moves on
}

func defaultRecurrentKeys() RecurrentKeys {
	return RecurrentKeys{DimRNN: 1024, EncType: "bidirectional", EncCell: "gru", EncCellDepth: 1, DecBaseDepth: 2, DecHighDepth: 1}
}

// isRecurrent says whether a type's models are recurrent ones.
func isRecurrent(name string) bool {
	switch name {
	case typeS2S, typeNematus, typeAmun, typeRecurrentLM, typeMultiS2S, typeSharedS2S, typeDevlin:
		return true
	}
	return isHard(name)
}

// recurrent describes a recurrent model.
func (c *Description) recurrent() (*Architecture, error) {
	a := &Architecture{
		Type: c.Type, Version: c.Version, Dim: c.DimEmb,
		EncoderStack: Stack{Depth: c.EncDepth}, DecoderStack: Stack{Depth: c.DecDepth},
		TiedEmbeddings: c.TiedEmbeddings, TiedEmbeddingsSrc: c.TiedEmbeddingsSrc, TiedEmbeddingsAll: c.TiedEmbeddingsAll,
		OutputOmitBias: c.OutputOmitBias, RightLeft: c.RightLeft, NoPositions: true,
	}
	if !a.HasEncoder() {
		a.EncoderStack.Depth = 0
	}
	r := &Recurrence{
		Dim: c.DimRNN, EncoderCells: c.EncCellDepth, BaseCells: c.DecBaseDepth, HighCells: c.DecHighDepth,
		LayerNorm: c.LayerNormalization, Skip: c.Skip, Nematus: c.Type == typeNematus,
	}
	var err error
	if r.Encoder, err = encoderTypeOf(c.EncType); err != nil {
		return nil, err
	}
	if r.EncoderCell, err = cellKindOf(c.EncCell); err != nil {
		return nil, err
	}
	if r.DecoderCell, err = cellKindOf(c.DecCell); err != nil {
		return nil, err
	}
	a.Recurrence = r
	switch {
	case c.Type == typeDevlin:
		err = c.devlin(r)
	case isHard(c.Type):
		err = c.hard(r)
	}
	if err != nil {
		return nil, err
	}
	if err := c.vocabularies(a); err != nil {
		return nil, err
	}
	if err := a.validateRecurrent(); err != nil {
		return nil, fmt.Errorf("description of the model: %w", err)
	}
	return a, nil
}

func encoderTypeOf(name string) (EncoderType, error) {
	for i, known := range encoderTypes {
		if name == known {
			return EncoderType(i), nil
		}
	}
	return 0, unsupported(remedyMarian, "enc-type: %s", name)
}

func (a *Architecture) validateRecurrent() error {
	r, lowest := a.Recurrence, 0
	if a.HasEncoder() {
		lowest = 1
	}
	bounds := []bound{
		{"dim-emb", a.Dim, 1, maxDim}, {"dim-rnn", r.Dim, 1, maxDim},
		{"enc-depth", a.EncoderStack.Depth, lowest, maxRecurrentDepth}, {"dec-depth", a.DecoderStack.Depth, 1, maxRecurrentDepth},
		{"enc-cell-depth", r.EncoderCells, 1, maxCells}, {"dec-cell-base-depth", r.BaseCells, 1, maxCells},
		{"dec-cell-high-depth", r.HighCells, 1, maxCells},
		{"dim-vocabs", a.SourceVocabulary, 0, maxVocabulary}, {"dim-vocabs", a.TargetVocabulary, 0, maxVocabulary},
	}
	for _, vocabulary := range a.FurtherVocabularies {
		bounds = append(bounds, bound{"dim-vocabs", vocabulary, 0, maxVocabulary})
	}
	return within(bounds)
}
