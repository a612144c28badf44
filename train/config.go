package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/corpus"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// ErrConfig is wrapped by the errors about settings that make no sense.
var ErrConfig = errors.New("training settings")

// Config is what a run is made of. Keys are those of Marian's training, where Marian has them, and so are their meanings.
type Config struct {
	model.Description `yaml:",inline"` // of the model; package model says what is supported. dim-vocabs are those of the vocabularies

	Model           string `yaml:"model"`            // the file to write
	PretrainedModel string `yaml:"pretrained-model"` // float32 model to start from; "" for random values. One of another type gives what has the same name
	Seed            uint64 `yaml:"seed"`
	CPUThreads      int    `yaml:"cpu-threads"` // workers, each with mini-batches of its own

	TrainSets         []string `yaml:"train-sets"` // sources and target; one file with tsv, or for a language model
	Vocabs            []string `yaml:"vocabs"`     // of sources and target, or one for all
	TSV               bool     `yaml:"tsv"`        // training and validation sets are tables: sources and target, separated by tabs
	MaxLength         int      `yaml:"max-length"` // in pieces, end of sentence included
	MaxLengthCrop     bool     `yaml:"max-length-crop"`
	MaxLengthRatio    float64  `yaml:"max-length-ratio"` // of the longer to the shorter side; 0 for any
	Shuffle           string   `yaml:"shuffle"`          // data or none
	ShuffleMemory     int      `yaml:"shuffle-memory"`   // MiB of packed sentence pairs that may be in memory at a time
	TempDir           string   `yaml:"tempdir"`
	DataWeighting     string   `yaml:"data-weighting"`
	DataWeightingType string   `yaml:"data-weighting-type"` // sentence or word

	EmbeddingVectors       []string `yaml:"embedding-vectors,flow"`  // text files in the format of word2vec, for each training set; "" for none
	EmbeddingNormalization bool     `yaml:"embedding-normalization"` // divide each file's vectors by the length of all of them together
	EmbeddingFixSrc        bool     `yaml:"embedding-fix-src"`       // do not train embeddings of sources
	EmbeddingFixTrg        bool     `yaml:"embedding-fix-trg"`       // nor those of the target; of tables that both share the source's setting counts

	NoiseUpper        float64 `yaml:"noise-upper"`        // share of pairs in capitals, in another choice of them in each epoch
	NoiseTitle        float64 `yaml:"noise-title"`        // likewise with each word beginning with a capital
	NoiseLower        float64 `yaml:"noise-lower"`        // with the source in small letters
	NoiseUnpunctuated float64 `yaml:"noise-unpunctuated"` // without the mark at the end
	NoiseTypos        float64 `yaml:"noise-typos"`        // with typing errors in the source
	NoiseTypoRate     float64 `yaml:"noise-typo-rate"`    // share of longer words with an error in such a source

	GuidedAlignment       string  `yaml:"guided-alignment"` // file of alignments; none for no guidance
	GuidedAlignmentCost   string  `yaml:"guided-alignment-cost"`
	GuidedAlignmentWeight float64 `yaml:"guided-alignment-weight"`

	MiniBatch      int  `yaml:"mini-batch"`       // pairs
	MiniBatchWords int  `yaml:"mini-batch-words"` // target pieces; 0 for any number
	MiniBatchFit   bool `yaml:"mini-batch-fit"`   // as many as fit into workspace
	MaxiBatch      int  `yaml:"maxi-batch"`       // times mini-batch: pairs that are sorted by length together
	Workspace      int  `yaml:"workspace"`        // MiB for the activations of each worker, of the GPU's memory if one trains
	OptimizerDelay int  `yaml:"optimizer-delay"`  // mini-batches of each worker for an update

	Precision []string `yaml:"precision,flow"` // of what the processor's products read, float32 or bfloat16, and of parameters and sums, float32. GPUs always read bfloat16

	CostType         string    `yaml:"cost-type"` // ce-mean-words, ce-mean or ce-sum: what the sum of losses is divided by
	LabelSmoothing   float64   `yaml:"label-smoothing"`
	Dropout          float64   `yaml:"transformer-dropout"`
	DropoutAttention float64   `yaml:"transformer-dropout-attention"`
	DropoutFFN       float64   `yaml:"transformer-dropout-ffn"`
	DropoutSrc       float64   `yaml:"dropout-src"`
	DropoutTrg       float64   `yaml:"dropout-trg"`
	DropoutRNN       float64   `yaml:"dropout-rnn"`           // the same elements in all steps and sentences of a mini-batch, as in Marian
	OptimizerParams  []float64 `yaml:"optimizer-params,flow"` // Adam's β₁, β₂ and ε
	LearnRate        float64   `yaml:"learn-rate"`
	LRWarmup         int       `yaml:"lr-warmup"`
	LRDecayInvSqrt   int       `yaml:"lr-decay-inv-sqrt"`
	ClipNorm         float64   `yaml:"clip-norm"`
	Smoothing        float64   `yaml:"exponential-smoothing"`
	MaxNormGrowth    float64   `yaml:"max-norm-growth"`  // an update whose gradient is so many times larger than usual is skipped; 0 for none
	LRLower          float64   `yaml:"lr-lower"`         // what learn-rate is multiplied by when lr-lower-skipped updates were skipped
	LRLowerSkipped   int       `yaml:"lr-lower-skipped"` // 0 for never

	QuantizeBits        int    `yaml:"quantize-bits"` // of the parameters, 2 to 8; 0 for float32
	QuantizeSteps       int    `yaml:"quantize-optimization-steps"`
	QuantizeLogBased    bool   `yaml:"quantize-log-based"`
	QuantizeBiases      bool   `yaml:"quantize-biases"`
	QuantizeScales      string `yaml:"quantize-scales"`      // of fixed-point numbers: columns, as the engine's, or matrix, as stored 8-bit models'; of logarithmic ones: matrix, as Marian's, or blocks, closer ones
	QuantizeIn8Bits     string `yaml:"quantize-in-8-bits"`   // of 4-bit models with blocks: rows that are left in 8 bits, such as Wemb:2000 or decoder_*; auto for as many of each table as leave a seventh of the size in float32, none for none
	QuantizeCalibrate   int    `yaml:"quantize-calibrate"`   // mini-batches that show what matrices meet, for a better rounding to begin with; 0 for the nearest numbers
	QuantizeActivations bool   `yaml:"quantize-activations"` // to 8 bits, row by row, as the engine does

	AfterEpochs  int `yaml:"after-epochs"`  // 0 for no limit
	AfterBatches int `yaml:"after-batches"` // updates; 0 for no limit
	DispFreq     int `yaml:"disp-freq"`     // updates
	SaveFreq     int `yaml:"save-freq"`     // updates; 0 for the end only
	KeepSaved    int `yaml:"keep-checkpoints"`
	MaxSkipped   int `yaml:"max-skipped"` // updates that end the run if they are skipped one after another

	ValidSets      []string `yaml:"valid-sets"`
	ValidMetrics   []string `yaml:"valid-metrics"` // cross-entropy, ce-mean-words, perplexity, bleu, chrf
	ValidFreq      int      `yaml:"valid-freq"`    // updates; 0 for the end only
	ValidMaxLength int      `yaml:"valid-max-length"`
	EarlyStopping  int      `yaml:"early-stopping"` // validations in a row without improvement of the first metric; 0 for never
	KeepBest       bool     `yaml:"keep-best"`      // of every metric, in NAME.best-METRIC.npz
	BeamSize       int      `yaml:"beam-size"`
	Normalize      float64  `yaml:"normalize"`

	Open  func(path string) (io.ReadCloser, error) `yaml:"-"` // opens training and validation sets; nil is os.Open
	Watch func(Progress)                           `yaml:"-"` // is told about every update; may be nil
}

