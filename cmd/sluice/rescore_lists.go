package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/sluice-mt/sluice/internal/nbest"
	"github.com/sluice-mt/sluice/translator/rescore"
)

// What the commands that work on n-best lists share: reading lists with their sources, ranking, and writing.

// A sentenceList is the hypotheses of a sentence.
type sentenceList struct {
	source  string
	entries []nbest.Entry
}

// A listReader reads an n-best list and, if there is one, the text that was translated.
type listReader struct {
	path   string
	lines  *lineReader
	lists  *nbest.Reader
	source *lineReader // nil if nobody needs it
}

func openLists(path, source string) (*listReader, error) {
	if path == "-" && source == "-" {
		return nil, usageErrorf("standard input cannot be both the list and the source: name files")
	}
	lines, err := openLines(path)
	if err != nil {
		return nil, err
	}
	r := &listReader{path: path, lines: lines, lists: nbest.NewReader(lines.next)}
	if source != "" {
		if r.source, err = openLines(source); err != nil {
			return nil, errors.Join(err, lines.Close())
		}
	}
	return r, nil
}

func (r *listReader) Close() error {
	err := r.lines.Close()
	if r.source != nil {
		err = errors.Join(err, r.source.Close())
	}
	return err
}

// next returns the list of the next sentence, and io.EOF after the last.
func (r *listReader) next() (sentenceList, error) {
	entries, err := r.lists.Next()
	switch {
	case err == io.EOF:
		return sentenceList{}, r.atEnd()
	case errors.Is(err, nbest.ErrFormat) || errors.Is(err, nbest.ErrOrder):
		return sentenceList{}, inputError{fmt.Errorf("%s, line %d: %w", displayName(r.path), r.lines.count, err)}
	case err != nil:
		return sentenceList{}, err
	}
	list := sentenceList{entries: entries}
	if r.source != nil {
		list.source, err = r.source.next()
		if err == io.EOF {
			err = inputError{fmt.Errorf("%s has %d lines, but the list has hypotheses of sentence %d: they do not belong together",
				displayName(r.source.path), r.source.count, entries[0].ID)}
		}
	}
	return list, err
}

// atEnd checks that the source ends with the list.
func (r *listReader) atEnd() error {
	if r.source == nil {
		return io.EOF
	}
	_, err := r.source.next()
	if err == nil {
		return inputError{fmt.Errorf("%s goes on behind line %d, but the list ends there: they do not belong together",
			displayName(r.source.path), r.source.count-1)}
	}
	return err
}

// maxChunkBytes bounds the text of a chunk, but for its last list.
const maxChunkBytes = 8 << 20

// chunk returns up to a number of lists. With the last ones comes io.EOF.
func (r *listReader) chunk(most int) ([]sentenceList, error) {
	var chunk []sentenceList
	for bytes := 0; len(chunk) < most && bytes < maxChunkBytes; {
		list, err := r.next()
		if err != nil {
			return chunk, err
		}
		chunk = append(chunk, list)
		bytes += len(list.source)
		for _, e := range list.entries {
			bytes += len(e.Text)
		}
	}
	return chunk, nil
}

// toScore is the texts of lists, for a model.
func toScore(chunk []sentenceList) []rescore.List {
	lists := make([]rescore.List, len(chunk))
	for i := range chunk {
		lists[i].Source = chunk[i].source
		for _, e := range chunk[i].entries {
			lists[i].Translations = append(lists[i].Translations, e.Text)
		}
	}
	return lists
}

// A ranking computes the totals of hypotheses and puts the greatest first.
type ranking struct {
	weights   nbest.Weights // nil until it is known what there is to be weighed, and then 1 for each feature
	normalize float64
}

// sort ranks the hypotheses of a sentence. Equal ones stay in their order.
func (r *ranking) sort(entries []nbest.Entry) error {
	if r.weights == nil {
		if r.weights = nbest.Even(&entries[0], lengthFeature); len(r.weights) == 0 {
			return usageErrorf("the list has no features: there is nothing to rank by. Name models with -m")
		}
	}
	for i := range entries {
		e := &entries[i]
		total, err := r.weights.Total(e)
		if err != nil {
			return inputError{fmt.Errorf("sentence %d: %w", e.ID, err)}
		}
		divisor, err := lengthDivisor(e, r.normalize)
		if err != nil {
			return err
		}
		if e.Total = total / divisor; math.IsNaN(e.Total) {
			return inputError{fmt.Errorf("sentence %d: the weighted sum of the features is not a number", e.ID)}
		}
	}
	slices.SortStableFunc(entries, func(a, b nbest.Entry) int { return cmp.Compare(b.Total, a.Total) })
	return nil
}

// lengthDivisor is Length^normalize.
func lengthDivisor(e *nbest.Entry, normalize float64) (float64, error) {
	if normalize == 0 {
		return 1, nil
	}
	length := e.Feature(lengthFeature)
	if len(length) != 1 || !(length[0] > 0) {
		return 0, usageErrorf("sentence %d has no positive feature %s to normalise by: give a model, which adds it, or --normalize 0", e.ID, lengthFeature)
	}
	return math.Pow(length[0], normalize), nil
}

// A rankedOutput says how ranked lists are written.
type rankedOutput struct {
	path      string
	best      bool
	overwrite bool
}

func (o *rankedOutput) group() flagGroup {
	g := newGroup("Output options")
	g.flags.StringVarP(&o.path, "output", "o", "-", "`FILE` to write, compressed by its suffix; - is standard output")
	g.flags.BoolVar(&o.best, "best", false, "print the text of the best hypothesis of each sentence instead of the list")
	g.flags.BoolVar(&o.overwrite, "overwrite", false, "replace the output if it exists")
	return g
}

// check looks at the output, beside all that is read.
func (o *rankedOutput) check(inputs ...string) error {
	return checkOutputs(o.overwrite, []string{o.path}, inputs)
}

// write lets f write the output.
func (o *rankedOutput) write(stdout io.Writer, f func(io.Writer) error) error {
	var failure error
	inside := func(w io.Writer) error {
		failure = f(w)
		return failure
	}
	if o.path != "-" {
		err := writeFile(o.path, inside)
		return cmp.Or(failure, err)
	}
	buffered := bufio.NewWriterSize(stdout, 1<<16)
	if err := inside(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return outputError{err}
	}
	return nil
}

// print writes the ranked hypotheses of a sentence.
func (o *rankedOutput) print(w io.Writer, entries []nbest.Entry) error {
	var text []byte
	if o.best {
		text = append(append(text, entries[0].Text...), '\n')
	} else {
		for i := range entries {
			text = append(entries[i].Append(text), '\n')
		}
	}
	if _, err := w.Write(text); err != nil {
		return outputError{err}
	}
	return nil
}
