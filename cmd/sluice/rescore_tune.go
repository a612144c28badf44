package main

import (
	"fmt"
	"io"
	"math"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/mert"
	"github.com/sluice-mt/sluice/internal/nbest"
	"github.com/sluice-mt/sluice/internal/score"
)

// A tuning is one run of "sluice rescore tune".
type tuning struct {
	input     string
	weights   string
	normalize float64
	metric    metricFlags
	search    mert.Options
	output    string
	overwrite bool
}

// tuneStarts is from how many random weights the search sets out if nothing is said.
const tuneStarts = 20

func newTuneCommand() *cobra.Command {
	t := new(tuning)
	command := &cobra.Command{
		Use:   "tune -i LIST [-o RECIPE] REFERENCE...",
		Short: "Find the weights with which the best of an n-best list score best",
		Long: `Find weights for the features of an n-best list, such that the best hypotheses by these weights score
best against references: minimum error rate training (Och 2003), from the weights given and from random
ones. The result is a configuration file for "sluice rescore".

Only features named in --weights are used, all but Length if it is left out. The list is held in memory.`,
		Example: `  sluice rescore -s dev.en -m r2l.npz -i dev.nbest --features-only -o dev.scored.nbest
  sluice rescore tune -i dev.scored.nbest dev.de -o tuned.yml
  sluice rescore -c tuned.yml -s test.en -m r2l.npz -i test.nbest --best -o test.de`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) == 0 {
				return usageErrorf("rescore tune takes one or more files of references")
			}
			return nil
		},
		RunE: func(command *cobra.Command, arguments []string) error { return t.run(command, arguments) },
	}
	input, how, output := newGroup("Input options"), newGroup("Search"), newGroup("Output options")
	input.flags.StringVarP(&t.input, "input", "i", "-", "n-best list with all features; - is standard input")
	how.flags.StringVar(&t.weights, "weights", "", "`WEIGHTS` to start from (1 each)")
	how.flags.Float64VarP(&t.normalize, "normalize", "n", 1, "divide weighted sums by Length^`ALPHA`")
	how.flags.IntVar(&t.search.Starts, "starts", tuneStarts, "random weights from which the search sets out as well")
	how.flags.Uint64Var(&t.search.Seed, "seed", 1, "seed of those; the same seed finds the same weights")
	countVar(how.flags, &t.search.Workers, "cpu-threads", mostWorkers, "workers (0: one per core); the weights do not depend on it")
	output.flags.StringVarP(&t.output, "output", "o", "-", "`FILE` to write; - is standard output")
	output.flags.BoolVar(&t.overwrite, "overwrite", false, "replace the output if it exists")
	addGroups(command, input, t.metric.group("bleu"), how, output)
	return command
}

func (t *tuning) run(command *cobra.Command, referencePaths []string) error {
	if err := t.metric.check(command.Flags()); err != nil {
		return err
	}
	weights, err := t.tune(referencePaths, func(format string, values ...any) {
		fmt.Fprintf(command.ErrOrStderr(), format+"\n", values...)
	})
	if err != nil || t.output != "-" {
		return err
	}
	return writeOutput(command.OutOrStdout(), formatRecipe(weights, t.normalize))
}

// tune finds the weights, tells what they gain, and writes them unless they go to standard output.
func (t *tuning) tune(referencePaths []string, tell func(format string, values ...any)) (nbest.Weights, error) {
	metric, err := t.check(referencePaths)
	if err != nil {
		return nil, err
	}
	problem, weights, err := t.problem(metric.metric, referencePaths)
	if err != nil {
		return nil, err
	}
	var start []float64
	for _, weight := range weights {
		start = append(start, weight.Values...)
	}
	tuned, err := mert.Tune(problem, start, t.search)
	if err != nil {
		return nil, inputError{err}
	}
	tell("%s on %d sentences: %.2f before, %.2f with these weights", metric.name, len(problem.Sentences), tuned.Before, tuned.After)
	rest := tuned.Weights
	for i := range weights {
		n := len(weights[i].Values)
		weights[i].Values, rest = rest[:n], rest[n:]
	}
	if t.output == "-" {
		return weights, nil
	}
	return weights, writeFile(t.output, func(w io.Writer) error {
		_, err := io.WriteString(w, formatRecipe(weights, t.normalize))
		return err
	})
}

func (t *tuning) check(referencePaths []string) (metric scorer, err error) {
	switch {
	case t.search.Starts < 0:
		return metric, usageErrorf("--starts %d: at least 0", t.search.Starts)
	case !(t.normalize >= 0) || math.IsInf(t.normalize, 0):
		return metric, usageErrorf("--normalize %v: at least 0", t.normalize)
	}
	if t.search.Workers == 0 {
		t.search.Workers = runtime.GOMAXPROCS(0)
	}
	if err := checkOutputs(t.overwrite, []string{t.output}, append([]string{t.input}, referencePaths...)); err != nil {
		return metric, err
	}
	return t.metric.scorer()
}

// problem reads the list, and counts in each hypothesis what the metric counts.
func (t *tuning) problem(metric score.Metric, referencePaths []string) (p mert.Problem, weights nbest.Weights, err error) {
	if t.weights != "" {
		if weights, err = nbest.ParseWeights(t.weights); err != nil {
			return p, nil, usageErrorf("--%v", err)
		}
	}
	references := make([][]string, len(referencePaths))
	for i, path := range referencePaths {
		if references[i], err = readSegments(path); err != nil {
			return p, nil, err
		}
	}
	lists, err := openLists(t.input, "")
	if err != nil {
		return p, nil, err
	}
	defer lists.Close()
	p.Points = func(counts []int64) float64 { return score.Points(metric, counts) }
	for {
		list, err := lists.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return p, nil, err
		}
		if weights == nil {
			if weights = nbest.Even(&list.entries[0], lengthFeature); len(weights) == 0 {
				return p, nil, usageErrorf("the list has no features: there is nothing to tune")
			}
		}
		candidates, err := t.candidates(list.entries, weights, metric, references, referencePaths)
		if err != nil {
			return p, nil, err
		}
		p.Sentences = append(p.Sentences, candidates)
	}
	for i, stream := range references {
		if len(stream) != len(p.Sentences) {
			return p, nil, inputError{fmt.Errorf("%s has %d lines, but the list has %d sentences", referencePaths[i], len(stream), len(p.Sentences))}
		}
	}
	return p, weights, nil
}

// candidates are the hypotheses of a sentence.
func (t *tuning) candidates(entries []nbest.Entry, weights nbest.Weights, metric score.Metric, references [][]string, paths []string) ([]mert.Candidate, error) {
	own := make([]string, len(references))
	for i, stream := range references {
		if entries[0].ID >= int64(len(stream)) {
			return nil, inputError{fmt.Errorf("%s has %d lines, but the list has hypotheses of sentence %d", paths[i], len(stream), entries[0].ID)}
		}
		own[i] = stream[entries[0].ID]
	}
	candidates := make([]mert.Candidate, len(entries))
	for i := range entries {
		e, c := &entries[i], &candidates[i]
		divisor, err := lengthDivisor(e, t.normalize)
		if err != nil {
			return nil, err
		}
		if _, err := weights.Total(e); err != nil {
			return nil, inputError{fmt.Errorf("sentence %d: %w", e.ID, err)}
		}
		for _, weight := range weights {
			for _, value := range e.Feature(weight.Name) {
				c.Features = append(c.Features, value/divisor)
			}
		}
		if c.Counts, err = score.Counts(metric, e.Text, own); err != nil {
			return nil, inputError{err}
		}
	}
	return candidates, nil
}
