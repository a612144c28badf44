package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-mt/sluice/train/corpus"
)

// cleaning is one run of "sluice corpus clean".
type cleaning struct {
	input     corpusInput
	output    corpusOutput
	resources corpusResources
	rules     corpus.Rules
	threads   int

	unicode                    string
	sourceScript, targetScript []string
	samples                    [3][]string // of source, target and other languages
	unique                     string
	loose                      bool
	rejected, report           string
}

// sampleLimit is how many bytes of a sample are read: more of them teach nothing new about a language.
const sampleLimit = 32 << 20

func newCleanCommand() *cobra.Command {
	c := &cleaning{rules: corpus.Rules{
		Normalise: corpus.Normaliser{Controls: true, Spaces: true}, MinWords: 1, MaxWords: 150, MaxCharacters: 2000, MaxWord: 80, MaxRatio: 3,
		NoCopies: true, MinLetters: 0.5, MinScript: 0.9, MaxLead: corpus.DefaultMaxLead,
	}}
	command := &cobra.Command{
		Use:   "clean (--source FILE --target FILE | --tsv FILE | --text FILE) [-o OUTPUT]",
		Short: "Normalise characters, and leave out what is no good",
		Long: `Normalise the characters of sentence pairs and leave out those that a model learns nothing good from. The order
stays. How many lines were left out for which reason is printed at the end; --report writes it as JSON, --rejected
the lines. Reasons are looked for in this order, and the first counts: damaged (not UTF-8), empty, short, long,
long-word, ratio, copy, letters, script, language, duplicate.

Languages are told apart by samples that you give, text that is surely of them: each side must not look more like the
language of another sample than like its own. A language without a sample is not recognised.

Finding duplicates needs temporary files of the size of what is kept; with --unique none nothing is kept on disk.
Memory is up to twice --memory, some 60 MiB, 2 MiB for each language, and a bit for each line.`,
		Example: `  sluice corpus clean --source raw.en.gz --target raw.de.gz -o clean.tsv.zst --report counts.json
  sluice corpus clean --tsv raw.tsv --source-script Latin --target-script Cyrillic --sample-source mono.en \
    --sample-target mono.ru --sample-other mono.uk --rejected rejected.tsv.gz -o clean.tsv`,
		Args: exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := c.check(command.Flags()); err != nil {
				return err
			}
			return sortCorpusError(command.Context(), c.run(command.Context(), command.OutOrStdout(), command.ErrOrStderr()))
		},
	}
	addGroups(command, c.groups()...)
	return command
}