// DefaultConfig returns the settings that hold if nothing is said.
func DefaultConfig() Config {
	return Config{
		Description: defaultArchitecture(),
		Seed:        1, CPUThreads: runtime.GOMAXPROCS(0),
		MaxLength: 100, Shuffle: "data", ShuffleMemory: 1024, DataWeightingType: "sentence", NoiseTypoRate: 0.1,
		GuidedAlignment: "none", GuidedAlignmentCost: "ce", GuidedAlignmentWeight: 0.1,
		MiniBatch: 64, MaxiBatch: 100, Workspace: 512, OptimizerDelay: 1, Precision: []string{precisionFloat32, precisionFloat32},
		CostType: "ce-mean-words", OptimizerParams: []float64{0.9, 0.98, 1e-9}, LearnRate: 3e-4, ClipNorm: 1,
		MaxNormGrowth: 100, LRLower: 0.5, LRLowerSkipped: 3,
		QuantizeScales: "columns", QuantizeIn8Bits: marian.EightBitsAuto, QuantizeActivations: true,
		DispFreq: 100, SaveFreq: 1000, KeepSaved: 3, MaxSkipped: 10,
		ValidMetrics: []string{"ce-mean-words"}, ValidFreq: 1000, ValidMaxLength: 1000, EarlyStopping: 10,
		BeamSize: 1, Normalize: 1,
	}
}

