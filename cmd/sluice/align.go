package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/train/align"
	"github.com/sluice-mt/sluice/train/corpus"
	"github.com/sluice-mt/sluice/translator/shortlist"
)

// alignment is one run of "sluice align".
type alignment struct {
	input              corpusInput
	vocabs             []string
	maxLength          int
	output, direction  string
	lexicon, shortlist string
	symmetrization     string
	tensionLearning    string
	overwrite, quiet   bool
	parameters         shortlist.Parameters
	learning           align.Options
	memory             int64 // MiB

	logger         *slog.Logger
	method         align.Method
	source, target words
	both           sides
}

// words numbers what is aligned of one side: words, or the pieces of a vocabulary.
type words struct {
	encode func(line string, dst []int32) []int32
	name   func(id int32) string
}

func newAlignCommand() *cobra.Command {
	a := &alignment{learning: align.DefaultOptions()}
	command := &cobra.Command{
		Use:   "align (--source FILE --target FILE | --tsv FILE) [-o OUTPUT]",
		Short: "Align the words of a parallel text",
		Long: `Find out which words of a sentence its translation's words come from, as fast_align does: IBM model 2 that
prefers the diagonal (Dyer, Chahuneau and Smith 2013), in both directions, joined by one of the usual heuristics.
The output has a line for each pair, such as "0-0 1-2": positions of source and target words from 0. A pair with an
empty or a too long side gets an empty line.

Words are what white space separates: tokenise before. With --vocabs the pieces of these vocabularies are aligned
instead, which is what "guided-alignment" of "sluice train" and shortlists need.

The result does not depend on --cpu-threads and --memory. Temporary files take about 3 bytes for each word of the text,
and 16 for each pair of words where the table is too small for all of them.`,
		Example: `  sluice align --source train.tok.en --target train.tok.de -o train.align.gz
  sluice align --tsv train.tsv.gz -v vocab.spm -o train.align --shortlist lex.bin --first 50 --best 50`,
		Args: exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := a.check(command.Flags(), command.ErrOrStderr()); err != nil {
				return err
			}
			return sortAlignmentError(command.Context(), a.run(command.Context(), command.OutOrStdout()))
		},
	}
	addGroups(command, a.groups()...)
	return command
}

func (a *alignment) groups() []flagGroup {
	input, output, model, choice, resources := newGroup("Input options"), newGroup("Output options"), newGroup("Model options"),
		newGroup("Options for --shortlist"), newGroup("Resources")
	a.input.addPair(input.flags)
	addVocabs(input.flags, &a.vocabs)
	input.flags.IntVar(&a.maxLength, "max-length", 200, "skip pairs with a sentence of more words")
	output.flags.StringVarP(&a.output, "output", "o", "", "`FILE` for the links, compressed as its suffix says; - is standard output, and the default unless a lexicon or shortlist is asked for")
	output.flags.StringVar(&a.direction, "direction", "both", "both, forward (each target word has at most one link) or reverse")
	output.flags.StringVar(&a.symmetrization, "symmetrize", align.GrowDiagFinalAnd.String(), "how both directions are joined: intersection, union, grow-diag, grow-diag-final or grow-diag-final-and")
	output.flags.StringVar(&a.lexicon, "lexicon", "", "`FILE` for a table of target word, source word and probability, counted from the links: lex.s2t of Marian")
	output.flags.StringVar(&a.shortlist, "shortlist", "", "`FILE` for a shortlist in binary form, chosen from that table; needs --vocabs")
	output.flags.BoolVar(&a.overwrite, "overwrite", false, "replace outputs that exist")
	output.flags.BoolVar(&a.quiet, "quiet", false, "print warnings and errors only")
	l := &a.learning
	model.flags.IntVar(&l.Iterations, "iterations", l.Iterations, "times that the text is read in each direction; the last time aligns")
	model.flags.Float64Var(&l.Tension, "tension", l.Tension, "how strongly words are expected near the diagonal, to begin with")
	model.flags.StringVar(&a.tensionLearning, "learn-tension", align.Customary.String(), "how the tension is learnt: customary (as fast_align does), exact (as its paper says) or fixed (not at all)")
	model.flags.Float64Var(&l.Null, "null", l.Null, "probability that a word comes from nowhere")
	model.flags.Float64Var(&l.Alpha, "alpha", l.Alpha, "parameter of the Dirichlet prior on translations; 0 is none (maximum likelihood)")
	addParameters(choice.flags, &a.parameters)
	resources.flags.Int64Var(&a.memory, "memory", l.Memory>>20, "MiB for the table of word pairs; with less of it than the text needs, more time is taken")
	countVar(resources.flags, &l.Workers, "cpu-threads", mostWorkers, "workers, one for each core")
	resources.flags.StringVar(&l.Temporary, "tempdir", "", "`FOLDER` for temporary files")
	return []flagGroup{input, output, model, choice, resources}
}

func (a *alignment) check(flags *pflag.FlagSet, stderr io.Writer) error {
	if err := a.input.check("align"); err != nil {
		return err
	}
	var err error
	if a.logger, err = newLogger(stderr, "text", "info", a.quiet); err != nil {
		return err
	}
	if a.method, err = align.ParseMethod(a.symmetrization); err != nil {
		return usageError{err}
	}
	if a.learning.Learning, err = align.ParseLearning(a.tensionLearning); err != nil {
		return usageError{err}
	}
	if a.output == "" && a.lexicon == "" && a.shortlist == "" {
		a.output = "-"
	}
	a.learning.Memory = a.memory << 20
	switch a.direction {
	case "both", "forward", "reverse":
	default:
		return usageErrorf("--direction %s: want both, forward or reverse", a.direction)
	}
	if err := a.checkTogether(flags); err != nil {
		return err
	}
	if err := errors.Join(checkMemory(a.memory), checkTempdir(a.learning.Temporary)); err != nil {
		return err
	}
	if err := a.learning.Check(); err != nil {
		return usageError{err}
	}
	if err := checkOutputs(a.overwrite, []string{a.output, a.lexicon, a.shortlist}, append(a.input.paths(), a.vocabs...)); err != nil {
		return err
	}
	return a.openVocabularies()
}

