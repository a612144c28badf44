package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/score"
)

// newScoreCommand returns the commands that score translations.
func newScoreCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "score",
		Short: "Score translations as sacreBLEU does, and corrections as the MaxMatch scorer does",
		Long: `Score a translation against references, with the numbers and signatures of sacreBLEU ` + score.SacreBLEU + `. The options
have the names that the sacrebleu program gives them.`,
		Args: needsSubcommand,
		RunE: showHelp,
		// The options belong to the commands below; a wrong name of one of those is what has to be told.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
	}
	command.AddCommand(newBLEUCommand(), newCHRFCommand(), newM2Command())
	return command
}

// scoreFlags are the options that all metrics have.
type scoreFlags struct {
	input         string
	format        string
	json          bool
	scoreOnly     bool
	width         int
	sentenceLevel bool
	confidence    bool
	samples       int
	paired        []string
	pairedSamples int
	seed          uint64
}

func (f *scoreFlags) groups(metric flagGroup) []flagGroup {
	input, output, tests := newGroup("Input options"), newGroup("Output options"), newGroup("Significance options")
	input.flags.StringVarP(&f.input, "input", "i", "-", "translation to score; - is standard input")
	output.flags.StringVarP(&f.format, "format", "f", "text", "text or json")
	output.flags.BoolVar(&f.json, "json", false, "the same as --format json")
	output.flags.BoolVarP(&f.scoreOnly, "score-only", "b", false, "print the number alone")
	output.flags.IntVarP(&f.width, "width", "w", 1, "decimal places")
	output.flags.BoolVar(&f.sentenceLevel, "sentence-level", false, "score every segment by itself (-sl)")
	tests.flags.BoolVar(&f.confidence, "confidence", false, "give the 95 % confidence interval, by bootstrap (-ci)")
	tests.flags.IntVar(&f.samples, "confidence-n", score.Samples, "samples for --confidence (-cin)")
	tests.flags.StringArrayVar(&f.paired, "paired", nil,
		"another translation to compare with --input, the baseline, by paired bootstrap; may be repeated")
	tests.flags.IntVar(&f.pairedSamples, "paired-bs-n", score.Samples, "samples for --paired (-pbsn)")
	tests.flags.Uint64Var(&f.seed, "seed", score.Seed, "seed of the samples")
	return []flagGroup{input, metric, tests, output}
}

func (f *scoreFlags) check() error {
	if f.json {
		f.format = "json"
	}
	switch {
	case f.format != "text" && f.format != "json":
		return usageErrorf("--format %s: want text or json", f.format)
	case f.width < 0 || f.width > 15:
		return usageErrorf("--width %d: want 0 to 15 decimal places", f.width)
	case f.samples < 1 || f.pairedSamples < 1:
		return usageErrorf("at least one sample is needed")
	case f.sentenceLevel && (f.confidence || len(f.paired) > 0):
		return usageErrorf("--sentence-level cannot be combined with --confidence or --paired: one segment is no sample")
	case f.confidence && len(f.paired) > 0:
		return usageErrorf("--paired gives confidence intervals itself: leave --confidence out")
	}
	return nil
}

// A scored is a score that can be printed.
type scored interface {
	Format(places int) string
	JSON(places int) ([]byte, error)
}

// A scorer is a metric with its options.
type scorer struct {
	metric score.Metric
	name   string // for people
	// corpus and sentence return the score and its points; interval, if not nil, is printed with it.
	corpus   func(hypotheses []string, references [][]string, interval *score.Interval) (scored, float64, error)
	sentence func(hypothesis string, references []string) (scored, float64, error)
}

func newBLEUCommand() *cobra.Command {
	var f scoreFlags
	var options score.BLEUOptions
	var tokenizer, smoothing string
	metric := newGroup("BLEU options")
	metric.flags.StringVar(&tokenizer, "tokenize", string(score.Tokenize13a), "tokeniser: 13a, intl, zh, char or none (-tok)")
	metric.flags.StringVarP(&smoothing, "smooth-method", "s", string(score.SmoothExp), "smoothing: exp, floor, add-k or none")
	metric.flags.Float64Var(&options.SmoothValue, "smooth-value", 0, "value for floor (default 0.1) and add-k (default 1) (-sv)")
	metric.flags.BoolVar(&options.Lowercase, "lowercase", false, "ignore case (-lc)")
	command := newMetricCommand("bleu", "Score with BLEU", &f, func() (scorer, error) {
		var err error
		if options.Tokenizer, options.Smoothing, err = bleuNames(tokenizer, smoothing); err != nil {
			return scorer{}, err
		}
		return bleuScorer(options), nil
	})
	addGroups(command, f.groups(metric)...)
	return command
}

