package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// ErrInterrupted is returned by Run if its context ended. A checkpoint was written: the same configuration continues.
var ErrInterrupted = errors.New("the training was interrupted; the same command continues it")

// ErrDiverged is returned by Run if update after update gives no finite gradient.
var ErrDiverged = errors.New("the training has diverged")

// A Result says how a run ended.
type Result struct {
	Updates int
	Epochs  int // begun
	Words   int64
	Skipped int  // updates without a finite gradient
	Early   bool // stopped since validation did not improve any more
}

// A run is a training in progress.
type run struct {
	config         Config
	logger         *slog.Logger
	source, target vocab.Vocabulary   // source is nil for a language model
	further        []vocab.Vocabulary // of the second source and those after it
	description    []byte
	options        network.Options

	network   *network.Network
	values    []float32      // that the optimiser moves
	trained   []float32      // values, rounded if the model is to be quantised: what losses and gradients are of
	best      []float32      // the parameters to translate with, rounded likewise
	eight     map[string]int // rows of matrices that are left in 8 bits, by name
	optimiser *optimiser.Optimiser
	open      OpenDevice // nil for the processor
	device    Device     // nil for the processor
	moved     bool       // the device has other parameters than the optimiser
	replicas  []*network.Replica[float32]
	gradients [][]float32

	corpus    *data.Corpus
	batches   *data.Batches
	validator *validator
	metrics   *metricsFile

	state  state
	saved  int               // update of the last checkpoint, -1 without one
	mini   [][]network.Batch // of a worker: those of the next update
	losses [][]network.Loss
	report optimiser.Report
	since  time.Time // of the words counted for the next display
	words  int
}

// Run trains a model, from where it was if there is a checkpoint.
func Run(ctx context.Context, config Config, logger *slog.Logger) (Result, error) {
	return RunOn(ctx, config, nil, logger)
}

// RunOn is Run on a device, which is opened when the network is made and closed at the end. Without one, the processor trains.
func RunOn(ctx context.Context, config Config, open OpenDevice, logger *slog.Logger) (Result, error) {
	if err := config.Validate(); err != nil {
		return Result{}, err
	}
	config.Open = openUntil(ctx, config.Open)
	r := &run{config: config, open: open, logger: logger}
	err := r.prepare()
	if err == nil {
		err = r.train(ctx)
	}
	return r.result(), errors.Join(err, r.close())
}

// openUntil returns open, or os.Open if that is nil, of texts whose reading ends with ctx.
func openUntil(ctx context.Context, open func(string) (io.ReadCloser, error)) func(string) (io.ReadCloser, error) {
	if open == nil {
		open = func(path string) (io.ReadCloser, error) { return os.Open(path) }
	}
	return func(path string) (io.ReadCloser, error) {
		text, err := open(path)
		if err != nil {
			return nil, err
		}
		return untilDone{text, ctx}, nil
	}
}

type untilDone struct {
	io.ReadCloser
	ctx context.Context
}

func (u untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, ErrInterrupted
	}
	return u.ReadCloser.Read(p)
}

func (r *run) close() error {
	var failures []error
	if r.corpus != nil {
		failures = append(failures, r.corpus.Close())
	}
	if r.metrics != nil {
		failures = append(failures, r.metrics.file.Close())
	}
	if r.device != nil {
		failures = append(failures, r.device.Close())
	}
	return errors.Join(failures...)
}

func (r *run) result() Result {
	return Result{
		Updates: r.state.Steps, Epochs: r.state.Position.Epoch + 1, Words: r.state.Words,
		Skipped: r.state.Optimiser.NotFinite, Early: r.state.Early,
	}
}

// prepare opens and makes everything.
func (r *run) prepare() error {
	for _, step := range []func() error{r.openVocabularies, r.makeNetwork, r.openMetrics, r.resume, r.openDevice, r.makeReplicas, r.openValidation, r.readCorpus, r.calibrate} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.metrics.cut(r.state.Steps, r.state.Validated)
}

// openMetrics opens the metrics, before anything that takes long: whether the model's folder can be written to, and by this run alone, is
// found there.
func (r *run) openMetrics() (err error) {
	r.metrics, err = openMetrics(r.config.Model + ".metrics.jsonl")
	return err
}

func (r *run) openVocabularies() error {
	paths := r.config.Vocabs
	var err error
	if r.target, err = vocab.Open(paths[len(paths)-1]); err != nil {
		return err
	}
	if r.config.languageModel() {
		return nil
	}
	if r.source, err = vocab.Open(paths[0]); err != nil {
		return err
	}
	for i := 1; i < r.config.Sources(); i++ {
		v := r.source
		if len(paths) > 1 {
			if v, err = vocab.Open(paths[i]); err != nil {
				return err
			}
		}
		r.further = append(r.further, v)
	}
	return nil
}

// vocabularySizes are the numbers for dim-vocabs.
func (r *run) vocabularySizes() []int {
	if r.source == nil {
		return []int{r.target.Size()}
	}
	sizes := []int{r.source.Size()}
	for _, v := range r.further {
		sizes = append(sizes, v.Size())
	}
	return append(sizes, r.target.Size())
}

