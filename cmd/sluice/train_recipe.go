package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/gpukernels"
	trainrecipe "github.com/sluice-mt/sluice/train/recipe"
)

func newRecipeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "recipe",
		Short: "From texts to a model: training in steps that can be resumed",
		Long: `A recipe is a YAML file that names steps: vocabulary, teachers, distilled and back-translated data, students, shortlist,
quantised model, evaluation. What a step reads and writes puts it in its place. What is done is not done again unless its
settings or its inputs have changed; what was interrupted, even by force, goes on, with the same result.`,
	}
	command.AddCommand(newRunRecipeCommand(), newWorkRecipeCommand(), newPlanRecipeCommand(), newListRecipesCommand(), newShowRecipeCommand(), newRecipeSchemaCommand())
	return command
}

// recipeRun is one run of "sluice train recipe run".
type recipeRun struct {
	quiet            bool
	level, logFormat string
	devices          []string
	gpuProducts      string
	grace            time.Duration
	elsewhere        elsewhereFlags
}

func newRunRecipeCommand() *cobra.Command {
	r := new(recipeRun)
	command := &cobra.Command{
		Annotations: finishes(),
		Use:         "run FILE",
		Short:       "Run a recipe, or go on with it",
		Example:     "  sluice train recipe show tatoeba > tatoeba.yml\n  sluice train recipe run tatoeba.yml",
		Args:        exactArguments(1, "a recipe: a file, which sluice train recipe show can write"),
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := applyEnvironment(command.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return sortRecipeError(r.run(command, arguments[0]))
		},
	}
	group := newGroup("Options")
	group.flags.StringArrayVarP(&r.devices, "devices", "d", nil, "train, translate and rescore on these `GPUS`: numbers beginning with 0, all, auto (or else on the CPU), cpu (the default); see docs/training.md")
	group.flags.StringVar(&r.gpuProducts, "gpu-products", gpukernels.MeasuredProducts.String(), gpuProductsUsage)
	group.flags.DurationVar(&r.grace, "grace-period", trainingGrace, trainingGraceUsage)
	group.flags.BoolVar(&r.quiet, "quiet", false, "print warnings and errors only")
	group.flags.StringVar(&r.level, "log-level", "info", "debug, info, warn or error")
	group.flags.StringVar(&r.logFormat, "log-format", "text", "text or json")
	addGroups(command, r.elsewhere.group(), group)
	return command
}

func (r *recipeRun) run(command *cobra.Command, path string) error {
	logger, err := newLogger(command.ErrOrStderr(), r.logFormat, r.level, r.quiet)
	if err != nil {
		return err
	}
	parsed, err := readTrainRecipe(path)
	if err != nil {
		return err
	}
	if !r.quiet {
		if err := trainrecipe.WritePlan(command.ErrOrStderr(), parsed); err != nil {
			return err
		}
	}
	if err := checkTrainingGrace(r.grace); err != nil {
		return err
	}
	if _, err := newTrainingProducts(r.gpuProducts, logger); err != nil {
		return err
	}
	gpus, err := findTrainingGPUs(r.devices, logger)
	if err == nil {
		err = checkGPUs(gpus.numbers)
	}
	if err != nil {
		return err
	}
	engine, end, err := r.elsewhere.engine(command.Context(), recipeEngine{gpus.numbers, r.gpuProducts, r.grace}, logger)
	if err != nil {
		return err
	}
	defer end()
	return trainrecipe.Run(command.Context(), parsed, engine, logger)
}

func newPlanRecipeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "plan FILE",
		Short: "Check a recipe, and print its steps: what is done, what is left, and how long it takes where that was measured",
		Args:  exactArguments(1, "a recipe"),
		RunE: func(command *cobra.Command, arguments []string) error {
			parsed, err := readTrainRecipe(arguments[0])
			if err != nil {
				return err
			}
			return sortRecipeError(trainrecipe.WritePlan(command.OutOrStdout(), parsed))
		},
	}
}

func newListRecipesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the recipes that come with the program",
		Args:  exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			for _, r := range trainrecipe.Examples() {
				if _, err := fmt.Fprintf(command.OutOrStdout(), "%-16s %s\n", r.Name, r.Title); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newShowRecipeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Print a recipe that comes with the program",
		Args:  exactArguments(1, "the name of a recipe, as sluice train recipe list prints it"),
		RunE: func(command *cobra.Command, arguments []string) error {
			var names []string
			for _, r := range trainrecipe.Examples() {
				if r.Name == arguments[0] {
					_, err := command.OutOrStdout().Write(r.Text)
					return err
				}
				names = append(names, r.Name)
			}
			return usageErrorf("there is no recipe %q: there are %s", arguments[0], strings.Join(names, ", "))
		},
	}
}

func newRecipeSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of recipes, which editors use to complete and to check them",
		Args:  exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			text, err := trainrecipe.Schema()
			if err != nil {
				return err
			}
			_, err = command.OutOrStdout().Write(text)
			return err
		},
	}
}

// readTrainRecipe reads and checks a recipe. What is wrong with it is a usageError with one line for each problem.
func readTrainRecipe(path string) (*trainrecipe.Recipe, error) {
	content, err := readSettings(path)
	if err != nil {
		return nil, usageError{err}
	}
	parsed, err := trainrecipe.Parse(content, path, os.LookupEnv, recipeEngine{})
	if err != nil {
		return nil, jobProblems(path, err)
	}
	return parsed, nil
}

// sortRecipeError sorts an error by what the user has to look at.
func sortRecipeError(err error) error {
	switch {
	case errors.Is(err, trainrecipe.ErrInterrupted):
		return fmt.Errorf("%w: %w", errInterrupted, err)
	case errors.Is(err, trainrecipe.ErrBusy), errors.Is(err, trainrecipe.ErrExists):
		return usageError{err}
	case errors.Is(err, trainrecipe.ErrOutput):
		return outputError{err}
	case errors.Is(err, trainrecipe.ErrFormat), errors.Is(err, trainrecipe.ErrInput):
		return inputError{err}
	}
	return sortTrainingError(err)
}
