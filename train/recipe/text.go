package recipe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/sluice-mt/sluice/internal/compress"
)

// ErrFormat is wrapped by errors about texts that are not what they should be.
var ErrFormat = errors.New("the text cannot be used")

// maxLine is the longest line of a text, in bytes.
const maxLine = 1 << 20

// Lines reads a text line by line, compressed or not. After an error there are no further lines.
func Lines(path string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield("", err)
			return
		}
		defer f.Close()
		plain, err := compress.NewReader(f)
		if err != nil {
			yield("", fmt.Errorf("%s: %w", path, err))
			return
		}
		defer plain.Close()
		scanner := bufio.NewScanner(plain)
		scanner.Buffer(nil, maxLine)
		for scanner.Scan() {
			if !yield(scanner.Text(), nil) {
				return
			}
		}
		if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield("", fmt.Errorf("%w: %s has a line of more than %d bytes: this is not one sentence a line", ErrFormat, path, maxLine))
		} else if err != nil {
			yield("", fmt.Errorf("reading %s: %w", path, err))
		}
	}
}

// A pair is a sentence and its translation.
type pair struct{ source, target string }

// pairs reads a corpus: source, tab, target, and further columns that are passed over.
func pairs(path string) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		number := 0
		for line, err := range Lines(path) {
			if number++; err == nil && !strings.Contains(line, "\t") {
				err = fmt.Errorf("%w: %s, line %d has no tab between source and target", ErrFormat, path, number)
			}
			if err != nil {
				yield(pair{}, err)
				return
			}
			fields := strings.SplitN(line, "\t", 3)
			if !yield(pair{fields[0], fields[1]}, nil) {
				return
			}
		}
	}
}

// A text is lines under a name.
type text struct {
	name  string
	lines iter.Seq2[string, error]
}

// plain is the text of a file.
func plain(path string) text { return text{path, Lines(path)} }

// side is one side of a corpus.
func side(path string, target bool) text {
	return text{path, func(yield func(string, error) bool) {
		for p, err := range pairs(path) {
			line := p.source
			if target {
				line = p.target
			}
			if !yield(line, err) {
				return
			}
		}
	}}
}

// sideBySide reads two texts, a line of each at a time.
func sideBySide(source, target text) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		next, stop := iter.Pull2(target.lines)
		defer stop()
		number := 0
		for left, err := range source.lines {
			right, rightErr, ok := next()
			if number++; err == nil && !ok {
				err = fmt.Errorf("%w: %s has %d lines, fewer than %s", ErrFormat, target.name, number-1, source.name)
			}
			if err = errors.Join(err, rightErr); err != nil {
				yield(pair{}, err)
				return
			}
			if !yield(pair{left, right}, nil) {
				return
			}
		}
		_, err, more := next()
		if more && err == nil {
			err = fmt.Errorf("%w: %s has more lines than the %d of %s", ErrFormat, target.name, number, source.name)
		}
		if err != nil {
			yield(pair{}, err)
		}
	}
}

// writePair writes a line of a corpus. What would end a field or a line becomes a space.
func writePair(out *bufio.Writer, p pair) error {
	_, err := out.WriteString(fieldBreaks.Replace(p.source) + "\t" + fieldBreaks.Replace(p.target) + "\n")
	return err
}

var fieldBreaks = strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")

// WriteText makes a text, compressed as its name says, that appears under its name when it is complete.
func WriteText(path string, text func(*bufio.Writer) error) error {
	return replace(path, func(f io.Writer) error { return compress.WriteWhole(f, compress.BySuffix(path), text) })
}

// writeSides divides corpora, one after another, into two texts; inverse puts their targets into the first.
func writeSides(corpora, paths []string, inverse bool) error {
	return WriteText(paths[0], func(first *bufio.Writer) error {
		return WriteText(paths[1], func(second *bufio.Writer) error {
			if inverse {
				first, second = second, first
			}
			for _, corpus := range corpora {
				for p, err := range pairs(corpus) {
					if err != nil {
						return err
					}
					if _, err := first.WriteString(p.source + "\n"); err != nil {
						return err
					}
					if _, err := second.WriteString(p.target + "\n"); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}
