package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-mt/sluice/internal/score"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/network"
)

// The metrics of validation.
const (
	metricCrossEntropy = "cross-entropy" // per sentence
	metricMeanWords    = "ce-mean-words" // per word
	metricPerplexity   = "perplexity"    // e to the cross-entropy per word
	metricBLEU         = "bleu"
	metricCHRF         = "chrf"
)

// translates says whether a metric needs translations. Those are better the higher, the others the lower.
func translates(metric string) bool { return metric == metricBLEU || metric == metricCHRF }

// A validator holds the validation set.
type validator struct {
	batches            []network.Batch
	sources, reference []string // only if a metric translates
	evaluators         []*network.Replica[float32]

	lossesHere, translationsHere bool // on the processor, though there is a device, which cannot
}

// A validationError is what has become of a device that was to validate after an update.
type validationError struct {
	update int
	reason error
}

func (e *validationError) Error() string {
	return fmt.Sprintf("validation after update %d: %v", e.update, e.reason)
}

func (e *validationError) Unwrap() error { return e.reason }

// validationMemory is what a validation set may take, packed: all of it, since there is no set of that size.
const validationMemory = 1 << 40

// validationWords bounds the mini-batches of the validation set, in target pieces.
const validationWords = 2000

func (r *run) openValidation() error {
	c := &r.config
	if len(c.ValidSets) == 0 {
		return nil
	}
	files := c.files(c.ValidSets)
	corpus, err := data.Read(data.Config{
		Source: r.source, Further: r.further, Target: r.target, Files: files, RightLeft: c.RightLeft, MaxLength: c.ValidMaxLength, Crop: true,
		Memory: validationMemory,
	})
	if err != nil {
		return fmt.Errorf("the validation set: %w", err)
	}
	v := new(validator)
	r.validator = v
	batches, err := corpus.Batches(data.Batching{Budget: data.Budget{Words: validationWords}, Maxi: corpus.Stats.Pairs, Ordered: true}, data.Position{})
	if err != nil {
		return err
	}
	for {
		position, err := batches.Peek()
		if err != nil {
			return err
		}
		if position.Epoch > 0 {
			break
		}
		v.batches = append(v.batches, network.Batch{})
		if err := batches.Next(&v.batches[len(v.batches)-1]); err != nil {
			return err
		}
	}
	for range c.CPUThreads {
		evaluator := network.NewEvaluator(r.network, autodiff.Device[float32](new(autodiff.CPU)), r.best)
		evaluator.Quantised = c.quantisesActivations()
		v.evaluators = append(v.evaluators, evaluator)
	}
	if slices.ContainsFunc(c.ValidMetrics, translates) {
		v.sources, v.reference, err = data.Texts(files)
	}
	return err
}

// validate measures all metrics and decides whether to go on. If it is interrupted, nothing has changed.
func (r *run) validate(ctx context.Context) error {
	if r.validator == nil {
		return nil
	}
	if err := r.fetch(); err != nil {
		return err
	}
	values, err := r.measureAll(ctx)
	if err != nil {
		return err
	}
	for i, metric := range r.config.ValidMetrics {
		if err := r.judge(metric, values[i], i == 0); err != nil {
			return err
		}
	}
	r.state.Validated = r.state.Steps
	return nil
}

// measureAll returns the values of the metrics.
func (r *run) measureAll(ctx context.Context) ([]float64, error) {
	metrics := r.config.ValidMetrics
	values := make([]float64, len(metrics))
	r.refreshBest()
	var loss network.Loss
	if slices.ContainsFunc(metrics, func(m string) bool { return !translates(m) }) {
		var err error
		if loss, err = r.evaluate(); err != nil {
			return nil, err
		}
	}
	var translations []string
	if slices.ContainsFunc(metrics, translates) {
		var err error
		if translations, err = r.translate(ctx); err != nil {
			return nil, err
		}
	}
	for i, metric := range metrics {
		if !translates(metric) {
			values[i] = lossMetric(metric, loss)
			continue
		}
		var err error
		if values[i], err = r.quality(metric, translations); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// judge compares a value with the best so far. Only the first metric stops the training.
func (r *run) judge(metric string, value float64, first bool) error {
	b, known := r.state.Best[metric]
	better := !known || value < b.Value
	if translates(metric) {
		better = !known || value > b.Value
	}
	if b.Stalled++; better {
		b = best{Value: value}
	}
	r.state.Best[metric] = b
	r.logger.Info("validated", "update", r.state.Steps, "metric", metric, "value", fmt.Sprintf("%.4f", value),
		"best", fmt.Sprintf("%.4f", b.Value), "stalled", b.Stalled)
	if first && r.config.EarlyStopping > 0 && b.Stalled >= r.config.EarlyStopping {
		r.state.Early = true
	}
	if better && r.config.KeepBest {
		if err := r.writeModel(strings.TrimSuffix(r.config.Model, ".npz") + ".best-" + metric + ".npz"); err != nil {
			return err
		}
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil // JSON has no such numbers
	}
	return r.metrics.add(Measurement{
		Kind: kindValid, Update: r.state.Steps, Epoch: r.state.Position.Epoch + 1, Metric: metric, Value: value, Best: b.Value, Stalled: b.Stalled,
	})
}

// evaluate returns the cross-entropy of the validation set.
func (r *run) evaluate() (network.Loss, error) {
	losses, err := r.evaluateBatches()
	var loss network.Loss
	for _, l := range losses {
		loss.Add(l)
	}
	return loss, err
}

// evaluateBatches returns the losses of the validation set's mini-batches, which the device computes, if there is one that can.
func (r *run) evaluateBatches() ([]network.Loss, error) {
	v := r.validator
	if r.device == nil || v.lossesHere {
		return v.evaluate(), nil
	}
	losses, err := r.device.Evaluate(v.batches, r.othersThanTrained())
	if errors.Is(err, network.ErrCannotValidate) {
		r.logger.Warn("losses of validation are computed on the CPU", "reason", err)
		v.lossesHere = true
		return v.evaluate(), nil
	}
	if err != nil {
		return nil, &validationError{r.state.Steps, err}
	}
	return losses, nil
}

// evaluate returns the losses of the mini-batches, computed by the processor.
func (v *validator) evaluate() []network.Loss {
	losses := make([]network.Loss, len(v.batches))
	var group sync.WaitGroup
	for w, evaluator := range v.evaluators {
		group.Go(func() {
			for i := w; i < len(losses); i += len(v.evaluators) {
				losses[i] = evaluator.Evaluate(&v.batches[i], nil)
			}
		})
	}
	group.Wait()
	return losses
}

func lossMetric(metric string, loss network.Loss) float64 {
	switch metric {
	case metricCrossEntropy:
		return loss.CrossEntropy / float64(loss.Sentences)
	case metricPerplexity:
		return math.Exp(loss.CrossEntropy / float64(loss.Words))
	}
	return loss.CrossEntropy / float64(loss.Words)
}

func (r *run) quality(metric string, translations []string) (float64, error) {
	references := [][]string{r.validator.reference}
	if metric == metricBLEU {
		s, err := score.BLEU(translations, references, score.BLEUOptions{})
		return s.Score, err
	}
	s, err := score.CHRF(translations, references, score.CHRFOptions{})
	return s.Score, err
}
