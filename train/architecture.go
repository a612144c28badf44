package train

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Architecture is the part of a configuration that describes the model. The trained model carries it; package model says what
// it means and what is supported.
type Architecture struct {
	Type               string   `yaml:"type"`
	DimVocabs          []int    `yaml:"dim-vocabs,flow"` // those of the vocabularies, filled in by Run
	DimEmb             int      `yaml:"dim-emb"`
	EncDepth           int      `yaml:"enc-depth"`
	DecDepth           int      `yaml:"dec-depth"`
	DecCell            string   `yaml:"dec-cell"`
	LayerNormalization bool     `yaml:"layer-normalization"`
	RightLeft          bool     `yaml:"right-left"`
	TiedEmbeddings     bool     `yaml:"tied-embeddings"`
	TiedEmbeddingsSrc  bool     `yaml:"tied-embeddings-src"`
	TiedEmbeddingsAll  bool     `yaml:"tied-embeddings-all"`
	OutputOmitBias     bool     `yaml:"output-omit-bias"`
	Heads              int      `yaml:"transformer-heads"`
	NoProjection       bool     `yaml:"transformer-no-projection"`
	RNNProjection      bool     `yaml:"transformer-rnn-projection"`
	DimFFN             int      `yaml:"transformer-dim-ffn"`
	DecoderDimFFN      int      `yaml:"transformer-decoder-dim-ffn"`
	FFNDepth           int      `yaml:"transformer-ffn-depth"`
	DecoderFFNDepth    int      `yaml:"transformer-decoder-ffn-depth"`
	FFNActivation      string   `yaml:"transformer-ffn-activation"`
	DimAAN             int      `yaml:"transformer-dim-aan"`
	AANDepth           int      `yaml:"transformer-aan-depth"`
	AANActivation      string   `yaml:"transformer-aan-activation"`
	AANNoGate          bool     `yaml:"transformer-aan-nogate"`
	Autoregression     string   `yaml:"transformer-decoder-autoreg"`
	TiedLayers         []int    `yaml:"transformer-tied-layers,flow"`
	AlignmentLayer     string   `yaml:"transformer-guided-alignment-layer"`
	Preprocess         string   `yaml:"transformer-preprocess"`
	Postprocess        string   `yaml:"transformer-postprocess"`
	PostprocessEmb     string   `yaml:"transformer-postprocess-emb"`
	PostprocessTop     string   `yaml:"transformer-postprocess-top"`
	DisablePositions   bool     `yaml:"transformer-disable-position-embeddings"`
	DepthScaling       bool     `yaml:"transformer-depth-scaling"`
	InputTypes         []string `yaml:"input-types,flow"`
	Version            string   `yaml:"version"`
}

// marianVersion is the version of Marian whose definitions trained models follow: it decides what "gelu" means.
const marianVersion = "v1.12.43 (written by sluice)"

// defaultArchitecture has the defaults of Marian's command line, but for the type.
func defaultArchitecture() Architecture {
	return Architecture{
		Type: "transformer", DimEmb: 512, EncDepth: 6, DecDepth: 6, DecCell: "gru", Heads: 8,
		DimFFN: 2048, FFNDepth: 2, FFNActivation: "swish", DimAAN: 2048, AANDepth: 2, AANActivation: "swish",
		Autoregression: "self-attention", AlignmentLayer: "last", Postprocess: "dan", PostprocessEmb: "d",
	}
}

// description returns the YAML that the model file embeds.
func (a Architecture) description(vocabularies []int) ([]byte, error) {
	a.DimVocabs, a.Version = vocabularies, marianVersion
	text, err := yaml.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("describing the model: %w", err)
	}
	return text, nil
}
