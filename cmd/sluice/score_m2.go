package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/internal/m2"
)

// m2Scoring is one run of "sluice score m2".
type m2Scoring struct {
	options m2.Options
	input   string
	json    bool
}

func newM2Command() *cobra.Command {
	s := &m2Scoring{options: m2.DefaultOptions()}
	command := &cobra.Command{
		Use:   "m2 [-i CORRECTED] GOLD.m2",
		Short: "Score corrections with the MaxMatch scorer's F",
		Long: `Score corrected sentences by the edits that they make, against the edits that annotators made, with the numbers of
the MaxMatch scorer (M², Dahlmeier and Ng 2012). Of several annotators of a sentence the one counts who gives the
highest F. Options may be written with the underscores of that scorer.`,
		Example: `  sluice score m2 -i corrected.txt gold.m2
  sluice translate -m correction.npz -i errors.txt | sluice score m2 gold.m2`,
		Args: exactArguments(1, "one file of gold edits in the M² format"),
		RunE: func(command *cobra.Command, arguments []string) error {
			return s.run(command.OutOrStdout(), command.ErrOrStderr(), arguments[0])
		},
	}
	input, metric, output := newGroup("Input options"), newGroup("M² options"), newGroup("Output options")
	input.flags.StringVarP(&s.input, "input", "i", "-", "corrected sentences, a line for each sentence of the gold edits; - is standard input")
	metric.flags.Float64Var(&s.options.Beta, "beta", s.options.Beta, "weight of recall against precision")
	metric.flags.IntVar(&s.options.MaxUnchanged, "max-unchanged-words", s.options.MaxUnchanged, "unchanged words that an edit of the corrected sentence may hold")
	metric.flags.BoolVar(&s.options.IgnoreCaseAndSpace, "ignore-whitespace-casing", false, "leave out corrections of case and white space")
	output.flags.BoolVar(&s.json, "json", false, "print JSON, with the numbers of edits")
	addGroups(command, input, metric, output)
	command.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	return command
}

func (s *m2Scoring) run(stdout, stderr io.Writer, goldPath string) error {
	if err := s.options.Check(); err != nil {
		return usageError{err}
	}
	sentences, err := readM2(goldPath, stderr)
	if err != nil {
		return err
	}
	candidates, err := readSegments(s.input)
	if err != nil {
		return err
	}
	if len(candidates) != len(sentences) {
		return inputError{fmt.Errorf("%s has %d lines and %s has %d sentences: they must match one by one",
			displayName(s.input), len(candidates), goldPath, len(sentences))}
	}
	result, err := m2.Compute(candidates, sentences, s.options)
	if err != nil {
		return inputError{fmt.Errorf("%s against %s: %w", displayName(s.input), goldPath, err)}
	}
	if result.Gold == 0 {
		fmt.Fprintf(stderr, "sluice: %s has no edits that count: recall is 1 whatever the corrections are, as with the MaxMatch scorer\n", goldPath)
	}
	if s.json {
		return writeJSON(stdout, m2Report{result.Precision, result.Recall, result.F, s.options.Beta, result.Correct, result.Proposed, result.Gold})
	}
	return writeOutput(stdout, fmt.Sprintf("Precision   : %.4f\nRecall      : %.4f\nF_%.1f       : %.4f\n",
		result.Precision, result.Recall, s.options.Beta, result.F))
}

// m2Report is what --json prints.
type m2Report struct {
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F         float64 `json:"f"`
	Beta      float64 `json:"beta"`
	Correct   int     `json:"correct"`
	Proposed  int     `json:"proposed"`
	Gold      int     `json:"gold"`
}

// readM2 reads a file of gold edits, compressed or not.
func readM2(path string, stderr io.Writer) (sentences []m2.Sentence, err error) {
	text, err := openLines(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	sentences, outside, err := m2.Read(text.lines)
	if err != nil {
		return nil, inputError{fmt.Errorf("%s: %w", path, err)}
	}
	if outside > 0 {
		fmt.Fprintf(stderr, "sluice: %s: edits that lie outside their sentences and do not count: %d\n", path, outside)
	}
	return sentences, nil
}