func (c *cleaning) groups() []flagGroup {
	input, characters, lengths, content, languages, duplicates, output, resources := newGroup("Input options"), newGroup("Characters"),
		newGroup("Lengths (0 is no bound)"), newGroup("Content"), newGroup("Languages"), newGroup("Duplicates"), newGroup("Output options"), newGroup("Resources")
	c.input.addPair(input.flags)
	c.input.addText(input.flags)
	r := &c.rules
	characters.flags.StringVar(&c.unicode, "unicode", "nfc", "form of characters: nfc, nfkc (also replaces ligatures, full-width letters and the like) or none")
	characters.flags.BoolVar(&r.Normalise.Controls, "controls", true, "remove characters that cannot be seen")
	characters.flags.BoolVar(&r.Normalise.Spaces, "spaces", true, "make white space single spaces, and none at the ends")
	characters.flags.BoolVar(&r.Normalise.Punctuation, "punctuation", false, "replace typographic quotation marks, dashes and ellipses by those of ASCII")
	lengths.flags.IntVar(&r.MinWords, "min-words", r.MinWords, "least number of words of a side; words are what white space separates")
	lengths.flags.IntVar(&r.MaxWords, "max-words", r.MaxWords, "greatest number of words")
	lengths.flags.IntVar(&r.MaxCharacters, "max-characters", r.MaxCharacters, "greatest number of characters of a side")
	lengths.flags.IntVar(&r.MaxWord, "max-word", r.MaxWord, "greatest number of characters of a word; for scripts without spaces, 0")
	lengths.flags.Float64Var(&r.MaxRatio, "max-ratio", r.MaxRatio, fmt.Sprintf("characters of the longer side to those of the shorter, both with %d added", corpus.RatioOffset))
	content.flags.BoolVar(&r.NoCopies, "no-copies", r.NoCopies, "leave out pairs whose sides are the same, but for case")
	content.flags.Float64Var(&r.MinLetters, "min-letters", r.MinLetters, "least share of letters among the characters of a side")
	content.flags.StringSliceVar(&c.sourceScript, "source-script", nil, "Unicode's names of the scripts of the source side, such as Latin or Han,Hiragana,Katakana")
	content.flags.StringSliceVar(&c.targetScript, "target-script", nil, "those of the target side")
	content.flags.Float64Var(&r.MinScript, "min-script", r.MinScript, "least share of these scripts among the letters")
	languages.flags.StringArrayVar(&c.samples[0], "sample-source", nil, fmt.Sprintf("`FILE` of text in the source language, of which %d MiB are read; may be repeated", sampleLimit>>20))
	languages.flags.StringArrayVar(&c.samples[1], "sample-target", nil, "`FILE` of text in the target language; may be repeated")
	languages.flags.StringArrayVar(&c.samples[2], "sample-other", nil, "`FILE` of text in another language; may be repeated, a language each")
	languages.flags.Float64Var(&r.MaxLead, "max-lead", r.MaxLead, "by how much another language may fit better: logarithm of the probabilities' ratio, for each n-gram")
	duplicates.flags.StringVar(&c.unique, "unique", "pair", "leave out later lines with the same pair, source or target; or none")
	duplicates.flags.BoolVar(&c.loose, "loose", false, "compare letters and digits only, without case")
	c.output.add(output.flags)
	output.flags.StringVar(&c.rejected, "rejected", "", "`FILE` for what is left out: reason, tab and the line")
	output.flags.StringVar(&c.report, "report", "", "`FILE` for the counts as JSON")
	countVar(resources.flags, &c.threads, "cpu-threads", mostWorkers, "workers, one for each core")
	c.resources.add(resources.flags)
	return []flagGroup{input, characters, lengths, content, languages, duplicates, output, resources}
}

func (c *cleaning) check(flags *pflag.FlagSet) error {
	if err := errors.Join(c.input.check("corpus clean"), c.resources.check()); err != nil {
		return err
	}
	inputs := append(c.input.paths(), slices.Concat(c.samples[:]...)...)
	if err := c.output.check(flags, c.input.single(), inputs, c.rejected, c.report); err != nil {
		return err
	}
	if c.threads == 0 {
		c.threads = runtime.GOMAXPROCS(0)
	}
	forms := map[string]corpus.Form{"nfc": corpus.NFC, "nfkc": corpus.NFKC, "none": corpus.Unchanged}
	form, known := forms[strings.ToLower(c.unicode)]
	if !known {
		return usageErrorf("--unicode %s: want nfc, nfkc or none", c.unicode)
	}
	c.rules.Normalise.Form = form
	c.rules.Single = c.input.single()
	c.rules.Scripts = [2][]string{c.sourceScript, c.targetScript}
	return c.checkSides()
}

// checkSides refuses options of a target side that does not exist, and samples that have nothing to be compared with.
func (c *cleaning) checkSides() error {
	source, target, other := len(c.samples[0]) > 0, len(c.samples[1]) > 0, len(c.samples[2]) > 0
	switch {
	case c.rules.Single && (c.targetScript != nil || target || c.unique == "target"):
		return usageErrorf("a text of one language has no target side")
	case c.rules.Single && source != other:
		return usageErrorf("to tell a language from others, give --sample-source and --sample-other")
	case !c.rules.Single && (source != target || other && !source):
		return usageErrorf("to tell languages apart, give --sample-source and --sample-target")
	}
	if c.rules.Single && c.unique == "pair" {
		c.unique = "source"
	}
	if c.unique == "none" {
		return nil
	}
	if _, err := corpus.ParseKey(c.unique); err != nil {
		return usageError{err}
	}
	return nil
}

