package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-mt/sluice/internal/nbest"
	"github.com/sluice-mt/sluice/internal/score"
)

// riskFeature is the expected score of a hypothesis.
const riskFeature = "MBR"

// metricFlags choose a metric.
type metricFlags struct {
	name      string
	tokenizer string
	wordOrder int
	lowercase bool
}

func (f *metricFlags) group(otherwise string) flagGroup {
	g := newGroup("Metric")
	g.flags.StringVar(&f.name, "metric", otherwise, "bleu or chrf, as sacreBLEU computes them")
	g.flags.StringVar(&f.tokenizer, "tokenize", string(score.Tokenize13a), "tokeniser of bleu: 13a, intl, zh, char or none")
	g.flags.IntVar(&f.wordOrder, "chrf-word-order", 0, "longest word n-grams of chrf; 2 makes it chrF++")
	g.flags.BoolVar(&f.lowercase, "lowercase", false, "ignore case")
	return g
}

// check refuses options of the metric that is not chosen.
func (f *metricFlags) check(flags *pflag.FlagSet) error {
	switch {
	case f.name == "chrf" && flags.Changed("tokenize"):
		return usageErrorf("--tokenize is for --metric bleu: chrf looks at characters")
	case f.name == "bleu" && flags.Changed("chrf-word-order"):
		return usageErrorf("--chrf-word-order is for --metric chrf")
	}
	return nil
}

func (f *metricFlags) scorer() (scorer, error) {
	switch f.name {
	case "bleu":
		tokenizer, smoothing, err := bleuNames(f.tokenizer, string(score.SmoothExp))
		return bleuScorer(score.BLEUOptions{Tokenizer: tokenizer, Smoothing: smoothing, Lowercase: f.lowercase}), err
	case "chrf":
		if f.wordOrder < 0 || f.wordOrder > 6 {
			return scorer{}, usageErrorf("--chrf-word-order %d: 0 to 6", f.wordOrder)
		}
		return chrfScorer(score.CHRFOptions{CharOrder: 6, WordOrder: f.wordOrder, Beta: 2, Lowercase: f.lowercase}), nil
	}
	return scorer{}, usageErrorf("--metric %s: want bleu or chrf", f.name)
}

// ofSentences is the metric as it scores single sentences.
func ofSentences(metric score.Metric) score.Metric {
	if options, ok := metric.(score.BLEUOptions); ok {
		options.EffectiveOrder = true
		return options
	}
	return metric
}

// A riskDecoding is one run of "sluice mbr".
type riskDecoding struct {
	input    string
	evidence string
	metric   metricFlags
	scale    float64
	threads  int
	ranked   rankedOutput
}

func newMBRCommand() *cobra.Command {
	d := new(riskDecoding)
	command := &cobra.Command{
		Use:   "mbr [flags] < LIST",
		Short: "Choose the hypotheses that are most like all the others",
		Long: `Minimum Bayes risk decoding (Kumar and Byrne 2004): from a list of samples or n-best hypotheses of each
sentence choose the one with the best expected score, its mean score against all hypotheses of the list
as references, or against those of another list. A hypothesis that is there more than once counts as
often.

The list is ranked by the expected score, which is added as the feature MBR and becomes the total.`,
		Example: `  sluice translate -m MODEL --output-sampling epsilon 0.02 -b 64 --n-best -i test.en | sluice mbr --best
  sluice translate -m MODEL -b 12 --n-best -i test.en | sluice mbr --metric bleu --scale 1`,
		Args: exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error { return d.run(command) },
	}
	input, how := newGroup("Input options"), newGroup("Risk")
	input.flags.StringVarP(&d.input, "input", "i", "-", "n-best list or samples to choose from; - is standard input")
	input.flags.StringVar(&d.evidence, "references", "", "another list of the same sentences, whose hypotheses serve as references")
	how.flags.Float64Var(&d.scale, "scale", 0, "weigh references by exp(scale·total); 0 weighs all the same, as samples want it")
	countVar(how.flags, &d.threads, "cpu-threads", mostWorkers, "workers (0: one per core); the choice does not depend on it")
	addGroups(command, input, d.metric.group("chrf"), how, d.ranked.group())
	return command
}

