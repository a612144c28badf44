package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mt/sluice/internal/m2"
	"github.com/sluice-mt/sluice/train/corpus"
	"github.com/sluice-mt/sluice/translator/vocab"
)

// editing is one run of "sluice corpus edits".
type editing struct {
	input         corpusInput
	m2, weights   string
	maxUnchanged  int
	weight        float64
	vocabularies  []string
	overwrite     bool
	pieces        [2]vocab.Vocabulary // of source and target; nil for words
	source, ids   []int32
	lines, edited int64
	leftOut       int64
	words         [2]int64 // of targets: all, changed
	logger        *slog.Logger
}

func newEditsCommand() *cobra.Command {
	e := new(editing)
	command := &cobra.Command{
		Use:   "edits (--source FILE --target FILE | --tsv FILE) [--m2 FILE] [--weights FILE]",
		Short: "Find what corrections change: gold edits, weights for training",
		Long: `Compare sentences with their corrected forms. --m2 writes the edits as annotations in the M² format, which
"sluice score m2" reads as gold edits; white space must divide tokens. --weights writes a number for each target
piece, which the training setting "data-weighting" reads with "data-weighting-type: word": 1 for pieces that stay as they
are in a Levenshtein alignment with the source, the value of --weight for those that are inserted or take the place of others (the
edit-weighted objective of Junczys-Dowmunt et al. 2018).

A pair of more than 2,000 words, or with words that the M² format cannot hold, is left out of --m2, which a warning says with its
line, and the command ends with code 6: leave that line out of what is scored as well.`,
		Example: `  sluice corpus edits --source test.err --target test.cor --m2 test.m2
  sluice corpus edits --tsv train.tsv --weights train.weights.gz --weight 3 --vocab vocab.spm`,
		Args: exactArguments(0, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			err := e.check()
			if err != nil {
				return err
			}
			if e.logger, err = newLogger(command.ErrOrStderr(), "text", "info", false); err != nil {
				return err
			}
			return sortCorpusError(command.Context(), e.run(command.Context(), command.OutOrStdout(), command.ErrOrStderr()))
		},
	}
	input, edits, weights, output := newGroup("Input options"), newGroup("Edit options"), newGroup("Weight options"), newGroup("Output options")
	e.input.addPair(input.flags)
	edits.flags.StringVar(&e.m2, "m2", "", "`FILE` for the edits; - is standard output")
	edits.flags.IntVar(&e.maxUnchanged, "max-unchanged-words", 0, "unchanged words that an edit may hold")
	weights.flags.StringVar(&e.weights, "weights", "", "`FILE` for the weights; - is standard output")
	weights.flags.Float64Var(&e.weight, "weight", 3, "weight of what is changed")
	weights.flags.StringSliceVar(&e.vocabularies, "vocab", nil, "`FILE` with the vocabulary that training uses, or those of source and target; without one, weights are of words that white space divides")
	output.flags.BoolVar(&e.overwrite, "overwrite", false, "replace outputs that exist")
	addGroups(command, input, edits, weights, output)
	return command
}

func (e *editing) check() error {
	if err := e.input.check("corpus edits"); err != nil {
		return err
	}
	switch {
	case e.m2 == "" && e.weights == "":
		return usageErrorf("corpus edits needs --m2 or --weights: the file to write")
	case !(e.weight >= 0) || math.IsInf(e.weight, 0):
		return usageErrorf("--weight %v: want a number of at least 0", e.weight)
	case e.maxUnchanged < 0:
		return usageErrorf("--max-unchanged-words %d: want at least 0", e.maxUnchanged)
	case len(e.vocabularies) > 2:
		return usageErrorf("--vocab takes one vocabulary, or those of source and target")
	case len(e.vocabularies) > 0 && e.weights == "":
		return usageErrorf("--vocab is for --weights: edits are of words")
	}
	if err := checkOutputs(e.overwrite, []string{e.m2, e.weights}, append(e.input.paths(), e.vocabularies...)); err != nil {
		return err
	}
	if len(e.vocabularies) == 0 {
		return nil
	}
	var err error
	e.pieces[0], e.pieces[1], err = openVocabularies(e.vocabularies[0], e.vocabularies[len(e.vocabularies)-1])
	return err
}