// identifier learns the languages of the samples.
func (c *cleaning) identifier() (*corpus.Identifier, error) {
	if len(c.samples[0]) == 0 {
		return nil, nil
	}
	languages := [][]string{c.samples[0]}
	if !c.rules.Single {
		languages = append(languages, c.samples[1])
	}
	for _, path := range c.samples[2] {
		languages = append(languages, []string{path})
	}
	learner := corpus.NewLanguageLearner(len(languages))
	for language, paths := range languages {
		for _, path := range paths {
			if err := learnSample(learner, language, path); err != nil {
				return nil, err
			}
		}
	}
	return learner.Identifier(), nil
}

var errEnough = errors.New("enough was read")

func learnSample(learner *corpus.LanguageLearner, language int, path string) error {
	size := 0
	err := eachLine(path, func(line string) error {
		learner.Add(language, line)
		if size += len(line); size > sampleLimit {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil && size == 0:
		return inputError{fmt.Errorf("%s: no text to learn a language from", displayName(path))}
	}
	return err
}

func (c *cleaning) run(ctx context.Context, stdout, stderr io.Writer) error {
	var err error
	if c.rules.Identifier, err = c.identifier(); err != nil {
		return err
	}
	c.rules.Languages = [2]int{0, min(1, len(c.samples[1]))}
	cleaner, err := corpus.NewCleaner(c.rules)
	if err != nil {
		return err
	}
	counts := corpus.NewCounts()
	err = c.output.write(stdout, c.rules.Single, func(put func(corpus.Pair) error) error {
		return c.withRejected(stdout, func(reject func(corpus.Pair, corpus.Reason) error) error {
			return c.filter(ctx, cleaner, counts, put, reject)
		})
	})
	if err != nil {
		return err
	}
	if err := printCounts(stderr, counts); err != nil {
		return outputError{err}
	}
	return writeReport(stdout, c.report, counts)
}

// withRejected opens the file for what is left out, if one is named.
func (c *cleaning) withRejected(stdout io.Writer, f func(reject func(corpus.Pair, corpus.Reason) error) error) error {
	if c.rejected == "" {
		return f(func(corpus.Pair, corpus.Reason) error { return nil })
	}
	return writeTo(stdout, c.rejected, func(w io.Writer) error {
		return f(func(p corpus.Pair, reason corpus.Reason) error {
			return putLine(w, string(reason)+"\t"+row(p, c.rules.Single))
		})
	})
}

// filter cleans, and then leaves out duplicates.
func (c *cleaning) filter(ctx context.Context, cleaner *corpus.Cleaner, counts *corpus.Counts, put func(corpus.Pair) error, reject func(corpus.Pair, corpus.Reason) error) (err error) {
	keep := put
	var unique *corpus.Unique
	if c.unique != "none" {
		key, err := corpus.ParseKey(c.unique)
		if err != nil {
			return err
		}
		key.Loose = c.loose
		if unique, err = corpus.NewUnique(key, c.resources.tempdir, c.resources.memory<<20); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unique.Close()) }()
		keep = unique.Add
	}
	err = cleaner.Each(ctx, c.threads, c.input.each, func(p corpus.Pair, reason corpus.Reason) error {
		counts.Add(reason)
		if reason != corpus.Kept {
			return reject(p, reason)
		}
		return keep(p)
	})
	if err != nil || unique == nil {
		return err
	}
	return unique.Each(func(p corpus.Pair, duplicate bool) error {
		if ctx.Err() != nil {
			return errInterrupted
		}
		if !duplicate {
			return put(p)
		}
		counts.Reject(corpus.Duplicate)
		return reject(p, corpus.Duplicate)
	})
}

// printCounts prints what became of the lines.
func printCounts(w io.Writer, counts *corpus.Counts) error {
	out := bufio.NewWriter(w)
	line := func(what string, n int64) {
		fmt.Fprintf(out, "%-10s %12s %7.2f %%\n", what, formatCount(n), 100*float64(n)/max(1, float64(counts.Read)))
	}
	line("read", counts.Read)
	line("kept", counts.Kept)
	for _, reason := range counts.Found() {
		line(string(reason), counts.Rejected[reason])
	}
	return out.Flush()
}