func (r *run) makeNetwork() error {
	sizes, err := r.vocabularySizes(), error(nil)
	if given := r.config.DimVocabs; slices.ContainsFunc(given, func(n int) bool { return n != 0 }) && !slices.Equal(given, sizes) {
		return fmt.Errorf("%w: dim-vocabs is %v, but the vocabularies have %v pieces: leave it out, or take other vocabularies", ErrConfig, given, sizes)
	}
	if r.description, err = describe(r.config.Description, sizes); err != nil {
		return err
	}
	m, err := model.New(r.description)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := m.CheckPieces(r.target.EOS(), r.target.Suppressed()); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if m.Recurrent != nil && m.Recurrent.Attention == nil && r.config.guided() {
		return fmt.Errorf("%w: guided-alignment: a model of type %s has no attention that it could guide", ErrConfig, m.Type)
	}
	if r.network, err = network.New(m); err != nil {
		return err
	}
	if m.Autoregression == model.SelfAttention && strings.ContainsAny(m.Preprocess, "nr") {
		r.logger.Warn("marian-decoder, and sluice translate with it, do not normalise the keys and values of a self-attention " +
			"decoder as training does if transformer-preprocess has a norm: translations will be worse than the training says")
	}
	r.values = autodiff.Numbers[float32](r.network.Size())
	r.network.Initialise(r.values, r.config.Seed)
	if err := r.loadVectors(); err != nil {
		return err
	}
	if r.config.PretrainedModel != "" {
		err = r.loadPretrained()
	}
	r.optimiser = optimiser.New(r.config.optimiser(), r.values)
	return err
}

func (r *run) makeReplicas() error {
	c := &r.config
	if err := r.prepareRounding(); err != nil {
		return err
	}
	if err := r.putTrained(optimiser.State{}); err != nil {
		return r.failed(err)
	}
	if r.device != nil && c.quantisesActivations() {
		r.device.Quantise()
	}
	r.options = network.Options{
		LabelSmoothing: c.LabelSmoothing, Dropout: c.Dropout, DropoutAttention: c.DropoutAttention, DropoutFFN: c.DropoutFFN,
		DropoutSource: c.DropoutSrc, DropoutTarget: c.DropoutTrg, DropoutRNN: c.DropoutRNN,
	}
	if c.guided() {
		r.options.AlignmentWeight = c.GuidedAlignmentWeight
		if c.GuidedAlignmentCost == "mse" {
			r.options.AlignmentCost = autodiff.AlignmentMSE
		}
	}
	for range r.workers() {
		r.mini = append(r.mini, make([]network.Batch, c.OptimizerDelay))
		r.losses = append(r.losses, make([]network.Loss, c.OptimizerDelay))
		if r.device != nil {
			continue
		}
		replica := network.NewReplica(r.network, c.processor(), r.trained)
		replica.Quantised = c.quantisesActivations()
		for _, table := range c.fixed(r.network.Model) {
			replica.Fix(table)
		}
		r.replicas = append(r.replicas, replica)
		r.gradients = append(r.gradients, replica.Gradient)
	}
	return nil
}

func (c *Config) guided() bool { return c.GuidedAlignment != "" && c.GuidedAlignment != "none" }

// files returns the files of a training or validation set.
func (c *Config) files(sets []string) data.Files {
	last := len(sets) - 1
	switch {
	case c.TSV:
		return data.Files{TSV: sets[0], TSVSources: c.Sources(), Open: c.Open}
	case c.languageModel():
		return data.Files{Target: sets[0], Open: c.Open}
	}
	return data.Files{Source: sets[0], Further: sets[1:last], Target: sets[last], Open: c.Open}
}

func (r *run) readCorpus() error {
	c := &r.config
	files := c.files(c.TrainSets)
	files.Weights, files.WordWeights = c.DataWeighting, c.DataWeightingType == "word"
	if c.guided() {
		files.Alignment = c.GuidedAlignment
	}
	var err error
	r.corpus, err = data.Read(data.Config{
		Source: r.source, Further: r.further, Target: r.target, Files: files, RightLeft: c.RightLeft, MaxLength: c.MaxLength, Crop: c.MaxLengthCrop,
		MaxRatio: c.MaxLengthRatio, Noise: c.noise(), Memory: int64(c.ShuffleMemory) << 20, Temporary: c.TempDir,
	})
	if err != nil {
		return err
	}
	s := r.corpus.Stats
	r.logger.Info("corpus read", "pairs", s.Pairs, "source_pieces", s.SourceTokens, "target_pieces", s.TargetTokens,
		"empty", s.Empty, "too_long", s.TooLong, "unbalanced", s.Unbalanced)
	if before := r.state.Corpus; before != (data.Stats{}) && before != s {
		r.logger.Warn("the corpus is another than before the checkpoint: the training goes on with this one, where it was in the other",
			"pairs_before", before.Pairs, "update", r.state.Steps)
	}
	r.state.Corpus = s
	batching, err := r.batching()
	if err != nil {
		return err
	}
	r.batches, err = r.corpus.Batches(batching, r.state.Position)
	return err
}