func (d *riskDecoding) run(command *cobra.Command) error {
	if err := d.metric.check(command.Flags()); err != nil {
		return err
	}
	metric, err := d.metric.scorer()
	if err != nil {
		return err
	}
	switch {
	case !isFinite(d.scale):
		return usageErrorf("--scale %v: want a number", d.scale)
	case d.input == "-" && d.evidence == "-":
		return usageErrorf("standard input cannot be both lists: name files")
	}
	if d.threads == 0 {
		d.threads = runtime.GOMAXPROCS(0)
	}
	if err := d.ranked.check(d.input, d.evidence); err != nil {
		return err
	}
	lists, err := openLists(d.input, "")
	if err != nil {
		return err
	}
	defer lists.Close()
	var evidence *listReader
	if d.evidence != "" {
		if evidence, err = openLists(d.evidence, ""); err != nil {
			return err
		}
		defer evidence.Close()
	}
	return d.ranked.write(command.OutOrStdout(), func(w io.Writer) error {
		return d.stream(command.Context(), ofSentences(metric.metric), lists, evidence, w)
	})
}

// chunkSentences are read, and spread over the workers, at a time.
const chunkSentences = 256

// stream chooses from lists from beginning to end.
func (d *riskDecoding) stream(ctx context.Context, metric score.Metric, lists, evidence *listReader, w io.Writer) error {
	for {
		chunk, err := lists.chunk(chunkSentences)
		end := err == io.EOF
		if err != nil && !end {
			return err
		}
		references := chunk
		if evidence != nil {
			if references, err = sameSentences(evidence, len(chunk), end); err != nil {
				return err
			}
		}
		group := new(errgroup.Group)
		group.SetLimit(d.threads)
		for i := range chunk {
			group.Go(func() error { return d.rank(metric, chunk[i].entries, slices.Clone(references[i].entries)) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for i := range chunk {
			if ctx.Err() != nil {
				return errInterrupted
			}
			if err := d.ranked.print(w, chunk[i].entries); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
	}
}

// sameSentences reads as many lists as there are of the hypotheses, and checks that there are no more where those end.
func sameSentences(evidence *listReader, n int, end bool) ([]sentenceList, error) {
	var lists []sentenceList
	for range n {
		list, err := evidence.next()
		if err == io.EOF {
			return nil, inputError{fmt.Errorf("%s ends before the list of hypotheses does", displayName(evidence.path))}
		}
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	if !end {
		return lists, nil
	}
	if _, err := evidence.next(); err != io.EOF {
		return nil, cmp.Or[error](err, inputError{fmt.Errorf("%s goes on where the list of hypotheses ends", displayName(evidence.path))})
	}
	return lists, nil
}

// maxPairs bounds the scores of a sentence, which are in memory together.
const maxPairs = 1 << 24

// rank sorts the hypotheses of a sentence by their expected score.
func (d *riskDecoding) rank(metric score.Metric, entries, references []nbest.Entry) error {
	if len(entries) > maxPairs/len(references) {
		return inputError{fmt.Errorf("sentence %d has %d hypotheses and %d references: more than %d pairs cannot be compared",
			entries[0].ID, len(entries), len(references), maxPairs)}
	}
	scores, err := score.Pairwise(metric, texts(entries), texts(references))
	if err != nil {
		return inputError{err}
	}
	weights, err := d.probabilities(references)
	if err != nil {
		return err
	}
	for i := range entries {
		expected := 0.0
		for j, points := range scores[i] {
			expected += weights[j] * points
		}
		if entries[i].Feature(riskFeature) != nil {
			return inputError{fmt.Errorf("sentence %d has a feature %s already", entries[i].ID, riskFeature)}
		}
		entries[i].Add(riskFeature, expected)
		entries[i].Total = expected
	}
	slices.SortStableFunc(entries, func(a, b nbest.Entry) int { return cmp.Compare(b.Total, a.Total) })
	return nil
}

// probabilities of the references, which add up to 1.
func (d *riskDecoding) probabilities(references []nbest.Entry) ([]float64, error) {
	if d.scale == 0 {
		return slices.Repeat([]float64{1 / float64(len(references))}, len(references)), nil
	}
	highest := math.Inf(-1)
	for _, e := range references {
		highest = max(highest, d.scale*e.Total)
	}
	weights, sum := make([]float64, len(references)), 0.0
	for i, e := range references {
		weights[i] = math.Exp(d.scale*e.Total - highest)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	if !(sum > 0) { // a total is NaN, or the highest is infinite
		return nil, inputError{fmt.Errorf("sentence %d: its totals give no probabilities, for they are not all numbers (see --scale)", references[0].ID)}
	}
	return weights, nil
}

func texts(entries []nbest.Entry) []string {
	list := make([]string, len(entries))
	for i := range entries {
		list[i] = entries[i].Text
	}
	return list
}
