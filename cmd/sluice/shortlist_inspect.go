package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/translator/shortlist"
)

func newConvertShortlistCommand() *cobra.Command {
	var vocabs []string
	var overwrite bool
	var parameters shortlist.Parameters
	input, choice, output := newGroup("Input options"), newGroup("Choice options"), newGroup("Output options")
	addVocabs(input.flags, &vocabs)
	addParameters(choice.flags, &parameters)
	output.flags.BoolVar(&overwrite, "overwrite", false, "replace OUTPUT if it exists")
	command := &cobra.Command{
		Use:     "convert INPUT OUTPUT --vocabs SOURCE TARGET",
		Short:   "Write a text shortlist in binary form",
		Example: `  sluice shortlist convert lex.s2t.gz lex.50.50.s2t.bin --vocabs vocab.spm --first 50 --best 50`,
		Args:    exactArguments(2, "an input and an output"),
		RunE: func(command *cobra.Command, arguments []string) error {
			return convertShortlist(command.OutOrStdout(), arguments[0], arguments[1], vocabs, parameters, overwrite)
		},
	}
	addGroups(command, input, choice, output)
	return command
}

func convertShortlist(stdout io.Writer, input, output string, vocabs []string, parameters shortlist.Parameters, overwrite bool) error {
	if err := checkParameters(parameters); err != nil {
		return err
	}
	if err := checkOutputs(overwrite, []string{output}, append(vocabs, input)); err != nil {
		return err
	}
	both, err := openSides(vocabs)
	if err != nil {
		return err
	}
	list, err := readShortlist(input, both.options(parameters))
	if err != nil {
		return err
	}
	if made := list.Parameters(); made.First != parameters.First || made.Best != parameters.Best {
		return usageErrorf("%s is in binary form already, made with --first %d --best %d: other choices need the text",
			input, made.First, made.Best)
	}
	return writeTo(stdout, output, func(w io.Writer) error {
		_, err := list.WriteTo(w)
		return err
	})
}

func readShortlist(path string, options shortlist.Options) (*shortlist.Shortlist, error) {
	list, err := shortlist.Open(path, options)
	if err != nil {
		return nil, modelError{err}
	}
	return list, nil
}

// inspectFlags say what is to be told about a shortlist.
type inspectFlags struct {
	vocabs     []string
	parameters shortlist.Parameters
	text       string
	json       bool
}

func newInspectShortlistCommand() *cobra.Command {
	var f inspectFlags
	input, choice, output := newGroup("Input options"), newGroup("Options for the text form"), newGroup("Output options")
	addVocabs(input.flags, &f.vocabs)
	input.flags.StringVar(&f.text, "text", "", "source text to count the candidates of each sentence for")
	addParameters(choice.flags, &f.parameters)
	output.flags.BoolVar(&f.json, "json", false, "print JSON")
	command := &cobra.Command{
		Use:   "inspect FILE [--vocabs SOURCE TARGET [--text FILE]]",
		Short: "Say what a shortlist holds",
		Args:  exactArguments(1, "one shortlist"),
		RunE: func(command *cobra.Command, arguments []string) error {
			report, err := inspectShortlist(arguments[0], f)
			if err != nil {
				return err
			}
			if f.json {
				return writeJSON(command.OutOrStdout(), report)
			}
			return writeOutput(command.OutOrStdout(), report.text())
		},
	}
	addGroups(command, input, choice, output)
	return command
}

// A shortlistReport is what "sluice shortlist inspect" tells.
type shortlistReport struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	shortlist.Statistics
	Text *textCandidates `json:"text,omitempty"`
}

// textCandidates say how many candidates the sentences of a text have.
type textCandidates struct {
	Path      string  `json:"path"`
	Sentences int64   `json:"sentences"`
	Mean      float64 `json:"mean_candidates"`
	Most      int     `json:"most_candidates"`
}

func inspectShortlist(path string, f inspectFlags) (shortlistReport, error) {
	report := shortlistReport{Path: path, Bytes: fileSize(path)}
	if f.text != "" && len(f.vocabs) == 0 {
		return report, usageErrorf("--text needs --vocabs")
	}
	if err := checkParameters(f.parameters); err != nil {
		return report, err
	}
	var both sides
	var err error
	if len(f.vocabs) > 0 {
		if both, err = openSides(f.vocabs); err != nil {
			return report, err
		}
	}
	list, err := readShortlist(path, both.options(f.parameters))
	if err != nil {
		if len(f.vocabs) == 0 && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w (the text form needs --vocabs)", err)
		}
		return report, err
	}
	report.Statistics = list.Inspect()
	if f.text != "" {
		report.Text, err = countCandidates(list, both, f.text)
	}
	return report, err
}

// countCandidates finds the candidates of every line that is not empty, as a translation of it would.
func countCandidates(list *shortlist.Shortlist, both sides, path string) (*textCandidates, error) {
	counted := &textCandidates{Path: path}
	total := int64(0)
	scratch := list.NewScratch()
	var source, candidates []int32
	err := eachLine(path, func(line string) error {
		if strings.TrimSpace(line) == "" {
			return nil
		}
		source = append(both.source.Encode(line, source[:0]), both.source.EOS())
		candidates = scratch.Candidates(source, nil, candidates[:0])
		counted.Sentences++
		total += int64(len(candidates))
		counted.Most = max(counted.Most, len(candidates))
		return nil
	})
	if counted.Sentences > 0 {
		counted.Mean = float64(total) / float64(counted.Sentences)
	}
	return counted, err
}

// text is the report for people.
func (r shortlistReport) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	s := r.Statistics
	fmt.Fprintf(w, "shortlist\t%s, %s bytes\n", r.Path, grouped(r.Bytes))
	fmt.Fprintf(w, "always candidates\tids below %d\n", s.First)
	fmt.Fprintf(w, "entries per piece\tat most %d, more probable than %g\n", s.Best, s.Threshold)
	fmt.Fprintf(w, "source pieces\t%s, %s with entries, %s with as many as allowed\n",
		grouped(int64(s.Sources)), grouped(int64(s.WithEntries)), grouped(int64(s.Full)))
	fmt.Fprintf(w, "target pieces\t%s, %s of them candidates\n", grouped(int64(s.Targets)), grouped(int64(s.DistinctIDs)))
	fmt.Fprintf(w, "entries\t%s, %.1f per source piece that has any, %d at most\n", grouped(int64(s.Entries)), s.MeanPerPiece, s.MostEntries)
	fmt.Fprintf(w, "size in binary form\t%s bytes\n", grouped(int64(s.BinaryBytes)))
	if r.Text != nil {
		fmt.Fprintf(w, "candidates\t%.1f on average over the %s sentences of %s, %d at most\n",
			r.Text.Mean, grouped(r.Text.Sentences), r.Text.Path, r.Text.Most)
	}
	_ = w.Flush() // into memory
	return b.String()
}
