package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/train/autodiff"
)

// Files are texts in parallel, one sentence a line. They may be compressed.
type Files struct {
	Source, Target string   // Source is "" for a language model
	Further        []string // the second source and those after it
	TSV            string   // instead: sources and target, separated by tabs; more columns are ignored
	TSVSources     int      // of the table; 0 is 1

	Alignment   string // "0-0 1-2 …": pairs of source and target pieces of each line, counted from 0; "" for none
	Weights     string // of the lines, or of their target pieces; "" for none
	WordWeights bool   // Weights has a number for each target piece, and one for the end of sentence if it likes

	Open func(path string) (io.ReadCloser, error) // opens a file, or what else a path may name; nil is os.Open
}

// ErrFormat is wrapped by errors about lines that are not what they should be.
var ErrFormat = errors.New("the line cannot be used")

// maxLine is the longest line, in bytes. There are no such sentences.
const maxLine = 1 << 20

// lines walks through the files, line by line.
type lines struct {
	source, target []byte
	further        [][]byte
	number         int
	err            error

	files  Files
	texts  []*textFile // sources and target, or the table
	fields [][]byte    // of the line: the same texts
	points *textFile
	weight *textFile
}

// A textFile is one of the files.
type textFile struct {
	path   string
	file   io.ReadCloser
	plain  *compress.Reader
	buffer *bufio.Reader
	line   []byte
	ended  bool
}

func (f *Files) openText(path string) (*textFile, error) {
	open := f.Open
	if open == nil {
		open = func(path string) (io.ReadCloser, error) { return os.Open(path) }
	}
	file, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("opening a corpus: %w", err)
	}
	plain, err := compress.NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return &textFile{path: path, file: file, plain: plain, buffer: bufio.NewReaderSize(plain, 1<<16)}, nil
}

// next reads a line; io.EOF is the end.
func (t *textFile) next() error {
	t.line = t.line[:0]
	for {
		part, err := t.buffer.ReadSlice('\n')
		t.line = append(t.line, part...)
		switch {
		case len(t.line) > maxLine:
			return fmt.Errorf("%s: a line is longer than %d bytes: this is not one sentence a line", t.path, maxLine)
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(t.line) == 0:
			return io.EOF
		case err == nil || err == io.EOF:
			t.line = bytes.TrimSuffix(bytes.TrimSuffix(t.line, []byte("\n")), []byte("\r"))
			return nil
		default:
			return fmt.Errorf("%s: %w", t.path, err)
		}
	}
}