// bleuNames checks the options of BLEU that are names.
func bleuNames(tokenizer, smoothing string) (score.Tokenizer, score.Smoothing, error) {
	t, s := score.Tokenizer(tokenizer), score.Smoothing(smoothing)
	switch t {
	case score.Tokenize13a, score.TokenizeIntl, score.TokenizeZh, score.TokenizeChar, score.TokenizeNone:
	default:
		return t, s, usageErrorf("--tokenize %s: want 13a, intl, zh, char or none", tokenizer)
	}
	switch s {
	case score.SmoothExp, score.SmoothFloor, score.SmoothAddK, score.SmoothNone:
	default:
		return t, s, usageErrorf("--smooth-method %s: want exp, floor, add-k or none", smoothing)
	}
	return t, s, nil
}

func bleuScorer(options score.BLEUOptions) scorer {
	effective := options
	effective.EffectiveOrder = true
	return scorer{
		metric: options,
		name:   "BLEU",
		corpus: func(hypotheses []string, references [][]string, interval *score.Interval) (scored, float64, error) {
			s, err := score.BLEU(hypotheses, references, options)
			s.Interval = interval
			return s, s.Score, err
		},
		sentence: func(hypothesis string, references []string) (scored, float64, error) {
			s, err := score.SentenceBLEU(hypothesis, references, effective)
			return s, s.Score, err
		},
	}
}

func newCHRFCommand() *cobra.Command {
	var f scoreFlags
	var options score.CHRFOptions
	metric := newGroup("chrF options")
	metric.flags.IntVar(&options.CharOrder, "chrf-char-order", 6, "longest character n-grams (-cc)")
	metric.flags.IntVar(&options.WordOrder, "chrf-word-order", 0, "longest word n-grams; 2 makes it chrF++ (-cw)")
	metric.flags.IntVar(&options.Beta, "chrf-beta", 2, "weight of recall against precision")
	metric.flags.BoolVar(&options.Whitespace, "chrf-whitespace", false, "count white space among the characters")
	metric.flags.BoolVar(&options.Lowercase, "chrf-lowercase", false, "ignore case")
	metric.flags.BoolVar(&options.Lowercase, "lowercase", false, "the same as --chrf-lowercase")
	metric.flags.BoolVar(&options.Epsilon, "chrf-eps-smoothing", false, "smooth as chrF++.py, NLTK and Moses do")
	command := newMetricCommand("chrf", "Score with chrF", &f, func() (scorer, error) {
		if options.CharOrder < 1 || options.WordOrder < 0 || options.Beta < 1 {
			return scorer{}, usageErrorf("--chrf-char-order and --chrf-beta must be at least 1, --chrf-word-order at least 0")
		}
		return chrfScorer(options), nil
	})
	addGroups(command, f.groups(metric)...)
	return command
}

func chrfScorer(options score.CHRFOptions) scorer {
	return scorer{
		metric: options,
		name:   fmt.Sprintf("chrF%d%s", options.Beta, strings.Repeat("+", options.WordOrder)),
		corpus: func(hypotheses []string, references [][]string, interval *score.Interval) (scored, float64, error) {
			s, err := score.CHRF(hypotheses, references, options)
			s.Interval = interval
			return s, s.Score, err
		},
		sentence: func(hypothesis string, references []string) (scored, float64, error) {
			s, err := score.SentenceCHRF(hypothesis, references, options)
			return s, s.Score, err
		},
	}
}

