package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"github.com/sluice-mt/sluice/internal/mert"
	"github.com/sluice-mt/sluice/internal/nbest"
	trainrecipe "github.com/sluice-mt/sluice/train/recipe"
)

// Rescore ranks a list anew as sluice rescore does, with the weights that sluice rescore tune finds.
func (e recipeEngine) Rescore(ctx context.Context, task trainrecipe.Rescoring) error {
	defer boundGPUs(ctx, len(e.gpus) > 0, e.grace)()
	s := stepRescoring{task: task, devices: e.words()}
	err := s.run(ctx)
	if errors.Is(err, errInterrupted) {
		return fmt.Errorf("%w: %w", trainrecipe.ErrInterrupted, err)
	}
	return err
}

// A stepRescoring is a step of a recipe that rescores.
type stepRescoring struct {
	task    trainrecipe.Rescoring
	devices []string // on which it is scored
	cores   int      // for the processor's workers
	models  []scoringModel
}

// stepBatch is how many sentences are read ahead, and stepLength how many pieces of a sentence are scored: the defaults of sluice
// rescore.
const stepBatch, stepLength = 512, 1000

func (s *stepRescoring) run(ctx context.Context) error {
	open, err := s.scorers()
	if err != nil {
		return err
	}
	if s.models, err = open.open(ctx, s.task.Logger); err != nil {
		return err
	}
	defer closeScoring(s.models)
	rank := ranking{normalize: 1}
	if s.task.TuneList != "" {
		if rank.weights, err = s.tune(ctx); err != nil {
			return err
		}
	}
	s.task.Progress(0.5)
	return s.rescore(ctx, s.task.List, s.task.Source, s.task.Output, rank, false)
}

// scorers are what scores, on as many cores as the environment says.
func (s *stepRescoring) scorers() (*scorerFlags, error) {
	open := new(scorerFlags)
	if err := applyStepEnvironment(open.machine().flags); err != nil {
		return nil, err
	}
	s.cores = cmp.Or(open.threads, runtime.GOMAXPROCS(0))
	open.threads = 0 // which would come before GPUs
	open.models, open.vocabs, open.precision, open.maxLength, open.devices = s.task.Models, s.task.Vocabularies, "auto", stepLength, s.devices
	return open, open.check(s.cores)
}

// tune scores the list to tune with, and finds and writes weights.
func (s *stepRescoring) tune(ctx context.Context) (nbest.Weights, error) {
	scored := filepath.Join(s.task.Folder, "tune.scored")
	if err := s.rescore(ctx, s.task.TuneList, s.task.TuneSource, scored, ranking{}, true); err != nil {
		return nil, err
	}
	t := tuning{input: scored, normalize: 1, output: s.task.Weights, overwrite: true}
	t.metric.name, t.metric.tokenizer = s.task.Metric, "13a"
	if t.metric.name == "" {
		t.metric.name = "bleu"
	}
	t.search = mert.Options{Starts: tuneStarts, Seed: 1, Workers: s.cores}
	return t.tune([]string{s.task.TuneReference}, func(format string, values ...any) { s.task.Logger.Info(fmt.Sprintf(format, values...)) })
}

// rescore scores a list and writes it with the features, or the best translations.
func (s *stepRescoring) rescore(ctx context.Context, list, source, output string, rank ranking, featuresOnly bool) error {
	lists, err := openLists(list, source)
	if err != nil {
		return err
	}
	defer lists.Close()
	r := rescoring{
		source: source, models: s.models, rank: rank, featuresOnly: featuresOnly, maxiBatch: stepBatch, logger: s.task.Logger,
		ranked: rankedOutput{path: output, best: !featuresOnly, overwrite: true},
	}
	return r.ranked.write(io.Discard, func(w io.Writer) error { return r.stream(ctx, lists, w) })
}
