package m2

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxLine bounds a line, in bytes. There are no such sentences.
const maxLine = 1 << 20

// A FormatError says which line of a file is not as the format wants it.
type FormatError struct {
	Line    int // from 1
	Problem string
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d %s", e.Line, e.Problem) }

// Fields of an annotation, and what stands for nothing in them.
const (
	fieldSeparator       = "|||"
	correctionSeparator  = "||"
	nothing              = "-NONE-"
	noCorrection         = "noop"
	fieldSpan, fieldType = 0, 1
	fieldCorrections     = 2
	fieldAnnotator       = 5
	fields               = 6
)

// Read reads a file in the M² format: for each sentence a line "S source tokens", a line for each edit,
//
//	A start end|||type|||correction||another|||REQUIRED|||-NONE-|||annotator
//
// and an empty line. A correction of -NONE- or nothing deletes; the type noop says that the annotator found nothing to
// correct, and so does the lack of any line. Lines that begin with "I " are passed over. Edits that lie outside their
// sentence are left out, as the scorer does; outside is their number. Errors about lines are *FormatError.
func Read(from io.Reader) (sentences []Sentence, outside int, err error) {
	r := reader{lines: bufio.NewReaderSize(from, 1<<16)}
	for {
		line, err := r.line()
		if err != nil && err != io.EOF {
			return nil, 0, err
		}
		if line == "" || err == io.EOF {
			r.finish()
		}
		if err == io.EOF {
			return r.sentences, r.outside, nil
		}
		if line == "" {
			continue
		}
		if err := r.take(line); err != nil {
			return nil, 0, err
		}
	}
}

type reader struct {
	lines     *bufio.Reader
	number    int
	sentences []Sentence
	outside   int

	open   bool // inside a block
	source string
	tokens []string
	edits  map[int][]Edit // by annotator
}

// line returns the next line without its end.
func (r *reader) line() (string, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return "", &FormatError{r.number + 1, fmt.Sprintf("is longer than %d bytes", maxLine)}
		}
		line = append(line, part...)
		switch {
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(line) == 0:
			return "", io.EOF
		case err == nil || err == io.EOF:
			r.number++
			return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
		default:
			return "", fmt.Errorf("reading edits: %w", err)
		}
	}
}

func (r *reader) problem(format string, args ...any) error {
	return &FormatError{r.number, fmt.Sprintf(format, args...)}
}

// take takes a line of a block.
func (r *reader) take(line string) error {
	switch {
	case strings.HasPrefix(line, "S "):
		if r.open {
			return r.problem("begins a second sentence where an empty line should end the first")
		}
		r.open, r.source, r.edits = true, strings.TrimFunc(line[2:], isSpace), map[int][]Edit{}
		r.tokens = strings.FieldsFunc(r.source, isSpace)
		return nil
	case !r.open:
		return r.problem("begins with neither \"S \", as a sentence does, nor is it empty")
	case strings.HasPrefix(line, "I "):
		return nil
	case strings.HasPrefix(line, "A "):
		return r.annotation(line[2:])
	}
	return r.problem("begins with neither \"A \", as an edit does, nor \"S \"")
}

// annotation takes a line about an edit.
func (r *reader) annotation(line string) error {
	parts := strings.Split(line, fieldSeparator)
	if len(parts) < fields {
		return r.problem("has %d fields between %s, but an edit has %d: span, type, correction, required, comment, annotator",
			len(parts), fieldSeparator, fields)
	}
	annotator, err := strconv.Atoi(strings.TrimSpace(parts[fieldAnnotator]))
	if err != nil || annotator < 0 {
		return r.problem("has %q for the number of the annotator", parts[fieldAnnotator])
	}
	e := Edit{Type: parts[fieldType]}
	span := strings.FieldsFunc(parts[fieldSpan], isSpace)
	if len(span) < 2 {
		return r.problem("has %q for a span, which is not two numbers", parts[fieldSpan])
	}
	var errs [2]error
	e.Start, errs[0] = strconv.Atoi(span[0])
	e.End, errs[1] = strconv.Atoi(span[1])
	if errors.Join(errs[:]...) != nil {
		return r.problem("has %q for a span, which is not two numbers", parts[fieldSpan])
	}
	edits := r.edits[annotator]
	switch {
	case e.Type == noCorrection:
	case e.Start < 0 || e.End < e.Start || e.End > len(r.tokens):
		r.outside++
	default:
		e.Corrections = corrections(parts[fieldCorrections])
		edits = append(edits, e)
	}
	r.edits[annotator] = edits
	return nil
}

