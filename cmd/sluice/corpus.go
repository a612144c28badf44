package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/train/corpus"
)

// newCorpusCommand returns the commands that prepare text for training.
func newCorpusCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "corpus",
		Short: "Clean and shuffle text for training, add noise to it, and tell the edits of corrections",
		Long: `Prepare text for training. Every command reads sentence pairs from two files or a table, or a text of one
language, compressed or not, and takes a bounded amount of memory, however much there is. Results depend on the
text, the options and the seed alone. Outputs appear under their names when they are complete.`,
		Args:               needsSubcommand,
		RunE:               showHelp,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
	}
	command.AddCommand(newCleanCommand(), newShuffleCommand(), newNoiseCommand(), newEditsCommand())
	return command
}

// corpusOutput says where pairs go: a table, or two texts.
type corpusOutput struct {
	path, source, target string
	overwrite            bool
}

func (o *corpusOutput) add(flags *pflag.FlagSet) {
	flags.StringVarP(&o.path, "output", "o", "-", "`FILE` for source, tab and target on each line, or for the sentences of a text, compressed as its suffix says; - is standard output")
	flags.StringVar(&o.source, "output-source", "", "instead a `FILE` for the source side")
	flags.StringVar(&o.target, "output-target", "", "and one for the target side")
	flags.BoolVar(&o.overwrite, "overwrite", false, "replace outputs that exist")
}

// check looks at the outputs, further files that will be written among them, beside all that is read.
func (o *corpusOutput) check(flags *pflag.FlagSet, single bool, inputs []string, further ...string) error {
	switch {
	case (o.source == "") != (o.target == ""):
		return usageErrorf("--output-source and --output-target belong together")
	case o.source != "" && flags.Changed("output"):
		return usageErrorf("give --output, or --output-source and --output-target")
	case o.source != "" && single:
		return usageErrorf("a text of one language has one output")
	}
	outputs := []string{o.path}
	if o.source != "" {
		outputs = []string{o.source, o.target}
	}
	return checkOutputs(o.overwrite, append(outputs, further...), inputs)
}

// write opens the outputs and has f write pairs.
func (o *corpusOutput) write(stdout io.Writer, single bool, f func(put func(corpus.Pair) error) error) error {
	if o.source != "" {
		return writeTo(stdout, o.source, func(source io.Writer) error {
			return writeTo(stdout, o.target, func(target io.Writer) error {
				return f(func(p corpus.Pair) error { return errors.Join(putLine(source, p.Source), putLine(target, p.Target)) })
			})
		})
	}
	return writeTo(stdout, o.path, func(out io.Writer) error {
		return f(func(p corpus.Pair) error { return putLine(out, row(p, single)) })
	})
}

// row is the line of a table. A side that was read from a text of its own may hold tabs, which become spaces.
func row(p corpus.Pair, single bool) string {
	if single {
		return p.Source
	}
	line := strings.ReplaceAll(p.Source, "\t", " ") + "\t" + strings.ReplaceAll(p.Target, "\t", " ")
	if p.Rest != "" {
		line += "\t" + p.Rest
	}
	return line
}

func putLine(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text+"\n"); err != nil {
		return outputError{err}
	}
	return nil
}

// corpusResources are the options that change nothing of a result.
type corpusResources struct {
	memory  int64 // MiB
	tempdir string
}

func (r *corpusResources) add(flags *pflag.FlagSet) {
	flags.Int64Var(&r.memory, "memory", 512, "MiB for sorting; with less of it, temporary files are used sooner")
	flags.StringVar(&r.tempdir, "tempdir", "", "`FOLDER` for temporary files")
}

func (r *corpusResources) check() error {
	if err := checkMemory(r.memory); err != nil {
		return err
	}
	return checkTempdir(r.tempdir)
}

// checkTempdir refuses a --tempdir in which no file can be made. An empty name is the system's folder, which may not be needed.
func checkTempdir(path string) error {
	if path == "" {
		return nil
	}
	if err := probeFolder(path); err != nil {
		return usageErrorf("--tempdir %s: %w", path, err)
	}
	return nil
}

