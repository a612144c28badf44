package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	typeTransformer = "transformer"
	typeLM          = "lm-transformer"
	typeMulti       = "multi-transformer"
	typeSharedMulti = "shared-multi-transformer"
	typeS2S         = "s2s"
	typeNematus     = "nematus"
	typeAmun        = "amun"
	typeRecurrentLM = "lm"
	typeMultiS2S    = "multi-s2s"
	typeSharedS2S   = "shared-multi-s2s"
	typeDevlin      = "devlin"
	typeHard        = "hard-att"
	typeHardSoft    = "hard-soft-att"
	typeMultiHard   = "multi-hard-att"
)

// Limits of what a description may claim, far above any model there is: they keep products of dimensions from overflowing.
const (
	maxDim        = 1 << 16
	maxDepth      = 1 << 10
	maxVocabulary = 1 << 26
)

// A Description is the keys of a model's description that matter, under Marian's names.
type Description struct {
	Type                string `yaml:"type"` // transformer, s2s, amun, nematus, devlin, hard-att or hard-soft-att; lm-transformer or lm, which have no source; with two sources multi-transformer, shared-multi-transformer, multi-s2s, shared-multi-s2s or multi-hard-att
	Version             string `yaml:"version"`
	DimVocabs           []int  `yaml:"dim-vocabs,flow"`
	DimEmb              int    `yaml:"dim-emb"`
	EncDepth            int    `yaml:"enc-depth"`
	DecDepth            int    `yaml:"dec-depth"`
	DecCell             string `yaml:"dec-cell"`
	LayerNormalization  bool   `yaml:"layer-normalization"`
	RightLeft           bool   `yaml:"right-left"`
	TiedEmbeddings      bool   `yaml:"tied-embeddings"`
	TiedEmbeddingsSrc   bool   `yaml:"tied-embeddings-src"`
	TiedEmbeddingsAll   bool   `yaml:"tied-embeddings-all"`
	OutputOmitBias      bool   `yaml:"output-omit-bias"`
	Heads               int    `yaml:"transformer-heads"`
	NoProjection        bool   `yaml:"transformer-no-projection"`
	RNNProjection       bool   `yaml:"transformer-rnn-projection"`
	Pool                bool   `yaml:"transformer-pool,omitempty"`
	DimFFN              int    `yaml:"transformer-dim-ffn"`
	DecoderDimFFN       int    `yaml:"transformer-decoder-dim-ffn"`
	FFNDepth            int    `yaml:"transformer-ffn-depth"`
	DecoderFFNDepth     int    `yaml:"transformer-decoder-ffn-depth"`
	FFNActivation       string `yaml:"transformer-ffn-activation"`
	DimAAN              int    `yaml:"transformer-dim-aan"`
	AANDepth            int    `yaml:"transformer-aan-depth"`
	AANActivation       string `yaml:"transformer-aan-activation"`
	AANNoGate           bool   `yaml:"transformer-aan-nogate"`
	Autoregression      string `yaml:"transformer-decoder-autoreg"`
	TiedLayers          []int  `yaml:"transformer-tied-layers,flow"`
	AlignmentLayer      string `yaml:"transformer-guided-alignment-layer"`
	Preprocess          string `yaml:"transformer-preprocess"`
	Postprocess         string `yaml:"transformer-postprocess"`
	PostprocessEmb      string `yaml:"transformer-postprocess-emb"`
	PostprocessTop      string `yaml:"transformer-postprocess-top"`
	TrainPositions      bool   `yaml:"transformer-train-positions,omitempty"`
	TrainPositionEmbeds bool   `yaml:"transformer-train-position-embeddings,omitempty"`
	DisablePositions    bool   `yaml:"transformer-disable-position-embeddings"`
	AttentionMask       string `yaml:"transformer-attention-mask,omitempty"`
	DepthScaling        bool   `yaml:"transformer-depth-scaling"`
	ULR                 bool   `yaml:"ulr,omitempty"`
	FactorsDimEmb       int    `yaml:"factors-dim-emb,omitempty"`
	LemmaDimEmb         int    `yaml:"lemma-dim-emb,omitempty"`
	LemmaDependency     string `yaml:"lemma-dependency,omitempty"`

	RecurrentKeys `yaml:",inline"`
	DevlinKeys    `yaml:",inline"`
}

