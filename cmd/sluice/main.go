// Command sluice translates streams of text in batches: files, objects in S3 and topics in Kafka. It also trains the models.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/translator"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run executes one command line and returns its exit code.
func run(arguments []string) int { return runWith(newRootCommand(beginEngine), arguments) }

func runWith(root *cobra.Command, arguments []string) int {
	prepared := prepareArguments(root, arguments)
	root.SetArgs(prepared)
	output := new(standardOutput)
	if root.OutOrStdout() == os.Stdout {
		root.SetOut(output)
	}
	ctx, stop := interruptible(context.Background(), os.Stderr, os.Exit, patienceWith(root, prepared))
	defer stop()
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = output.failure()
	}
	if err != nil && !errors.Is(err, errFlagged) {
		fmt.Fprintln(os.Stderr, "sluice:", err)
	}
	return exitCode(err)
}

func newRootCommand(begin func(translator.Config) (liveTranslator, error)) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Translate streams of text in batches",
		Long: `sluice translates any amount of text with the models that Marian trains: one output record for every
input record, in order, as fast as batching allows, and resumable wherever it is stopped. "sluice translate"
is for files and pipes, "sluice run" for jobs between Kafka, S3 and files, "sluice train" for models.

The options of translate, bench and train can also be set by environment variables (SLUICE_BEAM_SIZE for
--beam-size), and those of translate and bench in a YAML file given with --config, in the form of Marian's
decoder.yml. The settings of a job are in its file.

Exit codes: 0 done, 1 unforeseen failure, 2 bad usage, 3 bad input, 4 bad model, 5 output cannot be
written, 6 finished with flagged records, 7 interrupted (the same command continues).`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usageErrorf("%v (see sluice --help)", err)
	})
	root.AddCommand(
		newTranslateCommand(begin),
		newModelCommand(),
		newTrainCommand(),
		newShortlistCommand(),
		newVocabCommand(),
		newAlignCommand(),
		newCorpusCommand(),
		newScoreCommand(),
		newRescoreCommand(),
		newMBRCommand(),
		newEvalCommand(),
		newReportCommand(),
		newBenchCommand(),
		newVersionCommand(),
		newRunCommand(begin),
		newLintCommand(),
		newLettersCommand(),
		newTopCommand(),
		newDoctorCommand(),
		newPlanCommand(),
		newManCommand(),
	)
	return root
}

// prepareArguments rewrites Marian's way of writing options into the form that the flag library reads.
func prepareArguments(root *cobra.Command, arguments []string) []string {
	command, options, err := root.Find(arguments)
	if err != nil || command == root {
		return arguments
	}
	if rewritten, ok := benchOfGPU(command, options); ok {
		return rewritten
	}
	if parent := command.Parent(); parent != nil && parent.Name() == "score" {
		return sacrebleuArguments(arguments, command.Flags())
	}
	if command.Flags().Lookup("vocabs") != nil {
		return marianArguments(arguments, command.Flags(), translateLists())
	}
	if command.Flags().Lookup("devices") != nil { // of train, recipes, run and doctor
		return marianArguments(arguments, command.Flags(), map[string]func(string) bool{"devices": isDevice})
	}
	return arguments
}

// exactArguments is cobra.ExactArgs with our kind of error.
func exactArguments(n int, what string) cobra.PositionalArgs {
	return func(command *cobra.Command, arguments []string) error {
		if len(arguments) != n {
			return usageErrorf("%s takes %s (see %[1]s --help)", command.CommandPath(), what)
		}
		return nil
	}
}