// sortTemporaryError sorts what goes wrong with temporary files, which is what remains of the errors of files when inputs and outputs
// have been sorted.
func sortTemporaryError(err error) error {
	var file *fs.PathError
	if exitCode(err) == exitFailure && errors.As(err, &file) {
		return outputError{fmt.Errorf("%w (temporary files are in %s: see --tempdir)", err, filepath.Dir(file.Path))}
	}
	return err
}

// checkMemory refuses a --memory that is none, or more than can be counted in bytes.
func checkMemory(mebibytes int64) error {
	if mebibytes < 1 || mebibytes > 1<<30 {
		return usageErrorf("--memory %d: want 1 to %d MiB", mebibytes, 1<<30)
	}
	return nil
}

// writeReport writes JSON to a file or standard output, if one is named.
func writeReport(stdout io.Writer, path string, report any) error {
	if path == "" {
		return nil
	}
	return writeTo(stdout, path, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	})
}

// sortCorpusError sorts an error by what the user has to look at.
func sortCorpusError(ctx context.Context, err error) error {
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("%w: nothing was written", errInterrupted)
	case errors.Is(err, corpus.ErrRules):
		return usageError{err}
	}
	return sortTemporaryError(err)
}

// shuffling is one run of "sluice corpus shuffle".
type shuffling struct {
	input     corpusInput
	output    corpusOutput
	resources corpusResources
	seed      uint64
}

func newShuffleCommand() *cobra.Command {
	s := new(shuffling)
	command := &cobra.Command{
		Use:   "shuffle (--source FILE --target FILE | --tsv FILE | --text FILE) [-o OUTPUT]",
		Short: "Bring a corpus into a random order",
		Long: `Bring a corpus into a random order, in which each is equally probable. The same seed gives the same order to a
corpus of as many lines. What does not fit into --memory goes to temporary files, which take as much space as
the corpus, uncompressed.`,
		Example: `  sluice corpus shuffle --tsv train.tsv.gz --seed 7 -o shuffled.tsv.zst`,
		Args:    exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			err := errors.Join(s.input.check("corpus shuffle"), s.resources.check(), s.output.check(command.Flags(), s.input.single(), s.input.paths()))
			if err != nil {
				return err
			}
			return sortCorpusError(command.Context(), s.run(command.Context(), command.OutOrStdout()))
		},
	}
	input, output, resources := newGroup("Input options"), newGroup("Output options"), newGroup("Resources")
	s.input.addPair(input.flags)
	s.input.addText(input.flags)
	s.output.add(output.flags)
	output.flags.Uint64Var(&s.seed, "seed", 1, "seed of the order")
	s.resources.add(resources.flags)
	addGroups(command, input, output, resources)
	return command
}

func (s *shuffling) run(ctx context.Context, stdout io.Writer) (err error) {
	shuffler := corpus.NewShuffler(s.seed, s.resources.tempdir, s.resources.memory<<20)
	defer func() { err = errors.Join(err, shuffler.Close()) }()
	if err := s.input.each(ctx, shuffler.Add); err != nil {
		return err
	}
	return s.output.write(stdout, s.input.single(), func(put func(corpus.Pair) error) error {
		return shuffler.Each(interruptibly(ctx, put))
	})
}

// interruptibly makes a function stop when the context ends.
func interruptibly(ctx context.Context, f func(corpus.Pair) error) func(corpus.Pair) error {
	return func(p corpus.Pair) error {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return f(p)
	}
}

// noising is one run of "sluice corpus noise".
type noising struct {
	input  corpusInput
	output corpusOutput
	noise  corpus.Noise
	report string

	confusions string
}