// DefaultDescription has the defaults of Marian's command line, which keys have that are left out.
func DefaultDescription() Description {
	return Description{
		DimEmb: 512, EncDepth: 1, DecDepth: 1, DecCell: "gru", Heads: 8,
		DimFFN: 2048, FFNDepth: 2, FFNActivation: "swish",
		DimAAN: 2048, AANDepth: 2, AANActivation: "swish",
		Autoregression: "self-attention", AlignmentLayer: "last",
		Postprocess: "dan", PostprocessEmb: "d", AttentionMask: "default",
		RecurrentKeys: defaultRecurrentKeys(), DevlinKeys: defaultDevlinKeys(),
	}
}

// YAML returns the description as model files embed it.
func (c *Description) YAML() ([]byte, error) {
	var node yaml.Node
	if err := node.Encode(c); err != nil {
		return nil, fmt.Errorf("describing the model: %w", err)
	}
	if c.Type != typeDevlin { // which Marian does not know
		node.Content = withoutKeys(node.Content, "dec-fc-depth", "dim-fc", "dec-top")
	}
	text, err := yaml.Marshal(&node)
	if err != nil {
		return nil, fmt.Errorf("describing the model: %w", err)
	}
	return text, nil
}

// withoutKeys drops pairs of keys and values.
func withoutKeys(pairs []*yaml.Node, keys ...string) []*yaml.Node {
	var rest []*yaml.Node
	for i := 0; i+1 < len(pairs); i += 2 {
		if !slices.Contains(keys, pairs[i].Value) {
			rest = append(rest, pairs[i], pairs[i+1])
		}
	}
	return rest
}

// Recurrent says whether a model of this type is a recurrent one.
func (c *Description) Recurrent() bool { return isRecurrent(c.Type) }

// Sources is the number of source sentences that a model of this type reads.
func (c *Description) Sources() int { return sourcesOf(c.Type) }

// Describe reads a model's description, the YAML that Marian embeds in model files. It refuses, with errors that wrap
// ErrUnsupported, what is not a supported architecture. Vocabulary sizes are zero where the description does not say them.
func Describe(description []byte) (*Architecture, error) {
	if len(description) == 0 {
		return nil, fmt.Errorf("%w; give the model's configuration (the .yml that Marian wrote beside it)", ErrNoDescription)
	}
	c := DefaultDescription()
	if err := yaml.Unmarshal(description, &c); err != nil {
		return nil, fmt.Errorf("description of the model: %w", plainYAML(err))
	}
	if c.Type == "" {
		return nil, errors.New("description of the model: the key type is missing")
	}
	if err := c.refuse(); err != nil {
		return nil, err
	}
	if isRecurrent(c.Type) {
		return c.recurrent()
	}
	a := c.architecture()
	if err := c.complete(a); err != nil {
		return nil, err
	}
	if err := a.validate(); err != nil {
		return nil, fmt.Errorf("description of the model: %w", err)
	}
	return a, nil
}

