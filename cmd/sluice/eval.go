package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/cputime"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/internal/score"
	"github.com/sluice-mt/sluice/train/report"
	"github.com/sluice-mt/sluice/translator"
	"github.com/sluice-mt/sluice/translator/model"
)

// evaluation is one run of "sluice eval".
type evaluation struct {
	model      modelFlags
	search     searchFlags
	batch      batchFlags
	name       string
	sources    []string
	references []string
	keep       string
	asJSON     bool
}

func newEvalCommand() *cobra.Command {
	e := new(evaluation)
	command := &cobra.Command{
		Use:   "eval -m MODEL --source TEXT --reference TEXT [flags]",
		Short: "Translate test sets and score them",
		Long: `Translate test sets with a model and print BLEU and chrF, as sacreBLEU computes them with its defaults, and how
fast it was. --source and --reference are given once for each test set, in the same order.

What --json prints about several models can be collected in a file, from which "sluice report" makes a table
and a chart of quality against speed. --keep leaves the translations, for "sluice score bleu --paired".`,
		Example: `  sluice eval -m student.npz --source test.en --reference test.de
  sluice eval -m student.npz --precision int8 --name int8 --source a.en --reference a.de --source b.en --reference b.de --json >> models.json
  sluice report student.npz --evaluation models.json -o report.html`,
		Args: exactArguments(0, "no arguments: test sets are given with --source and --reference"),
		RunE: func(command *cobra.Command, _ []string) error { return e.run(command) },
	}
	own := newGroup("Evaluation")
	own.flags.StringArrayVar(&e.sources, "source", nil, "`FILE` of a test set, a sentence a line; may be repeated")
	own.flags.StringArrayVar(&e.references, "reference", nil, "`FILE` with its translation, line by line; once for each --source")
	own.flags.StringVar(&e.name, "name", "", "what to call the model (default its file's name)")
	own.flags.StringVar(&e.keep, "keep", "", "write the translations into this `FOLDER`, as NAME.SET.txt")
	own.flags.BoolVar(&e.asJSON, "json", false, "print JSON")
	addGroups(command, own, e.model.group(), e.search.group(), e.batch.group())
	addMarianFlags(command.Flags())
	return command
}