func (f Files) open() (*lines, error) {
	l := &lines{files: f}
	paths := append(append([]string{f.Source}, f.Further...), f.Target)
	if f.TSV != "" {
		paths = []string{f.TSV}
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if err := l.add(path, func(t *textFile) { l.texts = append(l.texts, t) }); err != nil {
			return nil, err
		}
	}
	if f.Alignment != "" {
		if err := l.add(f.Alignment, func(t *textFile) { l.points = t }); err != nil {
			return nil, err
		}
	}
	if f.Weights != "" {
		if err := l.add(f.Weights, func(t *textFile) { l.weight = t }); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *lines) add(path string, keep func(*textFile)) error {
	t, err := l.files.openText(path)
	if err != nil {
		l.close()
		return err
	}
	keep(t)
	return nil
}

func (l *lines) all() []*textFile {
	all := slices.Clone(l.texts)
	if l.points != nil {
		all = append(all, l.points)
	}
	if l.weight != nil {
		all = append(all, l.weight)
	}
	return all
}

func (l *lines) close() {
	for _, t := range l.all() {
		t.plain.Close()
		t.file.Close()
	}
}

// next reads a line of every file. All of them must have the same number.
func (l *lines) next() bool {
	all := l.all()
	ended := 0
	for _, t := range all {
		switch err := t.next(); {
		case err == io.EOF:
			t.ended = true
			ended++
		case err != nil:
			l.err = err
			return false
		}
	}
	if ended > 0 {
		for _, t := range all {
			if ended < len(all) && t.ended {
				l.err = fmt.Errorf("%w: %s has %d lines, but the files that belong to it have more", ErrFormat, t.path, l.number)
			}
		}
		return false
	}
	l.number++
	return l.divide()
}

// divide finds source and target.
func (l *lines) divide() bool {
	l.fields = l.fields[:0]
	if l.files.TSV == "" {
		for _, t := range l.texts {
			l.fields = append(l.fields, t.line)
		}
	} else {
		sources := max(1, l.files.TSVSources)
		for field := range bytes.SplitSeq(l.texts[0].line, []byte("\t")) {
			l.fields = append(l.fields, field)
		}
		if len(l.fields) <= sources {
			l.err = l.problem(l.texts[0], "has %d columns, but must have %d, for sources and target", len(l.fields), sources+1)
			return false
		}
		l.fields = l.fields[:sources+1]
	}
	last := len(l.fields) - 1
	l.target = l.fields[last]
	if last > 0 {
		l.source, l.further = l.fields[0], l.fields[1:last]
	}
	return true
}

func (l *lines) problem(t *textFile, format string, args ...any) error {
	return fmt.Errorf("%w: %s, line %d %s", ErrFormat, t.path, l.number, fmt.Sprintf(format, args...))
}

// extras reads alignment and weights of the current line into a pair that has its tokens.
func (l *lines) extras(p *Pair, reversed bool) error {
	if l.points != nil {
		if err := l.alignment(p, reversed); err != nil {
			return err
		}
	}
	if l.weight == nil {
		return nil
	}
	if err := l.weights(p); err != nil {
		return err
	}
	if reversed {
		slices.Reverse(p.Weights[:len(p.Weights)-1])
	}
	return nil
}

// alignment reads points. Those beyond the sentence, which may have been cropped, are left out. Numbers in the file are those
// of reading order.
func (l *lines) alignment(p *Pair, reversed bool) error {
	for field := range bytes.FieldsSeq(l.points.line) {
		a, b, ok := bytes.Cut(field, []byte("-"))
		source, err1 := strconv.Atoi(string(a))
		target, err2 := strconv.Atoi(string(b))
		if !ok || err1 != nil || err2 != nil || source < 0 || target < 0 {
			return l.problem(l.points, "holds %q, which is not a pair of positions like 3-4", field)
		}
		if source < len(p.Source) && target < len(p.Target) {
			if reversed {
				source, target = mirrored(source, len(p.Source)), mirrored(target, len(p.Target))
			}
			p.Alignment = append(p.Alignment, autodiff.AlignmentPoint{Query: int32(target), Key: int32(source)})
		}
	}
	slices.SortFunc(p.Alignment, func(a, b autodiff.AlignmentPoint) int {
		if a.Query != b.Query {
			return int(a.Query - b.Query)
		}
		return int(a.Key - b.Key)
	})
	p.Alignment = slices.Compact(p.Alignment)
	return nil
}

// mirrored returns where a position lies in a reversed sentence of that length, whose end stays last.
func mirrored(position, length int) int {
	if position == length-1 {
		return position
	}
	return length - 2 - position
}

func (l *lines) weights(p *Pair) error {
	var numbers []float32
	for field := range bytes.FieldsSeq(l.weight.line) {
		v, err := strconv.ParseFloat(string(field), 32)
		if err != nil || !(v >= 0 && v <= math.MaxFloat32) {
			return l.problem(l.weight, "holds %q, which is not a weight of at least 0", field)
		}
		numbers = append(numbers, float32(v))
	}
	n, whole := len(p.Target), len(p.Target)+p.cropped
	switch {
	case !l.files.WordWeights && len(numbers) == 1:
		for range n {
			p.Weights = append(p.Weights, numbers[0])
		}
	case l.files.WordWeights && len(numbers) == whole-1:
		p.Weights = append(append(p.Weights, numbers[:n-1]...), 1)
	case l.files.WordWeights && len(numbers) == whole:
		p.Weights = append(append(p.Weights, numbers[:n-1]...), numbers[whole-1])
	default:
		return l.problem(l.weight, "holds %d weights for a sentence of %d pieces", len(numbers), whole-1)
	}
	return nil
}

// Texts returns the lines of source and target as they are; several sources with tabs between them.
func Texts(f Files) (source, target []string, err error) {
	l, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	defer l.close()
	for l.next() {
		text := string(l.source)
		for _, further := range l.further {
			text += "\t" + string(further)
		}
		source, target = append(source, text), append(target, string(l.target))
	}
	return source, target, l.err
}
