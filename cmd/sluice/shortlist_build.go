package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/translator/shortlist"
)

// buildFlags say what a shortlist is built from.
type buildFlags struct {
	source, target string
	alignments     string
	vocabs         []string
	output         string
	overwrite      bool
	parameters     shortlist.Parameters
	learning       shortlist.BuildOptions
}

func newBuildShortlistCommand() *cobra.Command {
	f := buildFlags{learning: shortlist.DefaultBuildOptions(1, 1)}
	command := &cobra.Command{
		Use:   "build --source FILE --target FILE --vocabs SOURCE TARGET -o OUTPUT",
		Short: "Learn a shortlist from a parallel text",
		Long: `Learn from a parallel text, one sentence on each line, which target pieces translate a source piece, by
word alignment (IBM model 2 as in fast_align). With --alignments the links are taken from a file of
another aligner, which must have seen the pieces of the same vocabularies.

The suffix of OUTPUT says what is written: .bin the binary form, anything else text; .gz, .zst, .bz2 or
.xz behind it compresses.`,
		Example: `  sluice shortlist build --source train.en --target train.de --vocabs vocab.spm -o lex.s2t.gz`,
		Args:    exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return buildShortlist(command.Context(), command.OutOrStdout(), f)
		},
	}
	addGroups(command, f.groups()...)
	return command
}

func (f *buildFlags) groups() []flagGroup {
	input, output, choice, learning := newGroup("Input options"), newGroup("Output options"),
		newGroup("Options for the binary form"), newGroup("Alignment options")
	input.flags.StringVar(&f.source, "source", "", "source side of the text, compressed or not")
	input.flags.StringVar(&f.target, "target", "", "target side of the text")
	addVocabs(input.flags, &f.vocabs)
	input.flags.StringVar(&f.alignments, "alignments", "", "links between pieces, in Pharaoh's form (0-0 1-2), one line for each sentence")
	output.flags.StringVarP(&f.output, "output", "o", "", "file to write; - is standard output")
	output.flags.BoolVar(&f.overwrite, "overwrite", false, "replace the output if it exists")
	addParameters(choice.flags, &f.parameters)
	l := &f.learning
	learning.flags.IntVar(&l.Iterations, "iterations", l.Iterations, "times that the text is read")
	learning.flags.Float64Var(&l.Diagonal, "diagonal", l.Diagonal, "how strongly words are expected at the same relative position")
	learning.flags.Float64Var(&l.Null, "null", l.Null, "share of target pieces that no source piece accounts for")
	learning.flags.IntVar(&l.MaxPairs, "max-pairs", l.MaxPairs, "pairs kept in memory, about 100 bytes each")
	learning.flags.IntVar(&l.MaxLength, "max-length", l.MaxLength, "leave out sentences of more pieces")
	return []flagGroup{input, output, choice, learning}
}

func (f *buildFlags) check() error {
	switch {
	case f.source == "" || f.target == "":
		return usageErrorf("shortlist build needs --source and --target")
	case f.source == "-" || f.target == "-":
		return usageErrorf("shortlist build reads its text several times, and cannot take it from standard input")
	case f.output == "":
		return usageErrorf("shortlist build needs --output")
	}
	if err := checkParameters(f.parameters); err != nil {
		return err
	}
	return checkOutputs(f.overwrite, []string{f.output}, append([]string{f.source, f.target, f.alignments}, f.vocabs...))
}

func buildShortlist(ctx context.Context, stdout io.Writer, f buildFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	both, err := openSides(f.vocabs)
	if err != nil {
		return err
	}
	table, err := f.table(ctx, both)
	if err != nil {
		return err
	}
	if !isBinaryName(f.output) {
		return writeTo(stdout, f.output, func(w io.Writer) error {
			return table.WriteText(w, both.source.Piece, both.target.Piece)
		})
	}
	chosen, err := table.Shortlist(f.parameters, both.shared)
	if err != nil {
		return usageError{err}
	}
	return writeTo(stdout, f.output, func(w io.Writer) error {
		_, err := chosen.WriteTo(w)
		return err
	})
}

// table returns the probabilities that the text gives, learnt or counted from links.
func (f *buildFlags) table(ctx context.Context, both sides) (*shortlist.Table, error) {
	if f.alignments != "" {
		return f.count(ctx, both)
	}
	f.learning.Sources, f.learning.Targets = both.source.Size(), both.target.Size()
	table, err := shortlist.Build(func(yield func(source, target []int32) error) error {
		return f.pairs(ctx, both, yield)
	}, f.learning)
	return table, corpusError(err)
}

// corpusError sorts an error of building: what the text is to blame for, and what the options are.
func corpusError(err error) error {
	var input inputError
	switch {
	case err == nil || errors.Is(err, errInterrupted) || errors.As(err, &input):
		return err
	case errors.Is(err, shortlist.ErrCorpus):
		return inputError{err}
	}
	return usageError{err}
}

// count takes the links of another aligner.
func (f *buildFlags) count(ctx context.Context, both sides) (*shortlist.Table, error) {
	counter := shortlist.NewLinkCounter(both.source.Size(), both.target.Size())
	links, err := openLines(f.alignments)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	number := 0
	err = f.pairs(ctx, both, func(source, target []int32) error {
		number++
		line, err := links.next()
		if err == io.EOF {
			return inputError{fmt.Errorf("%s has %d lines, fewer than %s", f.alignments, number-1, f.source)}
		}
		if err != nil {
			return err
		}
		if err := counter.Add(source, target, line); err != nil {
			return inputError{fmt.Errorf("%s, line %d: %w", f.alignments, number, err)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := links.next(); err != io.EOF {
		return nil, inputError{fmt.Errorf("%s has more than the %d lines of %s", f.alignments, number, f.source)}
	}
	return counter.Table(), nil
}

// pairs yields the pieces of every pair of lines. The slices are used again.
func (f *buildFlags) pairs(ctx context.Context, both sides, yield func(source, target []int32) error) error {
	sources, err := openLines(f.source)
	if err != nil {
		return err
	}
	defer sources.Close()
	targets, err := openLines(f.target)
	if err != nil {
		return err
	}
	defer targets.Close()
	var source, target []int32
	for {
		if ctx.Err() != nil {
			return errInterrupted
		}
		left, leftErr := sources.next()
		right, rightErr := targets.next()
		switch {
		case leftErr == io.EOF && rightErr == io.EOF:
			return nil
		case leftErr == io.EOF && rightErr == nil || rightErr == io.EOF && leftErr == nil:
			return f.unequal(sources, targets)
		case leftErr != nil && leftErr != io.EOF:
			return leftErr
		case rightErr != nil:
			return rightErr
		}
		source, target = both.source.Encode(left, source[:0]), both.target.Encode(right, target[:0])
		if err := yield(source, target); err != nil {
			return err
		}
	}
}

// unequal reads both sides to their ends, to say how long they are.
func (f *buildFlags) unequal(sources, targets *lineReader) error {
	for _, side := range []*lineReader{sources, targets} {
		for {
			if _, err := side.next(); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
	}
	return inputError{fmt.Errorf("%s has %d lines and %s has %d: they must be translations of each other, line by line",
		f.source, sources.count, f.target, targets.count)}
}

// isBinaryName tells whether a file name asks for the binary form.
func isBinaryName(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, compress.BySuffix(name).Suffix()), ".bin")
}
