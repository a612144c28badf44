package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/nbest"
	"github.com/sluice-mt/sluice/internal/obs"
	"github.com/sluice-mt/sluice/translator/rescore"
)

// lengthFeature is the number of target pieces of a hypothesis, end of sentence included, in the vocabulary of the first model.
const lengthFeature = "Length"

// A rescoring is one run of "sluice rescore".
type rescoring struct {
	input, source string
	configs       []string
	open          scorerFlags
	weights       string
	normalize     float64
	ranked        rankedOutput
	featuresOnly  bool
	maxiBatch     int

	models []scoringModel
	rank   ranking
	logger *slog.Logger
}

func newRescoreCommand() *cobra.Command {
	r := new(rescoring)
	command := &cobra.Command{
		Use:   "rescore -s SOURCE -m MODEL [flags] < LIST",
		Short: "Score n-best lists with other models and rank them anew",
		Long: `Read an n-best list of Marian or Moses (id ||| text ||| F0= -5.2 ||| -0.9), let further models score its
hypotheses, and rank them by the weighted sum of all scores. Models that write from right to left and
language models are recognised as such; each may have a vocabulary of its own.

Every model adds a feature, its log-probability of the hypothesis, by the name of --feature or else
R2L0, R2L1, … for models that write from right to left, LM0, … for language models and L2R0, … for the
others. The first model adds Length as well, the number of its pieces. Without --weights every feature
but Length counts once.

Lists are read, scored and written as a stream. Scores do not depend on batches or on --cpu-threads; on
GPUs (--devices) they are those of another arithmetic.`,
		Example: `  sluice translate -m l2r1.npz l2r2.npz -v vocab.spm -b 12 --n-best -i test.en -o test.nbest
  sluice rescore -s test.en -m r2l1.npz r2l2.npz -v vocab.spm -i test.nbest --best -o test.de
  sluice rescore tune -i dev.scored.nbest dev.de -o tuned.yml
  sluice rescore -c tuned.yml -i test.scored.nbest --best`,
		Args: exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if r.logger, err = obs.NewLogger(command.ErrOrStderr(), "text", "info"); err != nil {
				return err
			}
			if err := applyGPUEnvironment(command.Flags()); err != nil {
				return err
			}
			return r.run(command)
		},
	}
	addGroups(command, r.groups()...)
	command.AddCommand(newTuneCommand())
	return command
}

func (r *rescoring) groups() []flagGroup {
	input, models, ranks := newGroup("Input options"), newGroup("Models"), newGroup("Ranking")
	input.flags.StringVarP(&r.input, "input", "i", "-", "n-best list; - is standard input")
	input.flags.StringVarP(&r.source, "source", "s", "", "the text that was translated, a line for each sentence (several sources: with tabs between)")
	models.flags.StringArrayVarP(&r.configs, "config", "c", nil, "read models, weights and normalize from these YAML `FILES`; the command line and later files win")
	r.open.add(models.flags)
	ranks.flags.StringVar(&r.weights, "weights", "", "`WEIGHTS` of the features, as in \"F0= 0.5 R2L0= 0.5\"; those that are not named count nothing")
	ranks.flags.Float64VarP(&r.normalize, "normalize", "n", 1, "divide the weighted sum by Length^`ALPHA`")
	ranks.flags.BoolVar(&r.featuresOnly, "features-only", false, "add the features, and leave order and totals as they are")
	machine := r.open.machine()
	machine.flags.IntVar(&r.maxiBatch, "maxi-batch", 512, "sentences that are read ahead and sorted by length")
	return []flagGroup{input, models, ranks, r.ranked.group(), machine}
}

func (r *rescoring) run(command *cobra.Command) error {
	if err := r.settle(command); err != nil {
		return err
	}
	lists, err := openLists(r.input, r.source)
	if err != nil {
		return err
	}
	defer lists.Close()
	if r.models, err = r.open.open(command.Context(), r.logger); err != nil {
		return err
	}
	defer closeScoring(r.models)
	for _, m := range r.models {
		if m.readsSource && r.source == "" {
			return usageErrorf("%s reads the source: give it with --source FILE", m.path)
		}
	}
	return r.ranked.write(command.OutOrStdout(), func(w io.Writer) error { return r.stream(command.Context(), lists, w) })
}