func (e *evaluation) run(command *cobra.Command) error {
	if len(e.sources) == 0 || len(e.sources) != len(e.references) {
		return usageErrorf("eval needs at least one --source, and one --reference for each: there are %d and %d", len(e.sources), len(e.references))
	}
	if err := applyEnvironment(command.Flags(), os.LookupEnv); err != nil {
		return err
	}
	if _, err := e.model.applyConfig(command.Flags()); err != nil {
		return err
	}
	sets, err := e.readSets()
	if err != nil {
		return err
	}
	parts, err := buildEngine(command.Context(), &e.model, &e.search, &e.batch, runtime.GOMAXPROCS(0), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer parts.models.close()
	result := e.describe(parts)
	if err := e.checkKept(result.Name, sets); err != nil {
		return err
	}
	engine, err := translator.New(parts.config)
	if err != nil {
		return usageError{err}
	}
	defer engine.Close()
	for _, set := range sets {
		done, err := e.evaluate(command.Context(), engine, result.Name, set)
		if err != nil {
			return err
		}
		result.Sets = append(result.Sets, done)
	}
	if e.asJSON {
		return writeJSON(command.OutOrStdout(), result)
	}
	return printEvaluation(command.OutOrStdout(), &result)
}

// A testSet is sentences with their reference translations.
type testSet struct {
	name              string
	words             int64
	lines, references []string
}

func (e *evaluation) readSets() ([]testSet, error) {
	var sets []testSet
	for i, path := range e.sources {
		lines, words, err := readLines(path)
		if err != nil {
			return nil, err
		}
		references, err := readSegments(e.references[i])
		if err != nil {
			return nil, err
		}
		if err := sameLength(path, lines, e.references[i], references); err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		sets = append(sets, testSet{strings.TrimSuffix(name, filepath.Ext(name)), words, lines, references})
	}
	return sets, nil
}

// describe says what is evaluated. An ensemble is the sum of its models.
func (e *evaluation) describe(parts *engineParts) report.Evaluation {
	r := report.Evaluation{
		Name: e.name, Model: strings.Join(e.model.models, " "), Precision: parts.models.arithmetic(),
		Workers: parts.workers(),
	}
	if r.Name == "" {
		r.Name = filepath.Base(e.model.models[0])
	}
	var stored []string
	for i, path := range e.model.models {
		of := parts.models.models[i].Report()
		r.Parameters += of.Parameters
		r.Bytes += fileSize(path)
		stored = append(stored, storedAs(of))
	}
	r.Stored = strings.Join(stored, " ")
	return r
}

// storedAs names the type of most weights.
func storedAs(of model.Report) string {
	if len(of.Stored) == 0 {
		return ""
	}
	return of.Stored[0].Type.String()
}

// evaluate translates a test set and scores the translation.
func (e *evaluation) evaluate(ctx context.Context, engine *translator.Engine, name string, set testSet) (report.Set, error) {
	begin, cpu := time.Now(), cputime.Process()
	translations, err := translateLines(ctx, engine, set.lines)
	if err != nil {
		return report.Set{}, fmt.Errorf("%s: %w", set.name, err)
	}
	done := report.Set{Name: set.name, Lines: len(set.lines), Words: set.words, Seconds: time.Since(begin).Seconds()}
	done.CPUSeconds = (cputime.Process() - cpu).Seconds()
	bleu, err := score.BLEU(translations, [][]string{set.references}, score.BLEUOptions{})
	if err != nil {
		return done, inputError{err}
	}
	chrf, err := score.CHRF(translations, [][]string{set.references}, score.CHRFOptions{})
	if err != nil {
		return done, inputError{err}
	}
	done.BLEU, done.CHRF = bleu.Score, chrf.Score
	return done, e.keepTranslations(name, set.name, translations)
}

// translateLines translates lines all at once and returns the translations in order.
func translateLines(ctx context.Context, engine *translator.Engine, lines []string) ([]string, error) {
	translations, results := make([]string, len(lines)), make(chan error, len(lines))
	for i, line := range lines {
		engine.Submit(job.Segment{Text: line, Done: func(result job.Result) {
			if result.Err == nil && len(result.Hypotheses) > 0 {
				translations[i] = result.Hypotheses[0].Text
			}
			results <- result.Err
		}})
	}
	engine.Flush()
	for range lines {
		select {
		case err := <-results:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, errors.Join(errInterrupted, ctx.Err())
		}
	}
	return translations, nil
}

func (e *evaluation) keepTranslations(name, set string, translations []string) error {
	if e.keep == "" {
		return nil
	}
	return writeFile(e.kept(name, set), func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(translations, "\n")+"\n")
		return err
	})
}

// kept is the file that --keep leaves of a set.
func (e *evaluation) kept(name, set string) string { return filepath.Join(e.keep, name+"."+set+".txt") }

// checkKept refuses translations that would take each other's place, or that of a text, before anything is translated.
func (e *evaluation) checkKept(name string, sets []testSet) error {
	if e.keep == "" {
		return nil
	}
	if filepath.Base(name) != name {
		return usageErrorf("--name %s: files of --keep are named after it, so it cannot be a path", name)
	}
	var outputs []string
	for _, set := range sets {
		outputs = append(outputs, e.kept(name, set.name))
	}
	if err := checkDistinct(true, outputs, slices.Concat(e.sources, e.references)); err != nil {
		return err
	}
	if err := os.MkdirAll(e.keep, 0o777); err != nil {
		return outputError{err}
	}
	return checkOutputs(true, outputs, slices.Concat(e.sources, e.references))
}

func printEvaluation(to io.Writer, e *report.Evaluation) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s parameters, %s bytes as %s, %s arithmetic, workers: %d\n\n",
		e.Name, grouped(e.Parameters), grouped(e.Bytes), e.Stored, e.Precision, e.Workers)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "test set\tlines\twords\twords/s\tBLEU\tchrF\t\n")
	for _, s := range e.Sets {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f\t%.2f\t\n",
			s.Name, grouped(int64(s.Lines)), grouped(s.Words), grouped(int64(perSecond(s.Words, s.Seconds))), s.BLEU, s.CHRF)
	}
	if len(e.Sets) > 1 {
		fmt.Fprintf(w, "mean\t\t\t%s\t%.2f\t%.2f\t\n", grouped(int64(e.WordsPerSecond())), e.BLEU(), e.CHRF())
	}
	_ = w.Flush() // into memory
	return writeOutput(to, b.String())
}