// batching says how pairs become mini-batches.
func (r *run) batching() (data.Batching, error) {
	c := &r.config
	budget, err := r.budget()
	return data.Batching{Budget: budget, Maxi: c.MaxiBatch * c.MiniBatch, Seed: c.Seed, Ordered: c.Shuffle == "none"}, err
}

// train goes on until the end of the training.
func (r *run) train(ctx context.Context) error {
	r.logger.Info("training", "parameters", r.network.Count(), "workers", r.workers(), "from_update", r.state.Steps)
	r.since = time.Now()
	if err := r.validateIfDue(ctx); err != nil { // an interruption may have come before the last one
		return err
	}
	for {
		done, err := r.done()
		if err != nil {
			return err
		}
		if done {
			return r.finish(ctx)
		}
		if ctx.Err() != nil {
			return errors.Join(ErrInterrupted, r.checkpoint())
		}
		if err := r.update(); err != nil {
			return err
		}
		r.showProgress()
		if err := r.afterUpdate(ctx); err != nil {
			return err
		}
	}
}

// afterUpdate does what is due.
func (r *run) afterUpdate(ctx context.Context) error {
	c := &r.config
	if r.state.Steps%c.DispFreq == 0 {
		if err := r.display(); err != nil {
			return err
		}
	}
	if err := r.validateIfDue(ctx); err != nil {
		return err
	}
	if c.SaveFreq > 0 && r.state.Steps%c.SaveFreq == 0 {
		return r.save()
	}
	return nil
}

// validateIfDue validates after every so many updates. If it is interrupted, the run continues with it.
func (r *run) validateIfDue(ctx context.Context) error {
	c := &r.config
	if c.ValidFreq == 0 || r.state.Steps == 0 || r.state.Steps%c.ValidFreq != 0 || r.state.Validated == r.state.Steps {
		return nil
	}
	return r.validateOrSave(ctx)
}

// validateOrSave validates. If that is interrupted, or the device fails, which has given everything back by then, the run continues with it.
func (r *run) validateOrSave(ctx context.Context) error {
	err := r.validate(ctx)
	var failed *validationError
	switch {
	case errors.Is(err, ErrInterrupted):
		return errors.Join(err, r.checkpoint())
	case errors.As(err, &failed):
		if saving := r.checkpoint(); saving != nil {
			return errors.Join(err, saving)
		}
		return r.failed(err)
	}
	return err
}

// done says whether the training is at its end.
func (r *run) done() (bool, error) {
	if r.state.Early || r.config.AfterBatches > 0 && r.state.Steps >= r.config.AfterBatches {
		return true, nil
	}
	return r.lastEpochOver()
}

func (r *run) lastEpochOver() (bool, error) {
	position, err := r.batches.Peek()
	return r.config.AfterEpochs > 0 && position.Epoch >= r.config.AfterEpochs, err
}

// finish validates and saves once more, unless that was just done.
func (r *run) finish(ctx context.Context) error {
	if r.state.Finished {
		return nil
	}
	if r.state.Validated != r.state.Steps {
		if err := r.validateOrSave(ctx); err != nil {
			return err
		}
	}
	r.state.Finished = true
	return r.save()
}

// Progress is how far a run is.
type Progress struct {
	Update, Updates int     // Updates are all there will be; 0 if that is not known
	Epoch           int     // from 1
	Loss            float64 // per word, since the last display
	WordsPerSecond  float64 // likewise
	Skipped         int
}

func (r *run) showProgress() {
	if r.config.Watch == nil {
		return
	}
	w := &r.state.Window
	r.config.Watch(Progress{
		Update: r.state.Steps, Updates: r.config.AfterBatches, Epoch: r.state.Position.Epoch + 1,
		Loss: w.Loss / math.Max(1, float64(w.Words)), WordsPerSecond: float64(r.words) / time.Since(r.since).Seconds(),
		Skipped: r.state.Optimiser.NotFinite,
	})
}

// display logs what was learnt since the last time.
func (r *run) display() error {
	w := &r.state.Window
	m := Measurement{
		Kind: "train", Update: r.state.Steps, Epoch: r.state.Position.Epoch + 1, Loss: w.Loss / math.Max(1, float64(w.Words)),
		Rate: r.report.Rate, Norm: r.report.Norm, WordsPerSecond: math.Round(float64(r.words) / time.Since(r.since).Seconds()),
		Words: r.state.Words, Skipped: r.state.Optimiser.NotFinite,
	}
	r.logger.Info("trained", "update", m.Update, "epoch", m.Epoch, "loss", fmt.Sprintf("%.4f", m.Loss), "learn_rate", m.Rate,
		"gradient_norm", fmt.Sprintf("%.3f", m.Norm), "words_per_second", m.WordsPerSecond, "skipped", m.Skipped)
	*w, r.words, r.since = window{}, 0, time.Now()
	if math.IsNaN(m.Norm) || math.IsInf(m.Norm, 0) {
		m.Norm = 0 // JSON has no such numbers; skipped says it
	}
	return r.metrics.add(m)
}