func corrections(field string) []string {
	alternatives := strings.Split(field, correctionSeparator)
	for i, text := range alternatives {
		if text == nothing {
			text = ""
		}
		alternatives[i] = strings.TrimFunc(text, isSpace)
	}
	return alternatives
}

// finish ends a block.
func (r *reader) finish() {
	if !r.open {
		return
	}
	r.open = false
	s := Sentence{Source: r.source}
	for annotator, edits := range r.edits {
		s.Annotations = append(s.Annotations, Annotation{annotator, edits})
	}
	slices.SortFunc(s.Annotations, func(a, b Annotation) int { return cmp.Compare(a.Annotator, b.Annotator) })
	if len(s.Annotations) == 0 {
		s.Annotations = []Annotation{{}}
	}
	r.sentences = append(r.sentences, s)
}

// ErrUnwritable is wrapped by the errors about texts that the format cannot hold.
var ErrUnwritable = errors.New("the M² format cannot hold this text")

// Write writes a sentence so that Read reads the same but for white space around its source, or returns an error that wraps
// ErrUnwritable.
func Write(to io.Writer, s *Sentence) error {
	if err := s.writable(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "S %s\n", s.Source)
	for _, a := range s.Annotations {
		if len(a.Edits) == 0 {
			fmt.Fprintf(&b, "A -1 -1|||%s|||%s|||REQUIRED|||%s|||%d\n", noCorrection, nothing, nothing, a.Annotator)
		}
		for _, e := range a.Edits {
			fmt.Fprintf(&b, "A %d %d|||%s|||%s|||REQUIRED|||%s|||%d\n", e.Start, e.End, e.Type, e.correctionsField(), nothing, a.Annotator)
		}
	}
	b.WriteByte('\n')
	_, err := io.WriteString(to, b.String())
	return err
}

// correctionsField is what corrections reads as the edit's corrections. Each that deletes is named: two separators beside each
// other would be read as one of fields.
func (e *Edit) correctionsField() string {
	alternatives := slices.Clone(e.Corrections)
	for i, text := range alternatives {
		if text == "" {
			alternatives[i] = nothing
		}
	}
	return strings.Join(alternatives, correctionSeparator)
}

// writable says what the format cannot hold of a sentence.
func (s *Sentence) writable() error {
	if strings.ContainsAny(s.Source, "\n\r") {
		return fmt.Errorf("%w: there is a line end in %q", ErrUnwritable, s.Source)
	}
	length := len(tokens(s.Source))
	for i, a := range s.Annotations {
		if a.Annotator < 0 || i > 0 && a.Annotator <= s.Annotations[i-1].Annotator {
			return fmt.Errorf("%w: the annotators' numbers do not ascend at %d", ErrUnwritable, a.Annotator)
		}
		for _, e := range a.Edits {
			if err := e.writable(length); err != nil {
				return err
			}
		}
	}
	return nil
}

// writable says what the format cannot hold of an edit in a sentence of length tokens.
func (e *Edit) writable(length int) error {
	switch {
	case e.Start < 0 || e.End < e.Start || e.End > length:
		return fmt.Errorf("%w: an edit from token %d to %d lies outside a sentence of %d", ErrUnwritable, e.Start, e.End, length)
	case e.Type == noCorrection || strings.Contains(e.Type, fieldSeparator) || strings.HasSuffix(e.Type, "|") || strings.ContainsAny(e.Type, "\n\r"):
		return fmt.Errorf("%w: %q is no type of an edit", ErrUnwritable, e.Type)
	case len(e.Corrections) == 0:
		return fmt.Errorf("%w: an edit from token %d to %d has no correction; an empty one deletes", ErrUnwritable, e.Start, e.End)
	case slices.ContainsFunc(e.Corrections, unwritable):
		return fmt.Errorf("%w: the correction %q holds a line end, white space around it, or a bar where bars divide fields; Moses writes bars as &#124;",
			ErrUnwritable, e.Corrections)
	}
	return nil
}

// unwritable says whether a correction would be read as something else.
func unwritable(text string) bool {
	return strings.Contains(text, correctionSeparator) || strings.HasPrefix(text, "|") || strings.HasSuffix(text, "|") ||
		strings.ContainsAny(text, "\n\r") || text == nothing || text != strings.TrimFunc(text, isSpace)
}