// ReadConfig reads a YAML file over the defaults. A key that does not exist is an error.
func ReadConfig(path string) (Config, error) {
	data, err := readSettings(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the training settings: %w", err)
	}
	c, err := parseConfig(data)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// maxSettings is the largest file of settings that is read, in bytes.
const maxSettings = 1 << 20

func readSettings(path string) (data []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if data, err = io.ReadAll(io.LimitReader(file, maxSettings+1)); err == nil && len(data) > maxSettings {
		err = fmt.Errorf("%w: %s holds more than %d bytes", ErrConfig, path, maxSettings)
	}
	return data, err
}

func parseConfig(data []byte) (Config, error) {
	c := DefaultConfig()
	if err := yaml.Unmarshal(data, &struct{ Type *string }{&c.Type}); err == nil && c.Recurrent() {
		c.EncDepth, c.DecDepth = 1, 1 // as in Marian
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil && err != io.EOF {
		return c, fmt.Errorf("%w: %s", ErrConfig, yamlProblem(err))
	}
	if err := c.Validate(); err != nil {
		return c, err
	}
	return c, c.checkValidated(data)
}

// checkValidated refuses settings that say what follows from validations if there are none. The default for early-stopping is no such
// thing, so that it takes the file itself.
func (c *Config) checkValidated(data []byte) error {
	var said struct {
		EarlyStopping int `yaml:"early-stopping"`
	}
	if err := yaml.Unmarshal(data, &said); err != nil || len(c.ValidSets) > 0 {
		return err
	}
	switch {
	case said.EarlyStopping > 0:
		return fmt.Errorf("%w: early-stopping is %d, but there are no valid-sets, so that nothing is validated", ErrConfig, said.EarlyStopping)
	case c.KeepBest:
		return fmt.Errorf("%w: keep-best is set, but there are no valid-sets, so that nothing is validated", ErrConfig)
	}
	return nil
}

// yamlProblem says in a user's words what is wrong with the file.
func yamlProblem(err error) string {
	var mistakes *yaml.TypeError
	if !errors.As(err, &mistakes) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	return unknownField.ReplaceAllString(strings.Join(mistakes.Errors, "; "), "there is no setting $1")
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

// languageModel says whether there is a target side only.
func (c *Config) languageModel() bool { return c.Sources() == 0 }

// Validate returns an error that names the first setting that makes no sense. What the architecture allows is checked when
// the model is made.
func (c *Config) Validate() error {
	for _, check := range []func() error{c.validateFiles, c.validateChoices, c.validateRanges} {
		if err := check(); err != nil {
			return err
		}
	}
	o := c.optimiser()
	if err := o.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := c.validateNoise(); err != nil {
		return fmt.Errorf("%w: noise: %w", ErrConfig, err)
	}
	if c.QuantizeCalibrate > 0 && (c.QuantizeScales != "blocks" || c.QuantizeBits == 0) {
		return fmt.Errorf("%w: quantize-calibrate is for quantize-bits with quantize-scales: blocks only", ErrConfig)
	}
	if choice := c.QuantizeIn8Bits; choice != marian.EightBitsAuto && choice != "none" && (c.QuantizeScales != "blocks" || c.QuantizeBits == 0) {
		return fmt.Errorf("%w: quantize-in-8-bits is for quantize-bits with quantize-scales: blocks only", ErrConfig)
	}
	if q := c.quantisation(); q != nil {
		if err := q.Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	return nil
}

func (c *Config) validateFiles() error {
	sides := c.Sources() + 1
	vocabularies := sides
	if c.TSV {
		sides = 1
	}
	switch {
	case c.Model == "":
		return fmt.Errorf("%w: model is missing: the file to write", ErrConfig)
	case !strings.HasSuffix(c.Model, ".npz"):
		return fmt.Errorf("%w: model is %q, but must be an .npz file; other formats can be made of it later", ErrConfig, c.Model)
	case len(c.TrainSets) != sides:
		return fmt.Errorf("%w: train-sets has %d files, but must have %d", ErrConfig, len(c.TrainSets), sides)
	case len(c.ValidSets) != 0 && len(c.ValidSets) != sides:
		return fmt.Errorf("%w: valid-sets has %d files, but must have %d", ErrConfig, len(c.ValidSets), sides)
	case len(c.Vocabs) != 1 && len(c.Vocabs) != vocabularies:
		return fmt.Errorf("%w: vocabs has %d files, but must have %d, those of the sources and the target's, or one for all", ErrConfig, len(c.Vocabs), vocabularies)
	case c.languageModel() && c.TSV:
		return fmt.Errorf("%w: tsv: a language model has no source side", ErrConfig)
	}
	return nil
}

var costTypes, metrics = []string{"ce-mean-words", "ce-mean", "ce-sum"},
	[]string{metricCrossEntropy, metricMeanWords, metricPerplexity, metricBLEU, metricCHRF}

func (c *Config) validateChoices() error {
	choices := []struct {
		key, value string
		allowed    []string
	}{
		{"cost-type", c.CostType, costTypes}, {"shuffle", c.Shuffle, []string{"data", "none"}},
		{"guided-alignment-cost", c.GuidedAlignmentCost, []string{"ce", "mse"}},
		{"data-weighting-type", c.DataWeightingType, []string{"sentence", "word"}},
		{"quantize-scales", c.QuantizeScales, []string{"columns", "matrix", "blocks"}},
	}
	for _, metric := range c.ValidMetrics {
		choices = append(choices, struct {
			key, value string
			allowed    []string
		}{"valid-metrics", metric, metrics})
		if c.languageModel() && translates(metric) {
			return fmt.Errorf("%w: valid-metrics: a language model does not translate, so it has no %s", ErrConfig, metric)
		}
	}
	for _, choice := range choices {
		if !slices.Contains(choice.allowed, choice.value) {
			return fmt.Errorf("%w: %s is %q, but must be one of %s", ErrConfig, choice.key, choice.value, strings.Join(choice.allowed, ", "))
		}
	}
	if err := c.validatePrecision(); err != nil {
		return err
	}
	if len(c.OptimizerParams) != 3 {
		return fmt.Errorf("%w: optimizer-params has %d numbers, but Adam has 3", ErrConfig, len(c.OptimizerParams))
	}
	return nil
}

// The types of precision.
const precisionFloat32, precisionBFloat16 = "float32", "bfloat16"

func (c *Config) validatePrecision() error {
	if len(c.Precision) != 2 {
		return fmt.Errorf("%w: precision has %d types, but must have 2: of what products read, and of parameters", ErrConfig, len(c.Precision))
	}
	switch products, parameters := c.Precision[0], c.Precision[1]; {
	case products == "float16":
		return fmt.Errorf("%w: precision: products read float32 or bfloat16, which takes half the memory and reaches as far as float32, where float16 does not", ErrConfig)
	case products != precisionFloat32 && products != precisionBFloat16:
		return fmt.Errorf("%w: precision begins with %q, but must begin with %s or %s", ErrConfig, products, precisionFloat32, precisionBFloat16)
	case parameters != precisionFloat32:
		return fmt.Errorf("%w: precision ends with %q, but parameters are %s", ErrConfig, parameters, precisionFloat32)
	}
	return nil
}

// processor returns a device that trains on one core.
func (c *Config) processor() autodiff.Device[float32] {
	if c.Precision[0] == precisionBFloat16 {
		return new(autodiff.BFloat16CPU)
	}
	return new(autodiff.CPU)
}

func (c *Config) validateRanges() error {
	for _, share := range []struct {
		key   string
		value float64
	}{
		{"label-smoothing", c.LabelSmoothing}, {"transformer-dropout", c.Dropout}, {"transformer-dropout-attention", c.DropoutAttention},
		{"transformer-dropout-ffn", c.DropoutFFN}, {"dropout-src", c.DropoutSrc}, {"dropout-trg", c.DropoutTrg},
		{"dropout-rnn", c.DropoutRNN},
	} {
		if !(share.value >= 0 && share.value < 1) {
			return fmt.Errorf("%w: %s is %v, but must be at least 0 and below 1", ErrConfig, share.key, share.value)
		}
	}
	for _, number := range []struct {
		key        string
		value, low int
	}{
		{"cpu-threads", c.CPUThreads, 1}, {"max-length", c.MaxLength, 2}, {"valid-max-length", c.ValidMaxLength, 2},
		{"shuffle-memory", c.ShuffleMemory, 1}, {"mini-batch", c.MiniBatch, 1}, {"mini-batch-words", c.MiniBatchWords, 0},
		{"maxi-batch", c.MaxiBatch, 1}, {"workspace", c.Workspace, 1}, {"optimizer-delay", c.OptimizerDelay, 1},
		{"after-epochs", c.AfterEpochs, 0}, {"quantize-calibrate", c.QuantizeCalibrate, 0}, {"after-batches", c.AfterBatches, 0}, {"disp-freq", c.DispFreq, 1},
		{"save-freq", c.SaveFreq, 0}, {"keep-checkpoints", c.KeepSaved, 1}, {"max-skipped", c.MaxSkipped, 1},
		{"valid-freq", c.ValidFreq, 0}, {"early-stopping", c.EarlyStopping, 0}, {"beam-size", c.BeamSize, 1},
	} {
		if number.value < number.low {
			return fmt.Errorf("%w: %s is %d, but must be at least %d", ErrConfig, number.key, number.value, number.low)
		}
	}
	const mostThreads = 1 << 12
	if c.CPUThreads > mostThreads {
		return fmt.Errorf("%w: cpu-threads is %d, but can be at most %d", ErrConfig, c.CPUThreads, mostThreads)
	}
	if !(c.GuidedAlignmentWeight >= 0) || !(c.MaxLengthRatio >= 0) || !(c.Normalize >= 0) {
		return fmt.Errorf("%w: guided-alignment-weight, max-length-ratio and normalize must not be negative", ErrConfig)
	}
	return nil
}

// noise returns what happens to the texts in each epoch, nil for nothing.
func (c *Config) noise() *corpus.Noise {
	if c.NoiseUpper+c.NoiseTitle+c.NoiseLower+c.NoiseUnpunctuated+c.NoiseTypos == 0 {
		return nil
	}
	return &corpus.Noise{
		Seed: c.Seed, Upper: c.NoiseUpper, Title: c.NoiseTitle, Lower: c.NoiseLower, Unpunctuated: c.NoiseUnpunctuated,
		Typos: c.NoiseTypos, TypoRate: c.NoiseTypoRate,
	}
}

func (c *Config) validateNoise() error {
	n := c.noise()
	switch {
	case n == nil:
		return nil
	case c.Sources() != 1:
		return fmt.Errorf("it is for models of one source, this one has %d", c.Sources())
	case c.DataWeighting != "" && c.DataWeightingType == "word":
		return errors.New("it changes pieces, so that weights for each of them (data-weighting-type: word) do not fit any more")
	case c.guided() && c.GuidedAlignmentCost == "mse":
		return errors.New("pairs that it changes have no alignment, which guided-alignment-cost: mse takes for one without links; use ce")
	}
	return n.Check()
}

// optimiser returns the settings of the optimiser. There are three optimizer-params, or Validate has said so.
func (c *Config) optimiser() optimiser.Config {
	return optimiser.Config{
		Beta1: c.OptimizerParams[0], Beta2: c.OptimizerParams[1], Epsilon: c.OptimizerParams[2],
		LearnRate: c.LearnRate, WarmUp: c.LRWarmup, InvSqrt: c.LRDecayInvSqrt, ClipNorm: c.ClipNorm, Smoothing: c.Smoothing,
		MaxGrowth: c.MaxNormGrowth, Lower: c.LRLower, LowerAfter: c.LRLowerSkipped,
	}
}