func newMetricCommand(name, short string, f *scoreFlags, newScorer func() (scorer, error)) *cobra.Command {
	return &cobra.Command{
		Use:   name + " [-i TRANSLATION] REFERENCE...",
		Short: short,
		Example: fmt.Sprintf(`  sluice score %s -i output.de reference.de
  sluice translate -m model.npz -v vocab.spm < source.en | sluice score %s reference.de`, name, name),
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) == 0 {
				return usageErrorf("score %s takes one or more files of references", name)
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := f.check(); err != nil {
				return err
			}
			s, err := newScorer()
			if err != nil {
				return err
			}
			text, err := f.run(s, arguments)
			if err != nil {
				return err
			}
			return writeOutput(command.OutOrStdout(), text)
		},
	}
}

// run scores the files and returns what is to be printed.
func (f *scoreFlags) run(s scorer, referencePaths []string) (string, error) {
	hypotheses, references, err := f.read(referencePaths)
	if err != nil {
		return "", err
	}
	switch {
	case f.sentenceLevel:
		return f.sentences(s, hypotheses, references)
	case len(f.paired) > 0:
		return f.compare(s, hypotheses, references)
	}
	var interval *score.Interval
	if f.confidence {
		found, err := score.Bootstrap(s.metric, hypotheses, references, f.samples, f.seed)
		if err != nil {
			return "", inputError{err}
		}
		interval = &found
	}
	result, points, err := s.corpus(hypotheses, references, interval)
	if err != nil {
		return "", inputError{err}
	}
	return f.print(result, points, interval, " ")
}

// print gives a score in the format asked for. JSON is indented, unless indent is empty.
func (f *scoreFlags) print(result scored, points float64, interval *score.Interval, indent string) (string, error) {
	if f.format == "json" {
		object, err := result.JSON(f.width)
		if err != nil {
			return "", err
		}
		if indent == "" {
			return string(object) + "\n", nil
		}
		var b bytes.Buffer
		err = json.Indent(&b, object, "", indent)
		return b.String() + "\n", err
	}
	if f.scoreOnly {
		return f.number(points) + f.interval(interval) + "\n", nil
	}
	return result.Format(f.width) + "\n", nil
}

func (f *scoreFlags) number(points float64) string {
	return strconv.FormatFloat(points, 'f', f.width, 64)
}

func (f *scoreFlags) interval(interval *score.Interval) string {
	if interval == nil {
		return ""
	}
	return fmt.Sprintf(" (μ = %s ± %s)", f.number(interval.Mean), f.number(interval.HalfWidth))
}

// sentences scores every segment by itself, one line each.
func (f *scoreFlags) sentences(s scorer, hypotheses []string, references [][]string) (string, error) {
	var b strings.Builder
	own := make([]string, len(references))
	for i, hypothesis := range hypotheses {
		for j := range references {
			own[j] = references[j][i]
		}
		result, points, err := s.sentence(hypothesis, own)
		if err != nil {
			return "", inputError{err}
		}
		text, err := f.print(result, points, nil, "")
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// read returns the translation and the references, which must have as many lines.
func (f *scoreFlags) read(referencePaths []string) (hypotheses []string, references [][]string, err error) {
	if hypotheses, err = readSegments(f.input); err != nil {
		return nil, nil, err
	}
	if len(hypotheses) == 0 {
		return nil, nil, inputError{fmt.Errorf("%s has no lines: there is nothing to score", displayName(f.input))}
	}
	for _, path := range referencePaths {
		if path == "-" && f.input == "-" {
			return nil, nil, usageErrorf("standard input is the translation, it cannot be a reference as well: give -i FILE")
		}
		stream, err := readSegments(path)
		if err != nil {
			return nil, nil, err
		}
		if err := sameLength(f.input, hypotheses, path, stream); err != nil {
			return nil, nil, err
		}
		references = append(references, stream)
	}
	return hypotheses, references, nil
}

func sameLength(path string, lines []string, otherPath string, others []string) error {
	if len(lines) != len(others) {
		return inputError{fmt.Errorf("%s has %d lines and %s has %d: they must match line by line",
			displayName(path), len(lines), displayName(otherPath), len(others))}
	}
	return nil
}

func displayName(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// readSegments reads a file whole, white space at the ends of lines removed, as sacrebleu does.
func readSegments(path string) ([]string, error) {
	var segments []string
	err := eachKeptLine(path, maxKept, func(line string) { segments = append(segments, strings.TrimRightFunc(line, isSpace)) })
	return segments, err
}

// isSpace is Python's notion of white space, which has four control characters more than Unicode's.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
