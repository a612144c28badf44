package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/internal/jobfile"
	"github.com/sluice-mt/sluice/pipeline"
	"github.com/sluice-mt/sluice/train"
	trainrecipe "github.com/sluice-mt/sluice/train/recipe"
	"github.com/sluice-mt/sluice/translator"
)

// A recipeEngine is sluice train and sluice translate for the steps of a recipe. Options come from the recipe alone, not from the environment
// nor from files beside the models: what a step gives must depend on what its stamp says, and on nothing else but the machine.
type recipeEngine struct {
	gpus     []int         // that train, translate and rescore, where a step does not say otherwise; none for the processor
	products string        // what multiplies there, likewise
	grace    time.Duration // for what is in flight there: see boundGPUs
}

// Train trains a model as sluice train does. What GPUs cannot train, the processor does.
func (e recipeEngine) Train(ctx context.Context, config train.Config, logger *slog.Logger) (train.Result, error) {
	products, err := newTrainingProducts(e.products, logger)
	if err != nil {
		return train.Result{}, err
	}
	return trainingGPUs{numbers: e.gpus, some: true, products: products, grace: e.grace}.train(ctx, config, logger)
}

// words are the GPUs as a wish: the processor does what they cannot.
func (e recipeEngine) words() []string {
	var words []string
	for _, number := range e.gpus {
		words = append(words, "gpu:"+strconv.Itoa(number))
	}
	return words
}

// where returns the GPUs for a translation: none if it says itself where it is made, or if it is measured, since one that does not say so is
// measured on the processor.
func (e recipeEngine) where(task trainrecipe.Translation) []string {
	if saysWhere(task.Options) || task.Measured {
		return nil
	}
	return e.words()
}

// saysWhere reports whether options say where a translation is made.
func saysWhere(options []jobfile.Option) bool {
	return slices.ContainsFunc(options, func(o jobfile.Option) bool { return o.Name == "devices" || o.Name == "cpu-threads" })
}

// ofSteps are options that a step of a recipe says in another place.
var ofSteps = map[string]string{
	"models": "models", "vocabs": "the recipe's vocabularies", "shortlist": "shortlist", "n-best": "n-best", "config": "options",
	"no-spm-decode": "nothing: texts are what steps read", "word-scores": "nothing: texts are what steps read",
	"alignment": "nothing: texts are what steps read",
}

// Check says what is wrong with an option.
func (recipeEngine) Check(option jobfile.Option) error {
	if place, ok := ofSteps[option.Name]; ok {
		return fmt.Errorf("a recipe sets this with %s", place)
	}
	var t translation
	return setJobOption(t.recipeFlags(), option)
}

// recipeFlags are the options that a step may set.
func (t *translation) recipeFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("translate", pflag.ContinueOnError)
	for _, group := range []flagGroup{t.model.group(), t.search.group(), t.batch.group()} {
		flags.AddFlagSet(group.flags)
	}
	return flags
}

// Translate translates a file as sluice translate does.
func (e recipeEngine) Translate(ctx context.Context, task trainrecipe.Translation) (trainrecipe.Throughput, error) {
	t, cores, err := newStepTranslation(task, e.where(task))
	if err != nil {
		return trainrecipe.Throughput{}, err
	}
	if !t.model.outside["gpu-products"] {
		t.model.gpuProducts = e.products
	}
	choice, err := t.model.chooseDevices(t.batch.threads)
	if err != nil {
		return trainrecipe.Throughput{}, err
	}
	defer boundGPUs(ctx, choice.wanted(), e.grace)()
	parts, err := buildEngine(ctx, &t.model, &t.search, &t.batch, cores, t.logger)
	if err != nil {
		return trainrecipe.Throughput{}, err
	}
	defer parts.models.close()
	return t.carry(ctx, parts, task.Progress)
}

// carry takes the input through the engine, and tells now and then how far it is.
func (t *translation) carry(ctx context.Context, parts *engineParts, tell func(share float64)) (trainrecipe.Throughput, error) {
	speed := trainrecipe.Throughput{Precision: parts.models.arithmetic(), Workers: parts.workers()}
	source, sink, err := t.ends(parts)
	if err != nil {
		return speed, err
	}
	engine, err := translator.New(parts.config)
	if err != nil {
		return speed, usageError{err}
	}
	defer parts.closeEngine(engine, t.logger)
	p := pipeline.New(pipeline.Config{
		Memory: int64(t.batch.memory) << 20, Grace: t.output.grace, CommitEvery: t.output.commit, Logger: t.logger,
	}, source, sink, engine)
	start, cpu, stop := time.Now(), cputime.Process(), follow(&progress{meter: source, pipeline: p}, tell)
	err = p.Run(ctx)
	stop()
	if errors.Is(err, pipeline.ErrInterrupted) {
		return speed, trainrecipe.ErrInterrupted
	}
	if err != nil {
		return speed, t.explain(err)
	}
	stats := p.Stats()
	speed.Lines, speed.Words, speed.Seconds = stats.Records, stats.SourceWords, time.Since(start).Seconds()
	speed.CPUSeconds = (cputime.Process() - cpu).Seconds()
	return speed, nil
}

// newStepTranslation gives a translation the settings of a step; where it says nothing, the defaults of sluice translate. devices are where it
// is made; none is left to the settings. cores are for the processor's workers.
func newStepTranslation(task trainrecipe.Translation, devices []string) (t *translation, cores int, err error) {
	t = &translation{logger: task.Logger, stderr: io.Discard}
	flags := t.recipeFlags()
	for _, group := range []flagGroup{t.input.group(), t.output.group(), t.log.group()} {
		flags.AddFlagSet(group.flags)
	}
	for _, option := range task.Options {
		if err := setJobOption(flags, option); err != nil {
			return nil, 0, usageErrorf("%s: %w", option.Name, err)
		}
	}
	t.model.outside = changedFlags(flags) // a GPU that a step names is demanded: no program writes recipes with defaults of its own
	if err := applyStepEnvironment(flags); err != nil {
		return nil, 0, err
	}
	cores = runtime.GOMAXPROCS(0)
	if len(devices) > 0 { // threads of the environment would come before GPUs: they are for what these cannot do
		cores = cmp.Or(t.batch.threads, cores)
		t.model.devices, t.batch.threads = devices, 0
	}
	t.model.models, t.model.vocabs, t.model.shortlist = task.Models, task.Vocabularies, []string{"none"}
	if task.Shortlist != "" {
		t.model.shortlist = []string{task.Shortlist}
	}
	t.input.inputs, t.output.output, t.search.nBest = []string{task.Input}, task.Output, task.NBest
	t.input.format = "text"
	if task.Column > 0 {
		t.input.tsv, t.input.field = true, strconv.Itoa(task.Column)
	}
	return t, cores, nil
}

// applyStepEnvironment takes from the environment what a translation does not depend on.
func applyStepEnvironment(flags *pflag.FlagSet) error {
	return applyEnvironment(flags, only("commit-every", "grace-period", "cpu-threads", "memory", "streams"))
}

// follow tells now and then which share of the input is translated.
func follow(p *progress, tell func(share float64)) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for tell != nil {
			select {
			case <-end:
				return
			case <-ticker.C:
				if share, known := p.share(p.pipeline.Stats()); known {
					tell(share)
				}
			}
		}
	}()
	return func() { close(end); <-ended }
}