// settle combines the command line with the configuration files.
func (r *rescoring) settle(command *cobra.Command) error {
	recipe, err := readRecipes(r.configs)
	if err != nil {
		return err
	}
	if len(r.open.models) == 0 {
		r.open.recipe = recipe.Models
	}
	if recipe.Normalize != nil && !command.Flags().Changed("normalize") {
		r.normalize = *recipe.Normalize
	}
	weights := recipe.weights()
	if r.weights != "" {
		if weights, err = nbest.ParseWeights(r.weights); err != nil {
			return usageErrorf("--%v", err)
		}
	}
	switch {
	case !isFinite(r.normalize) || r.normalize < 0:
		return usageErrorf("--normalize %v: at least 0", r.normalize)
	case r.maxiBatch < 1:
		return usageErrorf("--maxi-batch %d: at least 1", r.maxiBatch)
	case r.featuresOnly && (r.ranked.best || r.weights != ""):
		return usageErrorf("--features-only ranks nothing: leave --best and --weights out")
	case r.featuresOnly && r.open.none():
		return usageErrorf("--features-only needs models that give features: name them with -m")
	}
	r.rank = ranking{weights: weights, normalize: r.normalize}
	r.open.said = changedFlags(command.Flags())
	if err := r.open.check(runtime.GOMAXPROCS(0)); err != nil {
		return err
	}
	return r.ranked.check(slices.Concat([]string{r.input, r.source}, r.configs, r.open.files())...)
}

// stream scores and ranks lists from beginning to end.
func (r *rescoring) stream(ctx context.Context, lists *listReader, w io.Writer) error {
	cropped := 0
	for {
		chunk, err := lists.chunk(r.maxiBatch)
		if err != nil && err != io.EOF {
			return err
		}
		if len(chunk) > 0 {
			n, err := r.score(ctx, chunk)
			if ctx.Err() != nil {
				return errInterrupted
			}
			if err != nil {
				return err
			}
			cropped += n
		}
		for _, list := range chunk {
			if !r.featuresOnly {
				if err := r.rank.sort(list.entries); err != nil {
					return err
				}
			}
			if err := r.ranked.print(w, list.entries); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
	}
	if cropped > 0 {
		r.logger.Warn("only the beginning of some texts was scored: they, or their sources, are longer than --max-length", "hypotheses", cropped)
	}
	return nil
}

// score adds the features of all models. It returns how many hypotheses were cropped.
func (r *rescoring) score(ctx context.Context, chunk []sentenceList) (cropped int, err error) {
	for k := range r.models {
		m := &r.models[k]
		scores, err := m.score(ctx, toScore(chunk))
		if err != nil {
			return 0, r.sourceError(chunk, err)
		}
		for i := range chunk {
			for j := range chunk[i].entries {
				e, s := &chunk[i].entries[j], &scores[i][j]
				if !isFinite(s.LogProb) {
					return 0, modelError{fmt.Errorf("%s: the score of a hypothesis of sentence %d is not finite; %s", m.path, e.ID, m.adviceOnScores())}
				}
				if e.Feature(m.feature) != nil {
					return 0, usageErrorf("the list has a feature %s already: give the model's another name with --feature", m.feature)
				}
				e.Add(m.feature, s.LogProb)
				if k == 0 && e.Feature(lengthFeature) == nil {
					e.Add(lengthFeature, float64(len(s.Words)))
				}
				if s.Cropped {
					cropped++
				}
			}
		}
	}
	return cropped, nil
}

// sourceError says which line of the source an error is about.
func (r *rescoring) sourceError(chunk []sentenceList, err error) error {
	var about *rescore.ListError
	if errors.As(err, &about) {
		return inputError{fmt.Errorf("%s, line %d: %w", displayName(r.source), chunk[about.List].entries[0].ID+1, about.Err)}
	}
	return err
}