// checkTogether refuses options that contradict each other, or have no effect without others.
func (a *alignment) checkTogether(flags *pflag.FlagSet) error {
	switch {
	case a.direction != "both" && flags.Changed("symmetrize"):
		return usageErrorf("--symmetrize joins both directions, and --direction %s asks for one: leave one of the two out", a.direction)
	case a.lexicon == "-" || a.shortlist == "-":
		return usageErrorf("--lexicon and --shortlist are files, which - is not: standard output is for links (--output -)")
	case a.shortlist != "" && len(a.vocabs) == 0:
		return usageErrorf("--shortlist needs --vocabs: a shortlist is of the pieces of a vocabulary")
	case a.shortlist != "":
		return checkParameters(a.parameters)
	}
	for _, option := range []string{"first", "best", "threshold"} {
		if flags.Changed(option) {
			return usageErrorf("--%s is for --shortlist: name the file to write", option)
		}
	}
	return nil
}

// openVocabularies decides what words are.
func (a *alignment) openVocabularies() error {
	if len(a.vocabs) == 0 {
		source, target := align.NewWords(align.MaxWords), align.NewWords(align.MaxWords)
		a.source, a.target = words{source.Encode, source.Word}, words{target.Encode, target.Word}
		return nil
	}
	var err error
	if a.both, err = openSides(a.vocabs); err != nil {
		return err
	}
	a.source, a.target = words{a.both.source.Encode, a.both.source.Piece}, words{a.both.target.Encode, a.both.target.Piece}
	return nil
}

func (a *alignment) run(ctx context.Context, stdout io.Writer) (err error) {
	text, err := align.NewCorpus(a.maxLength, a.learning.Temporary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	var source, target []int32
	err = a.input.each(ctx, func(p corpus.Pair) error {
		source, target = a.source.encode(strings.TrimSpace(p.Source), source[:0]), a.target.encode(strings.TrimSpace(p.Target), target[:0])
		return text.Add(source, target)
	})
	if err != nil {
		return err
	}
	a.logger.Info("read", "sentences", text.Sentences, "skipped", text.Skipped, "source words", text.SourceWords, "target words", text.TargetWords)
	var learnt [2]*align.Links
	for k, direction := range []string{"forward", "reverse"} {
		if a.direction != "both" && a.direction != direction {
			continue
		}
		if learnt[k], err = align.Learn(ctx, text, direction == "reverse", a.learning, a.reporter(direction)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, learnt[k].Close()) }()
	}
	return a.write(ctx, stdout, text, learnt[0], learnt[1])
}

func (a *alignment) reporter(direction string) func(align.Iteration) {
	return func(i align.Iteration) {
		a.logger.Info("aligning", "direction", direction, "iteration", i.Number, "bits/word", round(i.Entropy, 0.001),
			"null", round(i.Null, 0.001), "tension", round(i.Tension, 0.001), "parts", i.Parts)
	}
}

// write goes through the links once, for all outputs.
func (a *alignment) write(ctx context.Context, stdout io.Writer, text *align.Corpus, forward, reverse *align.Links) (err error) {
	var table *align.Lexicon
	if a.lexicon != "" || a.shortlist != "" {
		table = align.NewLexicon(a.learning.Temporary, a.learning.Memory)
		defer func() { err = errors.Join(err, table.Close()) }()
	}
	each := func(out io.Writer) error {
		var line []byte
		return align.Each(ctx, text, forward, reverse, a.method, func(source, target []int32, links []align.Link) error {
			if out != nil {
				line = append(align.AppendPharaoh(line[:0], links), '\n')
				if _, err := out.Write(line); err != nil {
					return outputError{err}
				}
			}
			if table == nil {
				return nil
			}
			return table.Add(source, target, links)
		})
	}
	if a.output == "" {
		err = each(nil)
	} else {
		err = writeTo(stdout, a.output, each)
	}
	if err != nil || table == nil {
		return err
	}
	return a.writeTable(table)
}

// writeTable writes the lexicon, and a shortlist that is chosen from it.
func (a *alignment) writeTable(table *align.Lexicon) (err error) {
	path := a.lexicon
	if path == "" {
		folder, err := os.MkdirTemp(a.learning.Temporary, "sluice-align-*")
		if err != nil {
			return outputError{err}
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
		path = folder + "/lex.s2t"
	}
	err = writeFile(path, func(w io.Writer) error { return table.WriteText(w, a.source.name, a.target.name) })
	if err != nil || a.shortlist == "" {
		return err
	}
	list, err := readShortlist(path, a.both.options(a.parameters))
	if err != nil {
		return err
	}
	return writeFile(a.shortlist, func(w io.Writer) error {
		_, err := list.WriteTo(w)
		return err
	})
}

// sortAlignmentError sorts an error by what the user has to look at.
func sortAlignmentError(ctx context.Context, err error) error {
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("%w: nothing was written", errInterrupted)
	case errors.Is(err, align.ErrCorpus):
		return inputError{err}
	case errors.Is(err, align.ErrOptions):
		return usageError{err}
	}
	return sortTemporaryError(err)
}