// plainYAML reduces the errors of the YAML reader to one line.
func plainYAML(err error) error {
	var mismatch *yaml.TypeError
	if errors.As(err, &mismatch) && len(mismatch.Errors) > 0 {
		return errors.New(mismatch.Errors[0])
	}
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

// architecture translates what needs no decision.
func (c *Description) architecture() *Architecture {
	encoderDepth := c.EncDepth
	if c.Type == typeLM {
		encoderDepth = 0
	}
	return &Architecture{
		Type: c.Type, Version: c.Version, Dim: c.DimEmb, Heads: c.Heads,
		EncoderStack: Stack{Depth: encoderDepth, FFNDim: c.DimFFN, FFNDepth: c.FFNDepth},
		DecoderStack: Stack{Depth: c.DecDepth, FFNDim: or(c.DecoderDimFFN, c.DimFFN), FFNDepth: or(c.DecoderFFNDepth, c.FFNDepth)},
		Preprocess:   c.Preprocess, Postprocess: c.Postprocess,
		PostprocessEmb: c.PostprocessEmb, PostprocessTop: c.PostprocessTop,
		AverageNetwork: AverageNetwork{Dim: c.DimAAN, Depth: c.AANDepth, Gate: !c.AANNoGate},
		NoProjection:   c.NoProjection, RNNProjection: c.RNNProjection,
		TiedLayers: c.TiedLayers, TiedEmbeddings: c.TiedEmbeddings, TiedEmbeddingsSrc: c.TiedEmbeddingsSrc,
		TiedEmbeddingsAll: c.TiedEmbeddingsAll, OutputOmitBias: c.OutputOmitBias,
		RightLeft: c.RightLeft, NoPositions: c.DisablePositions,
		TrainPositionEmbedding: c.TrainPositionEmbeds, DepthScaling: c.DepthScaling,
	}
}

func or(value, fallback int) int {
	if value != 0 {
		return value
	}
	return fallback
}

// complete fills in what has to be interpreted.
func (c *Description) complete(a *Architecture) error {
	activation, err := activationOf(c.FFNActivation, c.Version)
	if err != nil {
		return err
	}
	a.EncoderStack.Activation, a.DecoderStack.Activation = activation, activation
	if a.AverageNetwork.Activation, err = activationOf(c.AANActivation, c.Version); err != nil {
		return err
	}
	if a.Autoregression, err = c.autoregression(); err != nil {
		return err
	}
	if a.Autoregression == RecurrentCell {
		a.CellNorm = c.LayerNormalization
		if a.DecoderCell, err = cellKindOf(c.DecCell); err != nil {
			return err
		}
	}
	if a.AlignmentLayer, err = c.alignmentLayer(); err != nil {
		return err
	}
	return c.vocabularies(a)
}

// vocabularies reads the sizes of the vocabularies.
func (c *Description) vocabularies(a *Architecture) error {
	switch {
	case len(c.DimVocabs) == 0:
	case !a.HasEncoder():
		a.TargetVocabulary = c.DimVocabs[len(c.DimVocabs)-1]
	case len(c.DimVocabs) == a.Sources()+1:
		last := len(c.DimVocabs) - 1
		a.SourceVocabulary, a.TargetVocabulary = c.DimVocabs[0], c.DimVocabs[last]
		a.FurtherVocabularies = c.DimVocabs[1:last]
	default:
		return fmt.Errorf("description of the model: dim-vocabs has %d numbers, but a model of type %s has %d vocabularies",
			len(c.DimVocabs), c.Type, a.Sources()+1)
	}
	if missing := a.Sources() - 1 - len(a.FurtherVocabularies); missing > 0 {
		a.FurtherVocabularies = append(a.FurtherVocabularies, make([]int, missing)...)
	}
	return nil
}

func activationOf(name, version string) (Activation, error) {
	switch name {
	case "relu":
		return ReLU, nil
	case "swish":
		return Swish, nil
	case "gelu":
		return geluOf(version), nil
	case "sigmoid":
		return Sigmoid, nil
	case "":
		return Identity, nil
	}
	return 0, unsupported(remedyMarian, "the activation %q", name)
}

func (c *Description) autoregression() (Autoregression, error) {
	switch c.Autoregression {
	case "self-attention":
		return SelfAttention, nil
	case "average-attention":
		return AverageAttention, nil
	case "rnn":
	default:
		return 0, unsupported(remedyMarian, "transformer-decoder-autoreg: %s", c.Autoregression)
	}
	switch {
	case c.LayerNormalization:
		return RecurrentCell, nil
	case c.DecCell == "ssru":
		return SSRU, nil
	case c.DecCell == "sru":
		return SRU, nil
	}
	return RecurrentCell, nil
}

// alignmentLayer returns the decoder layer, from 0, that gives alignments.
func (c *Description) alignmentLayer() (int, error) {
	if c.AlignmentLayer == "last" || c.AlignmentLayer == "" {
		return c.DecDepth - 1, nil
	}
	layer, err := strconv.Atoi(c.AlignmentLayer)
	if err != nil || layer < 1 || layer > c.DecDepth {
		return 0, fmt.Errorf("description of the model: transformer-guided-alignment-layer is %q, but must be \"last\" or from 1 to %d",
			c.AlignmentLayer, c.DecDepth)
	}
	return layer - 1, nil
}

// A bound is the range of what a key may say.
type bound struct {
	key       string
	value     int
	low, high int
}

// within returns an error for the first value that is out of its range.
func within(bounds []bound) error {
	for _, b := range bounds {
		if b.value < b.low || b.value > b.high {
			return fmt.Errorf("%s is %d, but must be from %d to %d", b.key, b.value, b.low, b.high)
		}
	}
	return nil
}

// validate checks what later arithmetic relies on.
func (a *Architecture) validate() error {
	decoder, encoder := a.DecoderStack, a.EncoderStack
	err := within([]bound{
		{"dim-emb", a.Dim, 4, maxDim}, {"transformer-heads", a.Heads, 1, a.Dim},
		{"enc-depth", encoder.Depth, 0, maxDepth}, {"dec-depth", decoder.Depth, 1, maxDepth},
		{"transformer-dim-ffn", encoder.FFNDim, 1, maxDim}, {"transformer-ffn-depth", encoder.FFNDepth, 1, maxDepth},
		{"transformer-decoder-dim-ffn", decoder.FFNDim, 1, maxDim}, {"transformer-decoder-ffn-depth", decoder.FFNDepth, 1, maxDepth},
		{"transformer-dim-aan", a.AverageNetwork.Dim, 1, maxDim}, {"transformer-aan-depth", a.AverageNetwork.Depth, 0, maxDepth},
		{"dim-vocabs", a.SourceVocabulary, 0, maxVocabulary}, {"dim-vocabs", a.TargetVocabulary, 0, maxVocabulary},
	})
	for _, vocabulary := range a.FurtherVocabularies {
		err = errors.Join(err, within([]bound{{"dim-vocabs", vocabulary, 0, maxVocabulary}}))
	}
	if err != nil {
		return err
	}
	if a.Dim%a.Heads != 0 {
		return fmt.Errorf("dim-emb is %d, which %d transformer-heads do not divide", a.Dim, a.Heads)
	}
	if a.Dim%2 != 0 && !a.NoPositions {
		return fmt.Errorf("dim-emb is %d, but positions need an even number", a.Dim)
	}
	return a.validateLists()
}

func (a *Architecture) validateLists() error {
	if len(a.TiedLayers) > 0 && len(a.TiedLayers) != a.DecoderStack.Depth {
		return fmt.Errorf("transformer-tied-layers has %d numbers, but the decoder has %d layers", len(a.TiedLayers), a.DecoderStack.Depth)
	}
	for _, layer := range a.TiedLayers {
		if layer < 1 || layer > maxDepth {
			return fmt.Errorf("transformer-tied-layers names layer %d, but layers are numbered from 1", layer)
		}
	}
	for _, p := range []struct{ key, operations, allowed string }{
		{"transformer-preprocess", a.Preprocess, "dnr"}, {"transformer-postprocess", a.Postprocess, "danrh"},
		{"transformer-postprocess-emb", a.PostprocessEmb, "dnr"}, {"transformer-postprocess-top", a.PostprocessTop, "danrh"},
	} {
		if rest := strings.Trim(p.operations, p.allowed); rest != "" {
			return fmt.Errorf("%s is %q, but only the operations %s are known there", p.key, p.operations, strings.Join(strings.Split(p.allowed, ""), " "))
		}
	}
	return nil
}
