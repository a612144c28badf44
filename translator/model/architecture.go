// Package model knows the architectures of Marian's models: which parameters a model of a given description has, under which
// names and in which shapes. It finds them in a model file and hands them out in typed structures. It does no arithmetic.
//
// The names and rules are those of marian-dev 1.12 (src/models/transformer.h, src/models/encoder_decoder.cpp).
package model

import (
	"slices"
	"strconv"
	"strings"
)

// An Architecture is what a model's embedded description says of its structure. Depths and dimensions are those in effect:
// what the description leaves to a default is filled in.
type Architecture struct {
	Type    string // "transformer", "lm-transformer", "multi-transformer", "shared-multi-transformer", or one of the recurrent "s2s", "nematus", "amun", "lm", "multi-s2s", "shared-multi-s2s", "devlin", "hard-att", "hard-soft-att" and "multi-hard-att"
	Version string // of the Marian that wrote the model; may be empty

	SourceVocabulary int // 0 if the model has no encoder
	// FurtherVocabularies are the sizes of those of the second source and those after it, for a model that has several.
	FurtherVocabularies []int
	TargetVocabulary    int

	// Recurrence is what is said of a recurrent model, nil for a transformer. Of what follows, a recurrent model has only the
	// dimension of the embeddings, the depths of the stacks, and what concerns embeddings, output and direction.
	Recurrence *Recurrence

	Dim          int // of embeddings and layers
	Heads        int
	EncoderStack Stack
	DecoderStack Stack

	Preprocess, Postprocess        string // before and after each sublayer: letters of d a n r h
	PostprocessEmb, PostprocessTop string // after the embeddings and after the stack

	Autoregression Autoregression
	DecoderCell    CellKind       // of RecurrentCell
	CellNorm       bool           // whether there are layer norms inside of that
	AverageNetwork AverageNetwork // of decoders with average attention

	NoProjection  bool  // attention without its output matrix
	RNNProjection bool  // an output matrix after the recurrent unit
	TiedLayers    []int // for each decoder layer, the number of the layer (from 1) whose parameters it uses; nil if not tied

	TiedEmbeddings    bool // target embeddings and output share a matrix
	TiedEmbeddingsSrc bool // source and target embeddings do
	TiedEmbeddingsAll bool // all three do
	OutputOmitBias    bool

	RightLeft              bool // the model reads and writes sentences back to front: both sides must be reversed before the end of sentence
	NoPositions            bool // neither positions nor the factor √Dim are applied to embeddings
	AlignmentLayer         int  // decoder layer, from 0, whose first head serves as alignment
	TrainPositionEmbedding bool // said by the description, without effect on type transformer
	DepthScaling           bool // of the weights' initial values, without effect on a trained model
}

// A Stack describes the layers of an encoder or decoder.
type Stack struct {
	Depth      int
	FFNDim     int
	FFNDepth   int // matrices of a feed-forward sublayer
	Activation Activation
}

// AverageNetwork describes the network behind average attention (Zhang et al., "Accelerating Neural Transformer via an
// Average Attention Network", 2018).
type AverageNetwork struct {
	Dim        int
	Depth      int
	Activation Activation
	Gate       bool
}

// Autoregression is how a decoder layer looks at the target words so far.
type Autoregression uint8

// The kinds of autoregression.
const (
	SelfAttention Autoregression = iota
	AverageAttention
	SSRU          // simpler simple recurrent unit
	SRU           // simple recurrent unit
	RecurrentCell // another cell, or one with layer norms inside
)

// String returns the kind in Marian's words.
func (a Autoregression) String() string {
	switch a {
	case SelfAttention:
		return "self-attention"
	case AverageAttention:
		return "average-attention"
	case SSRU:
		return "rnn (ssru)"
	case SRU:
		return "rnn (sru)"
	case RecurrentCell:
		return "rnn"
	}
	return "autoregression " + strconv.Itoa(int(a))
}

// Recurrent says whether the layer has a recurrent unit.
func (a Autoregression) Recurrent() bool { return a == SSRU || a == SRU || a == RecurrentCell }

// Activation is the function between the matrices of a feed-forward network.
type Activation uint8

// The activations.
const (
	Identity Activation = iota
	ReLU
	Swish
	GELU        // x·Φ(x) through the error function: mainline from 1.12.1 on
	GELUSigmoid // x·σ(1.702·x): browsermt, and mainline before
	Sigmoid
)

// String returns the activation in Marian's words.
func (a Activation) String() string {
	names := [...]string{"none", "relu", "swish", "gelu", "gelu (sigmoid approximation)", "sigmoid"}
	if int(a) < len(names) {
		return names[a]
	}
	return "activation " + strconv.Itoa(int(a))
}

// Norm epsilons, added under the root.
const (
	LayerNormEpsilon = 1e-6
	RMSNormEpsilon   = 1e-6
)

// HasEncoder says whether the model reads a source sentence.
func (a *Architecture) HasEncoder() bool { return a.Type != typeLM && a.Type != typeRecurrentLM }

// Sources is the number of source sentences that the model reads.
func (a *Architecture) Sources() int {
	return sourcesOf(a.Type)
}

func sourcesOf(name string) int {
	switch name {
	case typeLM, typeRecurrentLM:
		return 0
	case typeMulti, typeSharedMulti, typeMultiS2S, typeSharedS2S, typeMultiHard:
		return 2
	}
	return 1
}

// encoderPrefix begins the names of the parameters of an encoder, numbered from 0.
func (a *Architecture) encoderPrefix(number int) string {
	if a.Type == typeMulti || a.Type == typeMultiS2S || a.Type == typeMultiHard {
		return "encoder" + strconv.Itoa(number+1)
	}
	return "encoder"
}

// parameterLayer returns the number, from 1, in the names of the parameters of decoder layer l, from 0.
func (a *Architecture) parameterLayer(l int) int {
	if len(a.TiedLayers) > 0 {
		return a.TiedLayers[l]
	}
	return l + 1
}

// sourceEmbedding returns the name of the source embeddings.
func (a *Architecture) sourceEmbedding() string { return a.embeddingOf(0) }

// embeddingOf returns the name of the embeddings of a source, numbered from 0.
func (a *Architecture) embeddingOf(source int) string {
	if a.TiedEmbeddingsAll || a.TiedEmbeddingsSrc {
		return "Wemb"
	}
	return a.encoderPrefix(source) + "_Wemb"
}

// targetEmbedding returns the name of the target embeddings.
func (a *Architecture) targetEmbedding() string {
	if a.TiedEmbeddingsAll || a.TiedEmbeddingsSrc {
		return "Wemb"
	}
	return "decoder_Wemb"
}

// tiedOutput says whether the output layer multiplies with the target embeddings.
func (a *Architecture) tiedOutput() bool {
	return (a.TiedEmbeddings || a.TiedEmbeddingsAll) && !isHard(a.Type)
}

// geluOf returns what "gelu" meant to the Marian of that version. Mainline computed the sigmoid approximation up to 1.12.0,
// and browsermt, which numbers its versions 1.9, still does.
func geluOf(version string) Activation {
	number, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(version), "v"), " ")
	parts := strings.SplitN(number, ".", 4)
	if len(parts) < 3 {
		return GELU
	}
	var have []int
	for _, part := range parts[:3] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return GELU
		}
		have = append(have, n)
	}
	if slices.Compare(have, []int{1, 12, 1}) < 0 {
		return GELUSigmoid
	}
	return GELU
}