func newNoiseCommand() *cobra.Command {
	n := &noising{noise: corpus.DefaultNoise()}
	command := &cobra.Command{
		Use:   "noise (--source FILE --target FILE | --tsv FILE | --text FILE) [-o OUTPUT]",
		Short: "Add typing errors and careless case and punctuation",
		Long: `Make sentences as careless as people write, so that a student learns to translate that too. Capitals and missing
marks at the end go to both sides, typing errors and small letters to the source side. What happens to a line
depends on the seed and its number alone. No white space comes or goes, so that word alignments stay valid.

With --confusions, words are exchanged that writers take for each other. Sources with such errors and typing errors, and
their own text as target, are what a model learns to correct from.`,
		Example: `  sluice corpus noise --tsv train.tsv.gz --seed 2 --typos 0.2 -o noisy.tsv.gz`,
		Args:    exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := errors.Join(n.input.check("corpus noise"), n.output.check(command.Flags(), n.input.single(), append(n.input.paths(), n.confusions), n.report)); err != nil {
				return err
			}
			if err := n.noise.Check(); err != nil {
				return usageError{err}
			}
			if err := n.readConfusions(); err != nil {
				return err
			}
			return sortCorpusError(command.Context(), n.run(command.Context(), command.OutOrStdout(), command.ErrOrStderr()))
		},
	}
	input, kinds, output := newGroup("Input options"), newGroup("Noise options"), newGroup("Output options")
	n.input.addPair(input.flags)
	n.input.addText(input.flags)
	kinds.flags.Uint64Var(&n.noise.Seed, "seed", 1, "seed; take another one for another epoch")
	kinds.flags.Float64Var(&n.noise.Upper, "upper", n.noise.Upper, "share of lines in capitals")
	kinds.flags.Float64Var(&n.noise.Title, "title", n.noise.Title, "share of lines in which each word begins with a capital")
	kinds.flags.Float64Var(&n.noise.Lower, "lower", n.noise.Lower, "share of lines whose source is in small letters")
	kinds.flags.Float64Var(&n.noise.Unpunctuated, "unpunctuated", n.noise.Unpunctuated, "share of lines that lose the mark at the end, if both sides have one")
	kinds.flags.Float64Var(&n.noise.Typos, "typos", n.noise.Typos, "share of lines with typing errors in the source")
	kinds.flags.Float64Var(&n.noise.TypoRate, "typo-rate", n.noise.TypoRate, "share of words with an error in such a line; one at least")
	kinds.flags.StringVar(&n.confusions, "confusions", "", "`FILE` with words that writers take for each other, a set on each line: source words become another of their set")
	kinds.flags.Float64Var(&n.noise.ConfusionRate, "confusion-rate", 0, "share of such words that do")
	n.output.add(output.flags)
	output.flags.StringVar(&n.report, "report", "", "`FILE` for the counts as JSON")
	addGroups(command, input, kinds, output)
	return command
}

// readConfusions reads sets of words.
func (n *noising) readConfusions() (err error) {
	if (n.confusions == "") != (n.noise.ConfusionRate == 0) {
		return usageErrorf("--confusions and --confusion-rate belong together")
	}
	if n.confusions == "" {
		return nil
	}
	text, err := openLines(n.confusions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	if n.noise.Confusions, err = corpus.ReadConfusions(text.lines); err != nil {
		return inputError{fmt.Errorf("%s: %w", n.confusions, err)}
	}
	return nil
}

func (n *noising) run(ctx context.Context, stdout, stderr io.Writer) error {
	var counts corpus.Changes
	err := n.output.write(stdout, n.input.single(), func(put func(corpus.Pair) error) error {
		return n.input.each(ctx, func(p corpus.Pair) error {
			if n.input.single() {
				p.Target = p.Source // where both sides are looked at, the one there is counts for both
			}
			n.noise.Apply(uint64(counts.Lines), &p, &counts)
			return put(p)
		})
	})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stderr)
	for _, line := range []struct {
		what  string
		count int64
	}{
		{"lines", counts.Lines}, {"upper", counts.Upper}, {"title", counts.Title}, {"lower", counts.Lower},
		{"unpunctuated", counts.Unpunctuated}, {"typos", counts.Typos}, {"confused", counts.Confused},
	} {
		fmt.Fprintf(out, "%-12s %s\n", line.what, formatCount(line.count))
	}
	if err := out.Flush(); err != nil {
		return outputError{err}
	}
	return writeReport(stdout, n.report, counts)
}
