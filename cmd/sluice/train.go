package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/gpukernels"
	"github.com/sluice-mt/sluice/train"
	"github.com/sluice-mt/sluice/train/data"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// training is one run of "sluice train".
type training struct {
	config           string
	devices          []string
	gpuProducts      string
	grace            time.Duration
	quiet            bool
	progress         string
	level, logFormat string
}

func newTrainCommand() *cobra.Command {
	t := new(training)
	command := &cobra.Command{
		Annotations: finishes(),
		Use:         "train --config FILE",
		Short:       "Train a model",
		Long: `Train a model from sentence pairs. The configuration is YAML, with the keys of Marian's training. Every kind of
model can be trained that sluice translates or rescores with; the key "type" chooses one: transformer, s2s, amun, nematus, devlin,
hard-att, hard-soft-att, the language models lm-transformer and lm, and those of two sources, multi-transformer,
shared-multi-transformer, multi-s2s, shared-multi-s2s and multi-hard-att.
Texts may be objects of S3, such as s3://bucket/train.en.zst, of the store that the AWS_ variables of Amazon's tools
name.

Beside the model NAME, the run writes NAME.checkpoints, with which the same command continues a run that was
stopped, even by force, NAME.metrics.jsonl, its course, and NAME.decoder.yml, with which it is translated. The
result depends on the configuration, the data and cpu-threads, or the device, to the last bit, not on how often the run
was stopped.`,
		Example: `  sluice train --config student.yml
  sluice translate -m student.npz < test.en`,
		Args: exactArguments(0, "no arguments: everything is in the configuration"),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := applyEnvironment(command.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return sortTrainingError(t.run(command))
		},
	}
	group := newGroup("Options")
	group.flags.StringVarP(&t.config, "config", "c", "", "`FILE` with the settings")
	group.flags.StringArrayVarP(&t.devices, "devices", "d", nil, "train on these `GPUS`: numbers beginning with 0, all, auto (or else on the CPU), cpu (the default); see docs/training.md")
	group.flags.StringVar(&t.gpuProducts, "gpu-products", "measured", gpuProductsUsage)
	group.flags.DurationVar(&t.grace, "grace-period", trainingGrace, trainingGraceUsage)
	group.flags.BoolVar(&t.quiet, "quiet", false, "print warnings and errors only")
	group.flags.StringVar(&t.progress, "progress", "auto", "bar, log, or auto: a bar on a terminal, messages alone elsewhere")
	group.flags.StringVar(&t.level, "log-level", "info", "debug, info, warn or error")
	group.flags.StringVar(&t.logFormat, "log-format", "text", "text or json")
	addGroups(command, group)
	command.AddCommand(newRecipeCommand())
	return command
}

func (t *training) run(command *cobra.Command) error {
	if t.config == "" {
		return usageErrorf("train needs --config FILE (see sluice train --help)")
	}
	messages := command.ErrOrStderr()
	drawn, err := wantsBar(t.progress, t.quiet)
	if err != nil {
		return err
	}
	config, err := train.ReadConfig(t.config)
	if err != nil {
		return err
	}
	if drawn {
		bar := newTrainingBar(messages, time.Now)
		defer bar.end()
		messages, config.Watch = bar, bar.show
	}
	logger, err := newLogger(messages, t.logFormat, t.level, t.quiet)
	if err != nil {
		return err
	}
	gpus, err := findTrainingGPUs(t.devices, logger)
	if err != nil {
		return err
	}
	if gpus.products, err = newTrainingProducts(t.gpuProducts, logger); err != nil {
		return err
	}
	if err := checkTrainingGrace(t.grace); err != nil {
		return err
	}
	gpus.grace = t.grace
	gpus.products.wish, gpus.said = !gpus.demanded, command.Flags().Changed("gpu-products")
	if gpus.products.way == gpukernels.LibraryProducts && len(gpus.numbers) == 0 {
		logger.Warn("the CPU trains: --gpu-products "+t.gpuProducts+" is for GPUs", "devices", t.devices)
	}
	texts := &corpora{ctx: command.Context()}
	defer texts.close()
	config.Open = texts.open
	result, err := gpus.train(command.Context(), config, logger)
	if err == nil {
		logger.Info("done", slog.String("model", config.Model), slog.Int("updates", result.Updates), slog.Int("epochs", result.Epochs),
			slog.Int64("words", result.Words), slog.Int("skipped", result.Skipped), slog.Bool("early", result.Early))
	}
	return err
}

// sortTrainingError sorts an error by what the user has to look at.
func sortTrainingError(err error) error {
	var vocabulary *vocab.Error
	var parameter *model.ParameterError
	var file *marian.Error
	var usage usageError
	switch {
	case err == nil || errors.As(err, &usage):
		return err
	case errors.Is(err, network.ErrUnsupported):
		return usageError{fmt.Errorf("%w; --devices cpu trains it on the processor", err)}
	case errors.Is(err, train.ErrInterrupted):
		return fmt.Errorf("%w: %w", errInterrupted, err)
	case errors.Is(err, train.ErrConfig), errors.Is(err, train.ErrOtherRun), errors.Is(err, train.ErrBusy):
		return usageError{err}
	case errors.Is(err, train.ErrOutput), errors.Is(err, syscall.ENOSPC):
		return outputError{err}
	case errors.Is(err, data.ErrEmpty), errors.Is(err, data.ErrFormat):
		return inputError{err}
	case errors.As(err, &vocabulary), errors.As(err, &parameter), errors.As(err, &file), errors.Is(err, model.ErrUnsupported):
		return modelError{err}
	case errors.As(err, new(*fs.PathError)):
		return inputError{err}
	}
	return err
}