func (e *editing) run(ctx context.Context, stdout, stderr io.Writer) error {
	err := e.into(stdout, e.m2, func(edits *bufio.Writer) error {
		return e.into(stdout, e.weights, func(weights *bufio.Writer) error {
			return e.input.each(ctx, func(p corpus.Pair) error { return e.pair(p, edits, weights) })
		})
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "%-12s %s\n%-12s %s\n", "lines", formatCount(e.lines), "corrected", formatCount(e.edited))
	if err == nil && e.weights != "" {
		_, err = fmt.Fprintf(stderr, "%-12s %s\n%-12s %s\n", "pieces", formatCount(e.words[0]), "changed", formatCount(e.words[1]))
	}
	if err != nil || e.leftOut == 0 {
		return outputFailure(err)
	}
	if _, err = fmt.Fprintf(stderr, "%-12s %s\n", "left out", formatCount(e.leftOut)); err != nil {
		return outputFailure(err)
	}
	return errFlagged
}

// into opens an output, if there is one, and calls f with it.
func (e *editing) into(stdout io.Writer, path string, f func(*bufio.Writer) error) error {
	if path == "" {
		return f(nil)
	}
	return writeTo(stdout, path, func(w io.Writer) error {
		out := bufio.NewWriter(w)
		if err := f(out); err != nil {
			return err
		}
		return outputFailure(out.Flush())
	})
}

// pair writes what is asked for about a pair.
func (e *editing) pair(p corpus.Pair, edits, weights *bufio.Writer) error {
	e.lines++
	if p.Source != p.Target {
		e.edited++
	}
	if edits != nil {
		if err := e.writeEdits(edits, p); err != nil {
			return err
		}
	}
	if weights == nil {
		return nil
	}
	return outputFailure(e.writeWeights(weights, e.changed(p)))
}

// writeEdits writes the edits of a pair, or says why it has none.
func (e *editing) writeEdits(edits *bufio.Writer, p corpus.Pair) error {
	found, err := m2.Extract(p.Source, p.Target, e.maxUnchanged)
	if err == nil {
		err = m2.Write(edits, &m2.Sentence{Source: p.Source, Annotations: []m2.Annotation{{Edits: found}}})
	}
	if errors.Is(err, m2.ErrInput) || errors.Is(err, m2.ErrUnwritable) {
		if e.leftOut++; e.leftOut <= mostNamed {
			e.logger.Warn("left out of the edits", "corpus", e.input.name(), "line", e.lines, "reason", err)
		}
		return nil
	}
	return outputFailure(err)
}

// mostNamed bounds the pairs that are named one by one; those behind them are only counted.
const mostNamed = 1000

// changed says of each target piece, or word, whether it is changed.
func (e *editing) changed(p corpus.Pair) []bool {
	source, target := strings.TrimSpace(p.Source), strings.TrimSpace(p.Target)
	if e.pieces[0] == nil {
		return m2.Changed(strings.Fields(source), strings.Fields(target))
	}
	if e.pieces[0] != e.pieces[1] { // the numbers of pieces mean different ones
		return m2.Changed(e.pieces[0].EncodePieces(source), e.pieces[1].EncodePieces(target))
	}
	e.source, e.ids = e.pieces[0].Encode(source, e.source[:0]), e.pieces[1].Encode(target, e.ids[:0])
	return m2.Changed(e.source, e.ids)
}

func (e *editing) writeWeights(w *bufio.Writer, changed []bool) error {
	number := strconv.FormatFloat(e.weight, 'g', -1, 64)
	for i, c := range changed {
		if i > 0 {
			_ = w.WriteByte(' ') // errors stay with the writer
		}
		text := "1"
		if c {
			text = number
			e.words[1]++
		}
		_, _ = w.WriteString(text)
	}
	e.words[0] += int64(len(changed))
	return w.WriteByte('\n')
}
