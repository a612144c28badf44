package nbest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// An Entry is a line of an n-best list, of Marian or of Moses.
//
//	id ||| text ||| more ||| NAME= value … NAME= value … ||| total ||| more
//
// What stands before the features (Marian's alignments and word scores) and after the total (Moses' alignments) is kept as it
// is. A line may end behind its text, and then has neither features nor total.
type Entry struct {
	ID       int64
	Text     string
	Before   []string // fields between the text and the features
	Features []Feature
	Total    float64
	After    []string // fields behind the total

	features string // as they were read, for they are written back unchanged
}

// A Feature is what a model says about a translation. Moses has features of several values.
type Feature struct {
	Name   string // without its equals sign
	Values []float64
}

// ErrFormat is wrapped by the errors about lines that are not those of an n-best list.
var ErrFormat = errors.New("not a line of an n-best list")

const (
	separator  = "|||"
	wordScores = "WordScores="
)

// Parse reads a line.
func Parse(line string) (Entry, error) {
	fields := strings.Split(line, separator)
	for i := range fields { // a separator has a space on each side; a text may have spaces of its own
		if i > 0 {
			fields[i] = strings.TrimPrefix(fields[i], " ")
		}
		if i < len(fields)-1 {
			fields[i] = strings.TrimSuffix(fields[i], " ")
		}
	}
	if len(fields) < 2 {
		return Entry{}, fmt.Errorf("%w: it holds no %q, as in 0 ||| text ||| F0= -1.5 ||| -0.5", ErrFormat, separator)
	}
	e := Entry{Text: fields[1]}
	var err error
	if e.ID, err = strconv.ParseInt(strings.TrimSpace(fields[0]), 10, 64); err != nil || e.ID < 0 {
		return Entry{}, fmt.Errorf("%w: it begins with %q, which is not the number of a sentence", ErrFormat, fields[0])
	}
	if len(fields) == 2 {
		return e, nil
	}
	fields = fields[2:]
	at := slices.IndexFunc(fields, isFeatures)
	if at < 0 || at+1 == len(fields) {
		return Entry{}, fmt.Errorf("%w: it lacks features (F0= -1.5) or the total behind them", ErrFormat)
	}
	e.Before, e.features, e.After = fields[:at], fields[at], fields[at+2:]
	if e.Features, err = parseFeatures(fields[at]); err != nil {
		return Entry{}, err
	}
	if e.Total, err = strconv.ParseFloat(strings.TrimSpace(fields[at+1]), 64); err != nil {
		return Entry{}, fmt.Errorf("%w: its total is %q, which is not a number", ErrFormat, fields[at+1])
	}
	return e, nil
}

// isFeatures says whether a field holds features. Marian writes word scores in the same way.
func isFeatures(field string) bool {
	for first := range strings.FieldsSeq(field) {
		return strings.HasSuffix(first, "=") && first != wordScores
	}
	return false
}

func parseFeatures(field string) ([]Feature, error) {
	var features []Feature
	for word := range strings.FieldsSeq(field) {
		name, isName := strings.CutSuffix(word, "=")
		if isName {
			features = append(features, Feature{Name: name})
			continue
		}
		value, err := strconv.ParseFloat(word, 64)
		if err != nil || len(features) == 0 {
			return nil, fmt.Errorf("%w: %q among its features is neither a name (F0=) nor a number behind one", ErrFormat, word)
		}
		last := &features[len(features)-1]
		last.Values = append(last.Values, value)
	}
	for i, feature := range features {
		if len(feature.Values) == 0 || feature.Name == "" {
			return nil, fmt.Errorf("%w: feature %q has no value, or no name", ErrFormat, feature.Name)
		}
		if slices.ContainsFunc(features[:i], func(other Feature) bool { return other.Name == feature.Name }) {
			return nil, fmt.Errorf("%w: feature %q is there twice", ErrFormat, feature.Name)
		}
	}
	return features, nil
}

// Feature returns the values of a feature, nil where there is none of that name.
func (e *Entry) Feature(name string) []float64 {
	for _, feature := range e.Features {
		if feature.Name == name {
			return feature.Values
		}
	}
	return nil
}

// Add appends a feature of one value, rounded to what is printed of it: whoever reads the list finds the same number.
func (e *Entry) Add(name string, value float64) {
	printed := AppendNumber(nil, float32(value))
	rounded, _ := strconv.ParseFloat(string(printed), 64) // what AppendNumber wrote
	e.Features = append(e.Features, Feature{Name: name, Values: []float64{rounded}})
	if e.features != "" {
		e.features += " "
	}
	e.features += name + "= " + string(printed)
}

// Append appends the line, without its line break.
func (e *Entry) Append(dst []byte) []byte {
	dst = strconv.AppendInt(dst, e.ID, 10)
	dst = append(dst, " ||| "...)
	dst = append(dst, e.Text...)
	if e.features == "" {
		return dst
	}
	for _, field := range e.Before {
		dst = append(append(dst, " ||| "...), field...)
	}
	dst = append(append(dst, " ||| "...), e.features...)
	dst = append(dst, " ||| "...)
	dst = AppendNumber(dst, float32(e.Total))
	for _, field := range e.After {
		dst = append(append(dst, " ||| "...), field...)
	}
	return dst
}

// The most that one sentence's list may hold: it is in memory as a whole.
const (
	maxEntries = 1 << 16
	maxBytes   = 64 << 20
)

// ErrOrder is wrapped by the errors about lists that do not number their sentences from 0 without gaps.
var ErrOrder = errors.New("sentences are not in order")

// A Reader gathers the entries of each sentence.
type Reader struct {
	next  func() (string, error)
	ahead *Entry // the first of the next sentence
	size  int    // of the line of ahead
	id    int64  // of the next sentence
}

// NewReader returns a Reader of the lines that next gives, without line breaks, until it gives io.EOF.
func NewReader(next func() (string, error)) *Reader { return &Reader{next: next} }

// Next returns all entries of the next sentence, and io.EOF after the last. Sentences are numbered from 0, and have at least
// one entry each. An error is about the last line that was read.
func (r *Reader) Next() ([]Entry, error) {
	if r.ahead == nil {
		if err := r.read(); err != nil {
			return nil, err
		}
	}
	if r.ahead.ID != r.id {
		return nil, fmt.Errorf("%w: sentence %d comes where %d is due; they must be numbered from 0 without gaps", ErrOrder, r.ahead.ID, r.id)
	}
	list, bytes := []Entry{*r.ahead}, r.size
	for {
		err := r.read()
		switch {
		case err == io.EOF:
			r.ahead = nil
			r.id++
			return list, nil
		case err != nil:
			return nil, err
		case r.ahead.ID != r.id:
			r.id++
			return list, nil
		}
		list, bytes = append(list, *r.ahead), bytes+r.size
		if len(list) > maxEntries || bytes > maxBytes {
			return nil, fmt.Errorf("%w: sentence %d has more than %d lines, or than %d MiB", ErrFormat, r.id, maxEntries, maxBytes>>20)
		}
	}
}

func (r *Reader) read() error {
	line, err := r.next()
	if err != nil {
		return err
	}
	entry, err := Parse(line)
	if err != nil {
		return err
	}
	r.ahead, r.size = &entry, len(line)
	return nil
}
